"""Watching: that what a resource depends on ends, a `bus run` or a gated command, becomes a word in its mailbox."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock.protocol.identity import Presence
from interlock.protocol.resource_commands import LaunchGone, WrapperGone
from interlock.protocol.resource_state import Launch, Ticket

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


def watch_wrapper(supervisor: Supervisor, key: str, ticket: Ticket) -> None:
    """Hear of a `bus run`'s end."""

    def gone() -> None:
        supervisor.tell(key, WrapperGone(ticket.request_id))

    if ticket.process is not None:
        supervisor.effects.watch(ticket.process, gone)


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
