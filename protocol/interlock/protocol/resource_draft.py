"""A draft: a decision while it is being made. It holds the state that is to be, and what follows from it."""

from interlock.protocol.definition import command_of
from interlock.protocol.limits import BLOCKERS_TOLD_MAX
from interlock.protocol.messages import FromBus, Granted, Queued, Refused
from interlock.protocol.outcome import Deadline, Now, Outcome, Send, Withdraw, after
from interlock.protocol.resource_commands import AbortStep, Order, TryTogether
from interlock.protocol.resource_events import (
    PassedOver,
    PrepareFailed,
    RecoveryRequired,
    ResourceEvent,
    StepAborting,
    TicketCancelled,
    may_end,
)
from interlock.protocol.resource_evolve import evolve
from interlock.protocol.resource_set_events import SetAside, SetReady
from interlock.protocol.resource_state import (
    Resource,
    Step,
    StepKind,
    Ticket,
    Unit,
    UnitState,
    find_ticket,
    position,
    serves_itself,
)

TAKES_APART = frozenset({TicketCancelled, PassedOver, PrepareFailed, RecoveryRequired, SetAside, SetReady})
BLOCKERS_NAMED = 3  # of those that must end first; bus ps shows all


class Draft:
    """Folds each event at once, so that the next question is asked of the state that is to be.

    Args:
        asker: id of the message under decision; direct answers reply to it.

    `asked_for` is the ticket that the asker wants: what becomes of it is the direct answer too.
    `given` is the unit that a HANDOVER gives to one who has not asked. `began` is the state that is decided on.
    `gathered` takes the direct answers of a joint step, of which one is made. `apart`: keys of sets of which this
    decision has ended, passed or readied a part: the others have to hear of it.
    """

    def __init__(self, resource: Resource, now: Now, asker: str = "") -> None:
        self.began = self.state = resource
        self.now = now
        self.asker = asker
        self.asked_for = asker
        self.given = ""
        self._events: list[ResourceEvent] = []
        self._outbox: list[Send] = []
        self._withdraw: list[Withdraw] = []
        self._steps: list[Order | TryTogether] = []
        self.gathered: list[FromBus] | None = None
        self.apart: tuple[str, ...] = ()

    def event(self, event: ResourceEvent) -> None:
        if type(event) in TAKES_APART:
            ticket, _ = find_ticket(self.state, getattr(event, "request_id", ""))
            if ticket is not None and ticket.together:
                self.apart += ticket.together
        self.state = evolve(self.state, event)
        self._events.append(event)

    def events(self) -> tuple[ResourceEvent, ...]:
        """What has been decided so far."""
        return tuple(self._events)

    def next_seq(self) -> int:
        """The number that the next event will have."""
        return self.now.seq + len(self._events)

    def answer(self, to: str, body: FromBus) -> None:
        if self.gathered is not None:
            self.gathered.append(body)
            return
        self._outbox.append(Send(to, body, reply_to=self.asker))

    def refuse(self, to: str, code: str, why: str, called: str = "") -> None:
        self.answer(to, Refused(code, why, called))

    def answered(self) -> bool:
        return any(send.reply_to == self.asker for send in self._outbox)

    def tell(self, ticket: Ticket, body: FromBus) -> None:
        """Put a message into the inbox of a ticket's agent; of each type only the newest about this resource stays
        unread. What concerns a `bus run` goes to its wrapper instead."""
        if ticket.run:
            self._outbox.append(Send(ticket.agent, body, run=ticket.request_id))
        else:
            self._outbox.append(Send(ticket.agent, body, slot=f"{type(body).__name__}:{self.state.key}"))

    def notify(self, agent: str, body: FromBus, slot: str) -> None:
        """Put a message into the inbox of an agent that has no ticket here; of each slot the newest stays unread."""
        self._outbox.append(Send(agent, body, slot=slot))

    def told(self, ticket: Ticket, body: type) -> bool:
        """This decision has told that ticket's agent, or its `bus run`, such a message already."""
        to, run = ticket.agent, ticket.request_id if ticket.run else ""
        outbox = self._outbox
        return any(type(s.body) is body and (s.to, s.run) == (to, run) and not s.reply_to for s in outbox)

    def withdraw(self, ticket: Ticket, *bodies: type) -> None:
        """Take messages about this resource that no longer hold out of the inbox of a ticket's agent."""
        if not ticket.run:
            self._withdraw += [Withdraw(ticket.agent, f"{body.__name__}:{self.state.key}") for body in bodies]

    def withdraw_slot(self, agent: str, slot: str) -> None:
        """Take what `notify` put there out of an agent's inbox."""
        self._withdraw.append(Withdraw(agent, slot))

    def order(self, order: Order | TryTogether) -> None:
        self._steps.append(order)

    def abort(self, unit: Unit) -> None:
        """Nobody wants the step under way on a unit any more; a stop or a look is let finish, and what may not be
        interrupted too."""
        if unit.step is not None and not unit.step.aborting and self._may_be_aborted(unit, unit.step):
            self.event(StepAborting(unit.name, unit.step.number))
            self.order(AbortStep(unit.name, unit.step.number))

    def _may_be_aborted(self, unit: Unit, step: Step) -> bool:
        if step.kind is StepKind.START:
            return True
        command = command_of(self.state.definition, unit.name)
        return step.kind is StepKind.PREPARE and (command is None or command.repeatable or not step.launch)

    def outcome(self) -> Outcome[Resource, ResourceEvent]:
        return Outcome(self.state, tuple(self._events), tuple(self._outbox), tuple(self._withdraw), tuple(self._steps))


