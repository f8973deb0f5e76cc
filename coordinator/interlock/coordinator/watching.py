"""Watching: that what a resource depends on ends, a `bus run` or a gated command, becomes a word in its mailbox."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock.protocol.identity import Presence
from interlock.protocol.resource_commands import LaunchGone, WrapperGone
from interlock.protocol.resource_state import Launch, Ticket, tickets_of

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


def watch_launch(supervisor: Supervisor, key: str, launch: Launch) -> None:
    """Hear of a gated command's end; of one whose keeper cannot be seen at all nothing can be proved."""
    keeper = launch.keeper
    if supervisor.effects.probe(keeper) is Presence.UNKNOWN:
        evidence = f"the keeper of {launch.command} (pid {keeper.pid}) cannot be seen from here"
        supervisor.tell(key, LaunchGone(launch.launch, False, None, evidence))
        return

    async def report() -> None:
        gone = await supervisor.effects.launch_result(launch.launch, keeper)
        if gone is not None:
            supervisor.tell(key, gone)

    supervisor.effects.watch(keeper, partial(supervisor.spawn, report))
