"""Callers: what the socket can prove of the process at its other end."""

from interlock.adapters import process
from interlock.adapters.worktrees import git_top
from interlock.protocol.identity import Identity


class PeerCaller:
    """Implements coordinator.effects.Caller. Args: pid: from SO_PEERCRED, 0 where the system does not say."""

    def __init__(self, pid: int) -> None:
        self._identity = process.identify(pid) if pid else None
        self._pid = pid if self._identity is not None else 0
        self._ancestors: list[Identity] | None = None

    def ancestors(self) -> list[Identity]:
        if self._ancestors is None:
            above = [fact.identity for fact in process.ancestors(self._pid)] if self._pid else []
            self._ancestors = [*([self._identity] if self._identity is not None else []), *above]
        return self._ancestors

    def binding(self, hosts: frozenset[str]) -> tuple[Identity, str] | None:
        if not self._pid:
            return None
        host = process.nearest_host(self._pid, hosts)
        if host is not None:
            named = sorted(process.host_names(host) & hosts) or [host.name]
            return host.identity, f"{named[0]} (pid {host.pid})"
        leader = process.session_leader(self._pid)
        if leader is None or leader.pid == self._pid:  # a one-shot command is nobody's life
            return None
        return leader.identity, f"{leader.name} (pid {leader.pid})"

    def itself(self) -> tuple[Identity, str] | None:
        return self.bind_to(self._pid) if self._pid else None

    def bind_to(self, pid: int) -> tuple[Identity, str] | None:
        fact = process.fact(pid)
        return (fact.identity, f"{fact.name} (pid {pid})") if fact is not None else None

    def worktree(self, directory: str) -> str:
        return git_top(directory)