def granted(draft: Draft, unit: Unit, *, shared: bool = False) -> Granted:
    """GRANTED as it is true now."""
    assert unit.ticket is not None
    server, carried = unit.server, unit.carried
    return Granted(
        resource=unit.ticket.called,
        key=draft.state.key,
        fence=unit.fence,
        request_id=unit.ticket.request_id,
        unit=unit.name,
        url=server.definition.url if server is not None else "",
        worktree=unit.ticket.worktree,
        until_ms=unit.until_ms,
        for_ms=max(0, unit.until_ms - draft.now.at_ms) if unit.until_ms else 0,
        running_since_ms=server.since_ms if carried and server is not None else 0,
        running_ms=max(0, draft.now.at_ms - server.since_ms) if carried and server is not None else 0,
        commit=server.commit if carried and server is not None else "",
        shared=shared,
        note="previous owner silent, not proved gone" if unit.after_silence else "",
    )


def queued(draft: Draft, ticket: Ticket) -> Queued:
    """QUEUED as it is true now."""
    state, at = draft.state, position(draft.state, ticket.request_id)
    unit = next((u for u in state.units if u.ticket is not None and u.ticket.request_id == ticket.request_id), None)
    if unit is not None:
        return Queued(ticket.called, state.key, at, ticket.request_id, "preparing", note=_why_waiting(unit))
    # The unit that says most about the wait: one in doubt, else the one held longest.
    order = [UnitState.RECOVERY_REQUIRED, UnitState.HELD, UnitState.DRAINING, UnitState.PREPARING, UnitState.FREE]
    unit = min(state.units, key=lambda u: (order.index(u.state), u.since_ms))
    holder = unit.ticket
    why = "preparing_other" if unit.state is UnitState.PREPARING else str(unit.state)
    if unit.state is UnitState.FREE and not serves_itself(state):
        why = "blocked" if state.blockers else "controller"
    return Queued(
        resource=ticket.called,
        key=state.key,
        position=at,
        request_id=ticket.request_id,
        state="grace" if unit.is_in_grace() else why,
        holder=holder.agent if holder is not None else "",
        held_ms=max(0, draft.now.at_ms - unit.since_ms) if unit.fence else 0,
        holder_purpose=holder.purpose if holder is not None else "",
        holder_left_ms=max(0, unit.until_ms - draft.now.at_ms) if unit.until_ms else 0,
        note="; ".join(filter(None, (_why_waiting(unit), _why_governed(state)))),
    )


def blocking(state: Resource) -> str:
    """Which commands must end before anybody is granted, in half a sentence."""
    named, more = state.blockers[:BLOCKERS_NAMED], len(state.blockers) - BLOCKERS_NAMED
    many = "many" if len(state.blockers) == BLOCKERS_TOLD_MAX else more
    which = ", ".join(named) + (f" and {many} more" if more > 0 else "")
    return f"{which} began without it and must end first (bus ps)"


def _why_governed(state: Resource) -> str:
    """What decides besides: commands that must end, and the controller."""
    chooses = f"{state.policy.controller} chooses who is next (epoch {state.epoch})" if state.policy is not None else ""
    return "; ".join(filter(None, (blocking(state) if state.blockers else "", chooses)))


def _why_waiting(unit: Unit) -> str:
    if unit.blocked and not may_end(unit.blocked):
        return f"{unit.blocked}; once that is given back and stopped the hand-over goes on by itself"
    if unit.blocked:
        return f"{unit.blocked}; end that process yourself, the hand-over then goes on by itself"
    return unit.why if unit.state is UnitState.RECOVERY_REQUIRED else ""


def arrival_of(draft: Draft, agent: str) -> int:
    """Where a newcomer stands: at the back, or where a `bus run` of its own stood that gave up a moment ago."""
    kept = draft.state.remembered.get(agent)
    return kept.arrival if kept is not None and not kept.until.is_due(draft.now) else draft.state.next_arrival


def declared(draft: Draft, time_ms: int | None) -> tuple[Deadline | None, int]:
    """Until when polls are respected, and until when the owner said it needs the resource (wall clock, ms)."""
    if time_ms is None:
        return None, 0
    return after(draft.now, min(time_ms, draft.state.definition.time_max_ms)), draft.now.at_ms + time_ms
