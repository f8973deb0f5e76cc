"""Attendance: what the lives of agents hang on. It watches, tells the registry, and decides nothing.

A process is watched. A program that is an agent itself has one secret for all its connections, and the registry is told
when the last of them has ended; it knows whether that matters: where a process is bound, only that counts (ADR 18).
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from interlock.coordinator.watches import Watches
from interlock.coordinator.world import REGISTRY
from interlock.protocol.codes import Code
from interlock.protocol.identity import Identity
from interlock.protocol.messages import FromBus, Joined, Refused
from interlock.protocol.registry import Agent, ProcessGone, SessionCut

if TYPE_CHECKING:
    from interlock.coordinator.session import Session
    from interlock.coordinator.supervisor import Supervisor


class Attendance:
    """One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._watches = Watches(lambda: supervisor.effects)  # of processes that agents are bound to
        self._sessions: dict[str, set[Session]] = {}  # agent → connections of programs that are it
        self._joining: set[Session] = set()  # they are answered first, whatever comes of it

    def begin(self) -> None:
        """After a start: watch again, and count from now for whom nobody is connected yet."""
        for agent in self._supervisor.world.registry.agents.values():
            if not agent.gone and agent.process is not None:
                self.watch(agent.process)
        self._supervisor.tell(REGISTRY, SessionCut())

    def watch(self, process: Identity) -> None:
        """One watch a process, however many agents are bound to it."""

        def gone() -> None:
            self._supervisor.tell(REGISTRY, ProcessGone(process))

        self._watches.watch(process, gone)

    def watched(self) -> int:
        """How many processes are watched, because agents are bound to them."""
        return len(self._watches)

    def let_go(self) -> None:
        """Watch no longer a process that nobody is bound to any more."""
        agents = self._supervisor.world.registry.agents
        for process in self._watches:
            if not agents.of_process(process):
                self._watches.let_go(process)

    def joined(self, agent: Agent) -> None:
        """A new incarnation. Whoever had the name before hears so by losing its connection."""
        if agent.process is not None:
            self.watch(agent.process)
        for session in list(self._sessions.get(agent.name, ())):
            if session not in self._joining and not _is_it(agent, session):
                session.close()

    # --- programs -----------------------------------------------------------------------------
    async def join(self, session: Session, name: str, secret: str, joining: Awaitable[FromBus]) -> FromBus:
        """Join a program: it counts as connected from before the registry decides, so that no end of it is missed."""
        self.forget(session)
        digest = hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        session.program, session.secret = name, digest
        self._sessions.setdefault(name, set()).add(session)
        self._joining.add(session)
        try:
            body = await joining
        finally:
            self._joining.discard(session)
        agent = self._supervisor.world.registry.living(name)
        if isinstance(body, Joined) and agent is not None and agent.incarnation > body.incarnation:
            session.close()  # somebody else has joined since: it comes back anew
        unwritten = isinstance(body, Refused) and body.code == Code.JOURNAL_UNAVAILABLE
        if not unwritten and (not isinstance(body, Joined) or agent is None or not _is_it(agent, session)):
            self.forget(session)
        return body

    def here(self) -> frozenset[tuple[str, str]]:
        """(agent, digest of its secret) of every connected program."""
        return frozenset((name, each.secret) for name, sessions in self._sessions.items() for each in sessions)

    def is_last(self, session: Session) -> bool:
        """The agent's life hangs on this connection and on no other."""
        mates = self._sessions.get(session.program, set()) - {session}
        return bool(session.program) and not any(each.secret == session.secret for each in mates)

    def ended(self, session: Session) -> None:
        """A connection has ended."""
        name, last = session.program, self.is_last(session)
        self.forget(session)
        if last:
            self._supervisor.tell(REGISTRY, SessionCut(name, session.secret))

    def left(self, session: Session) -> None:
        """The agent of that session has left, by its own word: the programs that were it hear so and come back anew."""
        self.forget(session)
        for other in list(self._sessions.get(session.agent, ())):
            other.close()

    def forget(self, session: Session) -> None:
        """Nobody's life hangs on this connection any more."""
        sessions = self._sessions.get(session.program)
        if sessions is not None:
            sessions.discard(session)
            if not sessions:
                del self._sessions[session.program]
        session.program = ""


def _is_it(agent: Agent, session: Session) -> bool:
    itself = session.caller.itself()
    if agent.process is not None:
        return itself is not None and itself[0] == agent.process
    return bool(agent.session) and agent.session == session.secret
