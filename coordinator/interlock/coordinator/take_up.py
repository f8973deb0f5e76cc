"""Taking up what a resource was in the middle of when the last supervisor ended, and what happened meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.protocol.registry import Registry
from interlock.protocol.resource_commands import AgentGone, Resume
from interlock.protocol.resource_state import Ticket, UnitState
from interlock.protocol.resource_waiting import next_deadline
from interlock.protocol.territory_state import next_deadline as next_of_leases

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


def take_up(supervisor: Supervisor, key: str) -> None:
    """Watch again what was watched, tell of who has gone, resume steps, and arm the deadline of one resource."""
    resource = supervisor.world.resource(key)
    for unit in resource.units:
        if unit.server is not None and (unit.step is None or not unit.step.launch):
            supervisor.effects.adopt(key, unit.name, unit.server)
    launches = {each.launch: each for unit in resource.units for each in unit.launches.values()}
    for launch in launches.values():  # one of which nobody knows the unit stands on all of them
        supervisor.launches.register(key, launch.launch, launch.keeper, launch.command)
    tickets = [*resource.queue.values(), *(unit.ticket for unit in resource.units if unit.ticket is not None)]
    for ticket in tickets:
        supervisor.involve(ticket.agent, key)
        supervisor.watching.ticket(key, ticket)
    gone = {word for ticket in tickets if (word := departed(supervisor.world.registry, ticket)) is not None}
    for word in sorted(gone, key=lambda each: (each.agent, each.incarnation)):
        supervisor.tell(key, word)
    supervisor.define(key)
    if any(unit.step is not None or (unit.state is UnitState.PREPARING and not unit.ready) for unit in resource.units):
        supervisor.tell(key, Resume())
    supervisor.timer.arm(key, next_deadline(resource, supervisor.clock.boot()))


def take_up_leases(supervisor: Supervisor, key: str) -> None:
    """The same for a repository's leases: watch what they are bound to, and arm their deadline."""
    territory = supervisor.world.territory(key)
    gone: dict[str, AgentGone] = {}
    for lease in [*territory.held.values(), *territory.waiting.values()]:
        supervisor.watching.lease(key, lease)
        for launch in lease.launches.values():
            supervisor.launches.register(key, launch.launch, launch.keeper, launch.command)
        agent = supervisor.world.registry.agents.get(lease.agent)
        if agent is not None and (agent.gone or lease.incarnation < agent.incarnation):
            last = agent.incarnation if agent.gone else agent.incarnation - 1
            gone[lease.agent] = AgentGone(agent.name, last, agent.why or "a later agent has its name")
    for word in gone.values():
        supervisor.tell(key, word)
    supervisor.timer.arm(key, next_of_leases(territory, supervisor.clock.boot()))


def departed(registry: Registry, ticket: Ticket) -> AgentGone | None:
    """The word that a ticket's agent has gone, where the registry knows it and the resource may not have heard."""
    agent = registry.agents.get(ticket.agent)
    if agent is None or ticket.run:
        return None
    if agent.gone and ticket.incarnation <= agent.incarnation:
        return AgentGone(agent.name, agent.incarnation, agent.why)
    if ticket.incarnation < agent.incarnation:
        return AgentGone(agent.name, agent.incarnation - 1, "a later agent has its name")
    return None
