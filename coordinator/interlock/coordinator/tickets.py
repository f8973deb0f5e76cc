"""Tickets: what is true, for one agent, of what it holds and waits for. Reads committed state; changes nothing but
that what was said here is not shown as news again."""

from interlock.coordinator import views
from interlock.coordinator.naming import Names, told_apart
from interlock.coordinator.session import Session
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.territory_views import leases_of
from interlock.coordinator.world import INBOX
from interlock.protocol import control
from interlock.protocol.codes import Code
from interlock.protocol.durations import format_age
from interlock.protocol.inbox import Ack
from interlock.protocol.messages import Down, FromBus, Granted, Queued, Refused, Revoked, Text
from interlock.protocol.outcome import Now
from interlock.protocol.resource_draft import Draft, granted, queued
from interlock.protocol.resource_state import (
    Resource,
    Ticket,
    Unit,
    UnitState,
    is_down,
    queued_of,
    unit_of,
    why_down,
)

EVERYTHING = "*"  # follow whatever comes; no resource can have that name


class Tickets:
    """One per bus."""

    def __init__(self, supervisor: Supervisor, names: Names) -> None:
        self._supervisor = supervisor
        self._names = names

    def truth(self, agent: str, key: str, called: str) -> FromBus:
        """What is true of an agent's ticket for a resource: GRANTED, QUEUED, REVOKED, or that there is none."""
        resource = self.resource(key)
        for unit in resource.units:
            if unit.ticket is not None and unit.ticket.agent == agent and not unit.ticket.run:
                return self._of_unit(resource, unit)
        ticket = queued_of(resource, agent)
        if ticket is not None:
            return queued(self._draft(resource), ticket)
        lost = resource.lost.get(agent)
        if lost is not None:
            ago = format_age(self._supervisor.clock.wall_ms() - lost.at_ms)
            return Revoked(called, key, "", f"{ago} ago: {lost.why}", lost.fence)
        return Refused(Code.NOT_QUEUED, f"you neither hold {called} nor wait for it: bus request {called}", called)

    def wait(self, session: Session, resource: str, follow: bool) -> FromBus:
        """What is true of a ticket now; `follow`: the session hears what becomes of it, too."""
        if follow:
            self._supervisor.follow(session)
        if resource == EVERYTHING:
            return Text("following")
        key = self._names.resolve(resource, session) if resource else self._my_ticket(session.agent)
        if isinstance(key, Refused):
            return key
        if follow:
            session.following.add(key)
        truth = self.truth(session.agent, key, resource or self._called(session.agent, key))
        if isinstance(truth, Granted | Revoked):
            self._said(session.agent, truth)
        return truth

    def check(self, session: Session, called: str) -> FromBus:
        """Yours now and ready, or a refusal that says when and why not."""
        agent, key = session.agent, self._names.resolve(called, session)
        truth = self.truth(agent, key, called)
        under_run = unit_of(self.resource(key), agent, run=True)
        if not isinstance(truth, Granted) and under_run is not None and under_run.state is UnitState.HELD:
            return granted(self._draft(self.resource(key)), under_run, shared=True)  # asked from inside a bus run
        match truth:
            case Granted():
                return truth
            case Down():
                return Refused(Code.NOT_HOLDER, f"{called} is yours, but it is down: bus restart {called}")
            case Queued(position=at):
                return Refused(
                    Code.NOT_HOLDER, f"{called} is not yours yet, you are at {at}: bus wait {called}", called
                )
            case Revoked(why=why):
                return Refused(
                    Code.NOT_HOLDER, f"{called} is not yours any more, {why}; to get it: bus request {called}", called
                )
        return Refused(Code.NOT_HOLDER, f"{called} is not yours: bus request {called}", called)

    def me(self, session: Session) -> control.MeReply:
        """Everything an agent needs that has lost its memory."""
        world, agent = self._supervisor.world, self._supervisor.world.registry.agents.get(session.agent)
        keys = self._supervisor.resources_of(session.agent)
        now_ms = self._supervisor.clock.wall_ms()
        lost = []
        for key, resource in world.resources.items():
            ended = resource.lost.get(session.agent)
            if ended is not None and not self._gave_back(key, session.agent) and key not in keys:
                name = self._names.shown(key, session)
                lost.append(f"{name} was lost {format_age(now_ms - ended.at_ms)} ago: {ended.why}")
        return control.MeReply(
            agent=session.agent,
            how=session.how,
            incarnation=agent.incarnation if agent is not None else 0,
            bound_to=agent.bound_to if agent is not None else "",
            worktree=agent.worktree if agent is not None else session.worktree,
            tickets=tuple(views.holdings(world, session.agent, keys)),
            unread=len(world.inbox(session.agent).unread),
            lost=tuple(lost),
            leases=tuple(leases_of(world.territories.values(), session.agent, self._supervisor.now())),
        )

    def _said(self, agent: str, truth: Granted | Revoked) -> None:
        """What is said here need not be shown as news again; hearing of a grant is noticing it."""
        slot = f"{type(truth).__name__}:{truth.key}"
        ids = tuple(each.id for each in self._supervisor.world.inbox(agent).unread.values() if each.slot == slot)
        if ids:
            self._supervisor.tell(INBOX + agent, Ack(ids))
        self._supervisor.heard(agent)

    def _of_unit(self, resource: Resource, unit: Unit) -> FromBus:
        assert unit.ticket is not None
        if unit.state is UnitState.HELD and unit.step is None:
            if is_down(resource, unit):
                return Down(unit.ticket.called, resource.key, unit.fence, why_down(resource, unit))
            return granted(self._draft(resource), unit)
        if unit.state is UnitState.DRAINING:
            return Revoked(unit.ticket.called, resource.key, unit.ticket.request_id, unit.why, unit.fence, unit.code)
        return queued(self._draft(resource), unit.ticket)

    def _my_ticket(self, agent: str) -> str | Refused:
        """The one resource that a bare `bus wait` means: waited for first, then held."""
        world = self._supervisor.world
        keys = self._supervisor.resources_of(agent)
        waiting = [key for key in keys if queued_of(world.resources[key], agent) or self._prepared(key, agent)]
        mine = waiting or [key for key in keys if self._asked_units(key, agent)]
        if len(mine) == 1:
            return mine[0]
        lost = [] if mine else [key for _, key in self._names.lost(agent) if not self._gave_back(key, agent)]
        if lost:
            return lost[-1]  # it says when and why that was lost
        if not mine:
            return Refused(Code.NOT_QUEUED, f"{agent} waits for nothing and holds nothing: bus request RESOURCE")
        return Refused(
            Code.AMBIGUOUS_TARGET,
            f"say which: {', '.join(told_apart([(self._called(agent, key), key) for key in mine]))}",
        )

    def _gave_back(self, key: str, agent: str) -> bool:
        return self._supervisor.world.resources[key].lost[agent].why == "released"

    def _asked_units(self, key: str, agent: str) -> list[Unit]:
        units = self._supervisor.world.resources[key].units
        return [u for u in units if u.ticket is not None and u.ticket.agent == agent and not u.ticket.run]

    def _prepared(self, key: str, agent: str) -> bool:
        return any(unit.state is UnitState.PREPARING for unit in self._asked_units(key, agent))

    def _called(self, agent: str, key: str) -> str:
        resource = self._supervisor.world.resource(key)
        tickets: list[Ticket | None] = [unit.ticket for unit in self._asked_units(key, agent)]
        ticket = next(iter([*tickets, queued_of(resource, agent)]), None)
        return ticket.called if ticket is not None else key

    def _draft(self, resource: Resource) -> Draft:
        clock = self._supervisor.clock
        return Draft(resource, Now(clock.wall_ms(), clock.boot(), clock.mono_ms(), 0))

    def resource(self, key: str) -> Resource:
        """A resource's committed state; one that nobody ever asked for is free, as it is declared."""
        return self._supervisor.world.resource(key, self._supervisor.config.definition(key))
