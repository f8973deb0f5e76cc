"""Consequences: what follows from a decision once it is durable: answers, news, watches, steps, deadlines.

It decides nothing. What a decision says is said here, in the order of its events; what an agent has not heard here
waits in its inbox. One consequence that fails is logged, and the others happen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from interlock.coordinator.actor import Item
from interlock.coordinator.ids import new_id
from interlock.coordinator.journal import Staged
from interlock.coordinator.mail import touched
from interlock.coordinator.session import Session, answer_frame
from interlock.coordinator.take_up import departed
from interlock.coordinator.world import GATE, INBOX
from interlock.protocol.envelope import wire_time
from interlock.protocol.gate_commands import (
    CommandAdmitted,
    CommandFinished,
    CommandInDoubt,
    CommandRecovered,
    PolicyCleared,
    PolicySet,
)
from interlock.protocol.inbox import Deliver, Letter, MessageAcked, MessageSent
from interlock.protocol.messages import FromBus, Released
from interlock.protocol.names import COORDINATOR
from interlock.protocol.outcome import Outcome
from interlock.protocol.registry import AgentBound, AgentJoined, AgentLeft, Registry
from interlock.protocol.resource_commands import AgentGone, Order, TryTogether
from interlock.protocol.resource_events import (
    Down,
    Finished,
    Forgotten,
    HoldGranted,
    HoldReleased,
    HoldRevoked,
    RecoveryRequired,
    Requested,
    Started,
    StepDone,
    StepUndone,
    TicketCancelled,
)
from interlock.protocol.resource_state import Resource
from interlock.protocol.resource_waiting import next_deadline
from interlock.protocol.task_bookings import OF_RESERVATIONS
from interlock.protocol.territory_events import LeaseAsked, LeaseBegan, LeaseOver, LeaseUnused, LeaseUsed
from interlock.protocol.territory_state import Territory
from interlock.protocol.territory_state import next_deadline as next_of_leases

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor

log = structlog.get_logger("consequences")


class Consequences:
    """One per bus."""

    NOTICED = frozenset({  # the cases of `_notice`: most events are none of them
        *(Requested, Started, HoldReleased, HoldRevoked, StepDone, StepUndone, Finished, Down),
        *(TicketCancelled, MessageSent, AgentJoined, AgentBound, AgentLeft, RecoveryRequired, Forgotten),
        *(CommandAdmitted, CommandFinished, CommandInDoubt, CommandRecovered, PolicySet, PolicyCleared),
        *(LeaseAsked, LeaseBegan, LeaseUsed, LeaseUnused, MessageAcked),
    })  # fmt: skip

    WAITS_LESS = frozenset({HoldGranted, TicketCancelled, LeaseBegan, LeaseOver})  # after them an agent does

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def follow(self, address: str, outcome: Outcome[Any, Any], staged: Staged | None) -> None:
        """Speak, and begin what was decided.

        Args: address: of the actor. outcome: what it decided. staged: how that went on record; None: nothing did.
        """
        supervisor = self._supervisor
        for event in outcome.events:
            if type(event) in self.NOTICED:
                _each(address, self._notice, address, event)
            if type(event) in self.WAITS_LESS and not supervisor.is_only_at_one(event.agent, address):
                _each(address, supervisor.together.look_again, event.agent, address)
        if supervisor.world.bookings and any(type(event) in OF_RESERVATIONS for event in outcome.events):
            _each(address, supervisor.bookings.tell_owed, address)
        for send in outcome.outbox:
            if send.reply_to:
                _each(address, supervisor.answer, send.reply_to, send.to, send.body)
            elif send.run in supervisor.runs:
                _each(address, self._push, supervisor.runs[send.run], send.to, send.body, new_id())
        for agent, letter in staged.letters if staged is not None else ():
            _each(address, self.news, agent, letter)
        for agent in touched(address, outcome, staged):
            _each(address, supervisor.mail.changed, agent)
        joint = [order for order in outcome.steps if isinstance(order, TryTogether)]
        if joint:
            _each(address, supervisor.together.follow, joint)
        for order in outcome.steps:
            if isinstance(order, TryTogether):
                continue
            assert isinstance(order, Order)
            _each(address, supervisor.effects.begin, address, order)
        if isinstance(outcome.state, Resource):
            if staged is not None:
                _each(address, supervisor.states.changed, address)
            _each(address, supervisor.timer.arm, address, next_deadline(outcome.state, supervisor.clock.boot()))
        elif isinstance(outcome.state, Territory):
            deadline = next_of_leases(outcome.state, supervisor.clock.boot())
            _each(address, supervisor.timer.arm, address, deadline)
        elif isinstance(outcome.state, Registry):
            _each(address, supervisor.timer.arm, address, outcome.state.next_deadline())

    def news(self, agent: str, letter: Letter) -> None:
        """Show a new letter to the agent's live sessions that follow what it is about."""
        supervisor = self._supervisor
        key = getattr(letter.body, "key", "")
        sessions = [
            each
            for each in supervisor.followers.get(agent, ())
            if (key in each.following or not each.following) and not each.closed.is_set()
        ]
        for session in sessions:
            _each(INBOX + agent, self._push, session, agent, letter.body, letter.id, letter.sender)
        if sessions:
            supervisor.dispatcher.put(INBOX + agent, Item(Deliver((letter.id,)), lazy=True), own=True)

    def _notice(self, address: str, event: Any) -> None:
        """What the supervisor itself has to do with an event."""
        supervisor = self._supervisor
        match event:
            case Requested(agent, ticket):
                supervisor.involve(agent, address)
                gone = departed(supervisor.world.registry, ticket)
                if gone is not None:  # it left before this was on record: nobody else will say
                    supervisor.tell(address, gone)
                supervisor.watching.ticket(address, ticket)
            case Started(_, _, _, launch):
                supervisor.launches.register(address, launch.launch, launch.keeper, launch.command)
            case HoldReleased(agent, fence=fence) | HoldRevoked(agent, fence=fence):
                _each(address, self._over, address, agent, fence)
                self._strike_off(agent)
            case TicketCancelled(agent):
                self._strike_off(agent)
            case StepDone(unit, server=server) if server is not None:
                supervisor.effects.adopt(address, unit, server)
            case StepDone(launch=launch) | StepUndone(launch=launch) if launch:
                supervisor.effects.forget(launch)
            case Finished(launch=launch):
                supervisor.launches.over(address, launch)
            case RecoveryRequired(launch=launch) if launch:
                supervisor.launches.doubted(address, launch)
            case Down(launch=launch, gone=True):
                supervisor.effects.forget(launch)
            case MessageSent(to, letter):
                self.news(to, letter)
            case AgentJoined(agent):
                supervisor.attendance.joined(agent)
            case AgentBound(process=process) if process is not None:
                supervisor.attendance.watch(process)
            case CommandAdmitted(_, command):
                supervisor.launches.register(GATE, command.launch, command.keeper, command.command)
                supervisor.bookings.command(command.launch)
            case CommandFinished(launch=launch) | CommandRecovered(launch=launch):
                supervisor.launches.over(GATE, launch)
                supervisor.bookings.command(launch)
                supervisor.governing.follow(event)
            case CommandInDoubt(launch=launch):
                supervisor.launches.doubted(GATE, launch)
            case PolicySet() | PolicyCleared():
                supervisor.governing.follow(event)
            case LeaseAsked(_, lease) | LeaseBegan(_, lease):
                supervisor.watching.lease(address, lease)
            case MessageAcked(agent, ids):
                supervisor.bookings.acked(supervisor.world.inbox(agent), ids)
            case LeaseUsed(_, _, launch):
                supervisor.launches.register(address, launch.launch, launch.keeper, launch.command)
            case LeaseUnused(launch=launch):
                supervisor.launches.over(address, launch)
            case Forgotten():
                supervisor.governing.renew(address)
            case AgentLeft(name, incarnation, why):
                keys = [key for key, each in supervisor.world.territories.items() if each.concerns(name)]
                for key in (*supervisor.resources_of(name), *keys):
                    supervisor.tell(key, AgentGone(name, incarnation, why))

    def _strike_off(self, agent: str) -> None:
        """One that is gone says nothing any more: what it had is not looked up for it again."""
        if self._supervisor.world.registry.living(agent) is None:
            self._supervisor.resources_of(agent)

    def _over(self, key: str, agent: str, fence: int) -> None:
        """Show whoever follows that a hold has ended, also one that another program of the agent gave back."""
        supervisor = self._supervisor
        for session in supervisor.followers.get(agent, ()):
            if key in session.following or not session.following:
                _each(key, self._push, session, agent, Released(key, key, fence), new_id())

    def _push(self, session: Session, to: str, body: FromBus, message_id: str, sender: str = COORDINATOR) -> None:
        frame = answer_frame(message_id, wire_time(self._supervisor.clock.wall_ms()), to, body, "", sender=sender)
        session.push(frame)


def _each(address: str, happen: Callable[..., object], *args: Any) -> None:
    """One consequence. A fault in it is ours and logged: the decision stands, and so does what else follows."""
    try:
        happen(*args)
    except Exception as error:
        log.error("follow_up_failed", actor=address, exc_info=error)
