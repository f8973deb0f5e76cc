"""Watching: that what a resource depends on ends, a `bus run`, becomes a word in its mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.protocol.resource_commands import WrapperGone
from interlock.protocol.resource_state import Ticket, tickets_of

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


def watch_wrapper(supervisor: Supervisor, key: str, ticket: Ticket) -> None:
    """Hear of the end of what a ticket lives by: a `bus run`, or the program that attends it.

    One watch a process, however many tickets it has had: which of them it has when it ends, their resources know.
    """
    process = ticket.process
    if process is None:
        return
    first = process not in supervisor.attended
    supervisor.attended.setdefault(process, set()).add((key, ticket.agent))

    def gone() -> None:
        for where, agent in sorted(supervisor.attended.pop(process)):
            for each in tickets_of(supervisor.world.resource(where), agent):
                if each.process == process:
                    supervisor.tell(where, WrapperGone(each.request_id))

    if first:
        supervisor.effects.watch(process, gone)
