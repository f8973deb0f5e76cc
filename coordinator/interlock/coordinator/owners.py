"""Whose the processes of this machine are, as far as the bus knows: who must not end them by a name or a port."""

from collections.abc import Iterator

from interlock.coordinator.world import World
from interlock.protocol.gate_questions import Owned, OwnersReply
from interlock.protocol.names import short_name
from interlock.protocol.resource_state import Unit


def owners(world: World) -> OwnersReply:
    """Agents' own processes, the commands of `bus run`, and what the bus itself has started for a holder."""
    found = [
        Owned(agent.process, agent.name, f"agent {agent.name}")
        for agent in world.registry.agents.values()
        if agent.process is not None and not agent.gone
    ]
    found += [
        Owned(each.keeper, each.agent, f"{each.launch} ({each.command}) of {each.agent}", task=each.task)
        for each in world.gate.commands.values()
    ]
    for key, resource in world.resources.items():
        for unit in resource.units:
            found += _of_unit(short_name(key), unit)
    return OwnersReply(tuple(found))


def _of_unit(name: str, unit: Unit) -> Iterator[Owned]:
    agent = unit.ticket.agent if unit.ticket is not None else ""
    held = f", which {agent} has" if agent else ""
    if unit.server is not None:
        yield Owned(unit.server.keeper, agent, f"the server of {name}{held}", by_bus=True)
    if unit.step is not None and unit.step.keeper is not None:
        yield Owned(unit.step.keeper, agent, f"the {unit.step.kind} of {name}{held}", by_bus=True)
