"""Watching: that what a hold or a lease depends on ends, a `bus run` or a program, becomes a word in its mailbox."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from interlock.coordinator.watches import Watches
from interlock.coordinator.world import TERRITORY
from interlock.protocol.identity import Identity
from interlock.protocol.lease import Lease
from interlock.protocol.resource_commands import WrapperGone
from interlock.protocol.resource_state import Ticket, tickets_of
from interlock.protocol.territory_commands import ProcessEnded

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


class Watching:
    """One watch a process, whatever lives by it: what that is when it ends, their actors know. One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._watches = Watches(lambda: supervisor.effects)
        self._where: dict[Identity, set[tuple[str, str]]] = {}  # process → (address, agent) of what lives by it

    def ticket(self, key: str, ticket: Ticket) -> None:
        """Hear of the end of what a ticket lives by: a `bus run`, or the program that attends it."""
        if ticket.process is not None:
            self._watch(key, ticket.agent, ticket.process)

    def lease(self, address: str, lease: Lease) -> None:
        """Hear of the end of the process that a lease is bound to."""
        if lease.process is not None:
            self._watch(address, lease.agent, lease.process)

    def watched(self) -> int:
        """How many processes are watched."""
        return len(self._watches)

    def let_go(self) -> None:
        """Watch no longer what nothing lives by any more.

        Not at the moment at which a hold ends: who has had one soon has the next.
        """
        living = cache(self._living)
        for process, where in list(self._where.items()):
            where -= {each for each in where if process not in living(*each)}
            if not where:
                del self._where[process]
                self._watches.let_go(process)

    def _watch(self, address: str, agent: str, process: Identity) -> None:
        self._where.setdefault(process, set()).add((address, agent))

        def gone() -> None:
            for where, whose in sorted(self._where.pop(process)):
                self._tell(process, where, whose)

        self._watches.watch(process, gone)

    def _tell(self, process: Identity, address: str, agent: str) -> None:
        if address.startswith(TERRITORY):
            self._supervisor.tell(address, ProcessEnded(process, agent))
            return
        for each in tickets_of(self._supervisor.world.resource(address), agent):
            if each.process == process:
                self._supervisor.tell(address, WrapperGone(each.request_id))

    def _living(self, address: str, agent: str) -> set[Identity | None]:
        """What the holds, places and leases of an agent live by."""
        world = self._supervisor.world
        if address.startswith(TERRITORY):
            return {each.process for each in world.territory(address).leases_of(agent)}
        return {each.process for each in tickets_of(world.resource(address), agent)}
