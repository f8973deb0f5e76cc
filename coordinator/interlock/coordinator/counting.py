"""Counting: as whom an agent counts besides. A policy's participant is not escaped by a subagent or a child process.

Where names count by themselves, what a caller says of where it stands does too. Where tokens say who is who, or the
folder that it comes through, nobody else is spoken for by a mere word: the shared process, or the keeper of the command
around, is among the caller's ancestors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.protocol.limits import INSIDE_MAX

if TYPE_CHECKING:
    from interlock.coordinator.session import Session
    from interlock.coordinator.supervisor import Supervisor


def inside_of(supervisor: Supervisor, session: Session, agent: str, said: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The managed commands that an agent is started in, each once: those that it says, and those that are seen.

    Args:
        session: that it speaks through. said: launches, outermost first; of one that is over nothing follows.
    """
    commands = supervisor.world.gate.commands
    if not commands:
        return ()
    above = session.caller.ancestors()
    seen = [launch for each in above if (launch := supervisor.launches.of_keeper(each)) in commands]
    told = [launch for launch in said[:INSIDE_MAX] if launch in commands]
    if _is_known_for_certain(supervisor, session):
        told = [launch for launch in told if launch in seen or commands[launch].is_of((agent,))]
    return tuple(dict.fromkeys((*told, *seen)))


def counts_as(
    supervisor: Supervisor, session: Session, agent: str, inside: tuple[str, ...], *, above: bool = True
) -> tuple[str, ...]:
    """Whom a policy takes the agent for, besides itself; in a steady order.

    Every living agent that is bound to the same process or to an ancestor of the caller, whatever name the caller goes
    by; and whoever it was started by: the owners of the managed commands that it is inside of.

    Args:
        session: that it speaks through. inside: as `inside_of` has them.
        above: whether the caller's ancestors are looked at, which takes a look at the process table.
    """
    registry, found = supervisor.world.registry, dict[str, None]()
    known = registry.living(agent)
    if known is not None and known.process is not None:
        others = registry.agents.of_process(known.process)
        certain = len(others) > 1 and _is_known_for_certain(supervisor, session)
        if not certain or known.process in session.caller.ancestors():
            found.update((each.name, None) for each in others)
    for launch in inside:
        command = supervisor.world.gate.commands[launch]
        found.update(dict.fromkeys((command.agent, *command.also)))
    if above and len(registry.agents) > registry.agents.gone_count + (known is not None):  # somebody else is here
        for process in session.caller.ancestors():
            found.update((each.name, None) for each in registry.agents.of_process(process))
    found.pop(agent, None)
    return tuple(found)


def _is_known_for_certain(supervisor: Supervisor, session: Session) -> bool:
    """More than its own word says who speaks."""
    return supervisor.authority.by_token() or bool(session.owner)
