"""The agents that are known, found by name in any case, by the process that they are bound to, or by their worktree.

They never change: a change makes new ones, at the same small cost however many there are (ADR 24).
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from interlock.protocol.identity import Identity
from interlock.protocol.line import Line
from interlock.protocol.table import EMPTY, Table

Key = TypeVar("Key")
Names = Table[str, None]


class Agent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One name and its present incarnation.

    Args:
        process: that it bound; None: nothing.
        bound_to: the same for people: "claude (pid 4121)".
        worktree: real path of the git top it joined from; "" outside of any.
        session: digest of the session that it bound instead of a process; "": none.
        gone: proved gone, or it left; `why` says which.
        files: it uses its inbox folder; that outlives its incarnations.
    """

    name: str
    incarnation: int
    joined_ms: int
    process: Identity | None = None
    bound_to: str = ""
    worktree: str = ""
    gone: bool = False
    why: str = ""
    session: str = ""
    files: bool = False


class Agents:
    """Args: agents: in the order in which their names were first joined."""

    __slots__ = ("_by_name", "_gone", "_in_worktree", "_of_process", "_spelled", "gone_count")

    def __init__(self, agents: Iterable[Agent] = ()) -> None:
        by_name = {agent.name: agent for agent in agents}
        here = [agent for agent in by_name.values() if not agent.gone]
        self._by_name = Table(by_name)
        self._spelled = Table({name.casefold(): name for name in by_name})
        self._of_process = _index((agent.process, agent.name) for agent in here if agent.process is not None)
        self._in_worktree = _index((agent.worktree, agent.name) for agent in here if agent.worktree)
        self._gone = Line((agent.joined_ms, agent.name) for agent in by_name.values() if agent.gone)
        self.gone_count = len(by_name) - len(here)

    # --- changes: each makes new ones -----------------------------------------------------------
    def put(self, agent: Agent) -> "Agents":
        """With this agent, instead of the one that had its name."""
        new = self._copy()
        new._take(agent)
        return new

    def without(self, name: str) -> "Agents":
        """Without that one, who is among them."""
        new = self._copy()
        new._drop(self._by_name[name])
        new._by_name, new._spelled = self._by_name.without(name), self._spelled.without(name.casefold())
        return new

    # --- reading --------------------------------------------------------------------------------
    def __getitem__(self, name: str) -> Agent:
        return self._by_name[name]

    def get(self, name: str) -> Agent | None:
        """The agent of that name, here or gone."""
        return self._by_name.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def values(self) -> Iterator[Agent]:
        """In the order in which their names were first joined."""
        return self._by_name.values()

    def spelled(self, name: str) -> str:
        """How a name is spelled that differs from this one by case at most; the name itself where there is none."""
        return self._spelled.get(name.casefold(), name)

    def of_process(self, process: Identity) -> list[Agent]:
        """Who is here and bound to that process."""
        return [self._by_name[name] for name in self._of_process.get(process, _NOBODY)]

    def in_worktree(self, worktree: str) -> list[Agent]:
        """Who is here and joined from that worktree."""
        return [self._by_name[name] for name in self._in_worktree.get(worktree, _NOBODY)]

    def longest_gone(self) -> str:
        """The name of the one of those that are gone who joined first; "" where all are here."""
        return self._gone.first()

    def __eq__(self, other: object) -> bool:
        return self._by_name == other._by_name if isinstance(other, Agents) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # as of a dictionary

    def __repr__(self) -> str:
        return f"Agents({list(self.values())})"

    # --- straight helpers -----------------------------------------------------------------------
    def _copy(self) -> "Agents":
        new = Agents.__new__(Agents)
        for each in Agents.__slots__:
            setattr(new, each, getattr(self, each))
        return new

    def _take(self, agent: Agent) -> None:
        before = self._by_name.get(agent.name)
        if before is not None:
            self._drop(before)
        self._by_name = self._by_name.put(agent.name, agent)
        self._spelled = self._spelled.put(agent.name.casefold(), agent.name)
        if agent.gone:
            self._gone, self.gone_count = self._gone.add((agent.joined_ms, agent.name)), self.gone_count + 1
            return
        if agent.process is not None:
            self._of_process = _with(self._of_process, agent.process, agent.name)
        if agent.worktree:
            self._in_worktree = _with(self._in_worktree, agent.worktree, agent.name)

    def _drop(self, agent: Agent) -> None:
        """Out of what finds it otherwise than by its name."""
        if agent.gone:
            self._gone, self.gone_count = self._gone.remove((agent.joined_ms, agent.name)), self.gone_count - 1
            return
        if agent.process is not None:
            self._of_process = _minus(self._of_process, agent.process, agent.name)
        if agent.worktree:
            self._in_worktree = _minus(self._in_worktree, agent.worktree, agent.name)


_NOBODY: Names = EMPTY


def _index(pairs: Iterable[tuple[Key, str]]) -> Table[Key, Names]:
    found: dict[Key, dict[str, None]] = {}
    for key, name in pairs:
        found.setdefault(key, {})[name] = None
    return Table({key: Table(names) for key, names in found.items()})


def _with(index: Table[Key, Names], key: Key, name: str) -> Table[Key, Names]:
    return index.put(key, index.get(key, _NOBODY).put(name, None))


def _minus(index: Table[Key, Names], key: Key, name: str) -> Table[Key, Names]:
    rest = index[key].without(name)
    return index.put(key, rest) if rest else index.without(key)
