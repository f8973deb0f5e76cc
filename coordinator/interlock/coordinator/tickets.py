"""Tickets: what is true, for one agent, of what it holds and waits for. Reads committed state; changes nothing but
that what was said here is not shown as news again."""

from collections.abc import Mapping

import msgspec

from interlock.coordinator import views
from interlock.coordinator.naming import Names, told_apart
from interlock.coordinator.session import Session
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.task_desk import tasks_of
from interlock.coordinator.territory_views import leases_of
from interlock.coordinator.world import INBOX
from interlock.protocol import control
from interlock.protocol.codes import Code
from interlock.protocol.durations import format_age
from interlock.protocol.inbox import Ack
from interlock.protocol.messages import Down, FromBus, Granted, Queued, Refused, Revoked, Text
from interlock.protocol.outcome import Now
from interlock.protocol.resource_draft import Draft, granted, queued
from interlock.protocol.resource_sets import granted_together, queued_together
from interlock.protocol.resource_state import (
    Lost,
    Resource,
    Ticket,
    Unit,
    UnitState,
    is_down,
    queued_of,
    tickets_of,
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
            said = self._said_of_loss(agent, key, lost)
            return msgspec.structs.replace(said, resource=called, why=f"{ago} ago: {lost.why}", fence=lost.fence)
        return Refused(Code.NOT_QUEUED, f"you neither hold {called} nor wait for it: bus request {called}", called)

    def truth_of_several(self, agent: str, keys: Mapping[str, str]) -> FromBus:
        """The same of several: GRANTED where all are, else what is true of the first that is lost, or QUEUED.

        Args: keys: with how each is called.
        """
        truths = [self.truth(agent, key, called) for key, called in keys.items()]
        over = next((each for each in truths if not isinstance(each, Granted | Queued)), None)
        if over is not None:
            return over
        waits = [each for each in truths if isinstance(each, Queued)]
        if waits:
            return queued_together(waits, [each.resource for each in truths if isinstance(each, Granted)])
        return granted_together([each for each in truths if isinstance(each, Granted)])

    def wait(self, session: Session, resource: str, follow: bool) -> FromBus:
        """What is true of a ticket now; `follow`: the session hears what becomes of it, too."""
        if follow:
            self._supervisor.follow(session)
        if resource == EVERYTHING:
            return Text("following")
        if "," in resource:
            names = [each.strip() for each in resource.split(",")]
            keys: tuple[str, ...] | Refused = tuple(dict.fromkeys(self._names.resolve(each, session) for each in names))
        elif resource:
            keys = self._all_of(session.agent, self._names.resolve(resource, session))
        else:
            keys = self._my_ticket(session.agent)
        if isinstance(keys, Refused):
            return keys
        if follow:
            session.following.update(keys)
        if len(keys) > 1:
            truth = self.truth_of_several(session.agent, {key: self._called(session.agent, key) for key in keys})
        else:
            truth = self.truth(session.agent, keys[0], resource or self._called(session.agent, keys[0]))
        for each in (getattr(truth, "together", ()) or (truth,)) if isinstance(truth, Granted | Revoked) else ():
            self._said(session.agent, each)
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
            tasks=tuple(tasks_of(world.tasks.values(), session.agent)),
        )

    def _said(self, agent: str, truth: Granted | Revoked) -> None:
        """What is said here need not be shown as news again; hearing of a grant is noticing it."""
        slot = f"{type(truth).__name__}:{truth.key}"
        ids = tuple(each.id for each in self._supervisor.world.inbox(agent).unread.values() if each.slot == slot)
        if ids:
            self._supervisor.tell(INBOX + agent, Ack(ids))
        self._supervisor.heard(agent)

    def _said_of_loss(self, agent: str, key: str, lost: Lost) -> Revoked:
        """What its agent was told of a loss, with the last words of what did not come up, while that is kept."""
        inbox, slot = self._supervisor.world.inbox(agent), f"{Revoked.__name__}:{key}"
        letters = [inbox.unread.in_slot(slot), *(each for each in inbox.acked.values() if each.slot == slot)]
        told = [each.body for each in letters if each is not None and isinstance(each.body, Revoked)]
        of_it = [each for each in told if each.fence == lost.fence and each.why in lost.why]
        return of_it[-1] if of_it else Revoked("", key, "", "")

    def _of_unit(self, resource: Resource, unit: Unit) -> FromBus:
        assert unit.ticket is not None
        if unit.state is UnitState.HELD and unit.step is None:
            if is_down(resource, unit):
                return Down(unit.ticket.called, resource.key, unit.fence, why_down(resource, unit))
            return granted(self._draft(resource), unit)
        if unit.state is UnitState.DRAINING:
            return Revoked(unit.ticket.called, resource.key, unit.ticket.request_id, unit.why, unit.fence, unit.code)
        return queued(self._draft(resource), unit.ticket)

    def _all_of(self, agent: str, key: str) -> tuple[str, ...]:
        """All that an agent waits for together with that one."""
        resource = self.resource(key)
        ticket = next((u.ticket for u in self._asked_units(key, agent) if not u.fence), queued_of(resource, agent))
        return ticket.together if ticket is not None and ticket.together else (key,)

    def _my_ticket(self, agent: str) -> tuple[str, ...] | Refused:
        """The one resource that a bare `bus wait` means, or several that are one request: waited for first, then
        held."""
        world = self._supervisor.world
        keys = self._supervisor.resources_of(agent)
        waiting = [key for key in keys if queued_of(world.resources[key], agent) or self._prepared(key, agent)]
        mine = waiting or [key for key in keys if self._asked_units(key, agent)]
        if len(mine) == 1 or (mine and set(self._together(agent, mine[0])) == set(mine)):
            return tuple(mine)
        lost = [] if mine else [key for _, key in self._names.lost(agent) if not self._gave_back(key, agent)]
        if lost:
            return (lost[-1],)  # it says when and why that was lost
        if not mine:
            return Refused(Code.NOT_QUEUED, f"{agent} waits for nothing and holds nothing: bus request RESOURCE")
        return Refused(
            Code.AMBIGUOUS_TARGET,
            f"say which: {', '.join(told_apart([(self._called(agent, key), key) for key in mine]))}",
        )

    def _together(self, agent: str, key: str) -> tuple[str, ...]:
        """What an agent asked for together with what it has there, or waits for."""
        tickets = [each for each in tickets_of(self.resource(key), agent) if not each.run]
        return tickets[0].together if tickets else ()

    def _gave_back(self, key: str, agent: str) -> bool:
        return self._supervisor.world.resources[key].lost[agent].why == "released"

    def _asked_units(self, key: str, agent: str) -> list[Unit]:
        units = self.resource(key).units
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
