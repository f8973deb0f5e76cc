"""Counting: as whom an agent counts besides. A policy's participant is not escaped by a subagent or a child process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.protocol.limits import INSIDE_MAX

if TYPE_CHECKING:
    from interlock.coordinator.session import Session
    from interlock.coordinator.world import World


def counts_as(world: World, session: Session, agent: str, inside: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Whom a policy takes the agent for, besides itself; in a steady order.

    Every living agent that is bound to the same process, and whoever it was started by: the owners of the managed
    commands that it says that it is inside of, and of those whose keeper is an ancestor of the caller.

    Args:
        session: that it speaks through. inside: launches that it says it was started in, outermost first.
    """
    commands = world.gate.commands
    found: dict[str, None] = {}
    known = world.registry.living(agent)
    if known is not None and known.process is not None:
        found.update((each.name, None) for each in world.registry.agents.of_process(known.process))
    above = set(session.caller.ancestors()) if commands else set()
    around = [launch for launch, command in commands.items() if command.keeper in above] if above else []
    for launch in (*inside[:INSIDE_MAX], *around):
        command = commands.get(launch)
        if command is not None:
            found.update(dict.fromkeys((command.agent, *command.also)))
    found.pop(agent, None)
    return tuple(found)
