"""Watching: that what a hold or a lease depends on ends, a `bus run` or a program, becomes a word in its mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.coordinator.world import TERRITORY
from interlock.protocol.identity import Identity
from interlock.protocol.lease import Lease
from interlock.protocol.resource_commands import WrapperGone
from interlock.protocol.resource_state import Ticket, tickets_of
from interlock.protocol.territory_commands import ProcessEnded

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


def watch_wrapper(supervisor: Supervisor, key: str, ticket: Ticket) -> None:
    """Hear of the end of what a ticket lives by: a `bus run`, or the program that attends it."""
    if ticket.process is not None:
        _watch(supervisor, key, ticket.agent, ticket.process)


def watch_holder(supervisor: Supervisor, key: str, lease: Lease) -> None:
    """Hear of the end of the process that a lease is bound to."""
    if lease.process is not None:
        _watch(supervisor, key, lease.agent, lease.process)


def _watch(supervisor: Supervisor, key: str, agent: str, process: Identity) -> None:
    """One watch a process, whatever hangs on it: what that is when it ends, their actors know."""
    first = process not in supervisor.attended
    supervisor.attended.setdefault(process, set()).add((key, agent))

    def gone() -> None:
        for where, whose in sorted(supervisor.attended.pop(process)):
            if where.startswith(TERRITORY):
                supervisor.tell(where, ProcessEnded(process, whose))
                continue
            for each in tickets_of(supervisor.world.resource(where), whose):
                if each.process == process:
                    supervisor.tell(where, WrapperGone(each.request_id))

    if first:
        supervisor.effects.watch(process, gone)
