"""The hand-over: a free unit, the first who can take it, and what the end of each step leads to.

`settle` runs at the end of every decision: so every way in which a unit gets free wakes the next waiter,
in the same record, and there is no second place that could forget to. Which step follows which: `resource_steps.py`.
"""

from itertools import islice

from interlock.protocol.codes import Code
from interlock.protocol.definition import Definition, Kind
from interlock.protocol.limits import ARRIVAL_REMEMBERED_MS, DOUBT_TOLD_MAX
from interlock.protocol.messages import Cancelled, Down, Granted, Queued, Revoked, StillUsing
from interlock.protocol.outcome import after
from interlock.protocol.resource_commands import (
    PortBlocked,
    ServerGone,
    StepFailure,
    StepResult,
)
from interlock.protocol.resource_draft import Draft, declared, granted, queued
from interlock.protocol.resource_events import (
    Blocked,
    Defined,
    HoldGranted,
    PrepareFailed,
    RecoveryRequired,
    StepDone,
    StepUndone,
    TicketCancelled,
)
from interlock.protocol.resource_events import Down as WentDown
from interlock.protocol.resource_set_events import SetReady
from interlock.protocol.resource_standing import NOT_UP_AGAIN, STOPPED_WITH_BUS
from interlock.protocol.resource_state import (
    Remains,
    Resource,
    StepKind,
    Ticket,
    Unit,
    UnitState,
    first_grantable,
    is_preparing,
    serves_itself,
)
from interlock.protocol.resource_steps import anew_kind, first_kind, may_run_again, next_kind, start_step
from interlock.protocol.resource_waiting import arm

NEEDS_WORKTREE = "it runs from a worktree now: ask again from an existing absolute directory instead of '-'"


def settle(draft: Draft, first_before: str) -> None:
    """Grant what is free, arm what must be watched, tell whoever has become the first.

    What a ticket for several resources could have is left free for it: whether it can have all, only a joint step sees.
    """
    redefine(draft)
    while serves(draft) and (ticket := first_grantable(draft.state)) is not None:
        if ticket.together:
            if draft.events() and has_free_unit(draft.state):
                draft.apart += ticket.together
            break
        if not serve(draft, ticket):
            break
    finish(draft, first_before)


def finish(draft: Draft, first_before: str) -> None:
    """Arm what must be watched, tell whoever has become the first."""
    arm(draft)
    first = draft.state.queue.first()
    if not first or first in {first_before, draft.asked_for} or is_preparing(draft.state):
        return
    ticket = draft.state.queue[first]
    if ticket.together:
        return  # its place is that of all of them: it hears of the grant
    if not draft.told(ticket, Queued):
        draft.tell(ticket, queued(draft, ticket))


def serve(draft: Draft, ticket: Ticket) -> bool:
    """Begin the hand-over to a ticket in the queue; False where no unit is free for it."""
    unit = free_unit_for(draft, ticket)
    if unit is None:
        return False
    begin(draft, unit, ticket)
    return True


def first_of(draft: Draft) -> str:
    """Whose position is 1 and knows it: nobody's while the unit is being prepared for another."""
    return "" if is_preparing(draft.state) else draft.state.queue.first()


def step_result(draft: Draft, command: StepResult) -> None:
    """A step succeeded: go on to the next one, or to the grant."""
    unit = draft.state.unit(command.unit)
    step = unit.step
    if step is None or step.number != command.step:
        return  # A late word about a step that is already over.
    carried = step.kind is StepKind.VERIFY and _stood(draft, unit)
    ended = step.launch if step.kind is not StepKind.START else ""
    if step.kind is StepKind.STOP and unit.server is not None:
        ended = unit.server.launch
    draft.event(StepDone(unit.name, step.number, step.kind, command.server, command.evidence, ended))
    unit = draft.state.unit(unit.name)
    if unit.ticket is None or unit.state not in {UnitState.PREPARING, UnitState.HELD}:
        return
    if step.halt and unit.state is UnitState.HELD:
        _tell_down(draft, unit, STOPPED_WITH_BUS)
        return
    if step.halt:
        return  # it was ready for one who waits for others: a new bus begins again
    following = next_kind(draft, unit, step.kind, restart=step.restart)
    if carried and draft.state.definition.kind is Kind.SERVER and (unit.server is None or not unit.server.alive):
        following = anew_kind(draft, unit)  # it died under the look
    if following is not None:
        start_step(draft, unit, following, restart=step.restart)
    elif unit.state is UnitState.HELD:
        draft.tell(unit.ticket, granted(draft, unit))
    elif unit.ticket.together:
        draft.event(SetReady(unit.name, unit.ticket.agent, unit.ticket.request_id, carried))
    else:
        grant(draft, unit, unit.ticket, carried=carried)


def step_failure(draft: Draft, command: StepFailure) -> None:
    """A step failed: whose fault it is decides who pays. Source: architecture, the resource machine, 4."""
    unit = draft.state.unit(command.unit)
    step, ticket = unit.step, unit.ticket
    if step is None or step.number != command.step:
        return
    again = command.never_started or (command.interrupted and may_run_again(draft, unit, proved=command.proved))
    if not again and (not command.proved or command.interrupted or step.kind is StepKind.STOP):
        recovery_required(draft, unit, command.why)
        return
    carried = step.kind is StepKind.VERIFY and _stood(draft, unit)
    draft.event(StepUndone(unit.name, step.number, step.kind, command.why, step.launch, command.never_started))
    unit = draft.state.unit(unit.name)
    if ticket is None or unit.state not in {UnitState.PREPARING, UnitState.HELD}:
        return
    following = step.kind if again else None
    if carried and (not again or draft.state.definition.kind is Kind.SERVER):
        anew = anew_kind(draft, unit)  # what was carried over is not healthy
        following = anew if anew is not StepKind.VERIFY else None
    if following is not None:
        start_step(draft, unit, following, restart=step.restart, halt=step.halt)
    elif unit.state is UnitState.HELD:
        _tell_down(draft, unit, f"{NOT_UP_AGAIN}: {command.why}", command.log, command.tail)
    else:
        at_ms = draft.now.at_ms
        draft.event(PrepareFailed(unit.name, ticket.agent, ticket.request_id, command.why, at_ms, command.log))
        revoked = Revoked(
            ticket.called, draft.state.key, ticket.request_id, f"{Code.PREPARE_FAILED}: {command.why}",
            code=Code.PREPARE_FAILED, log=command.log, tail=command.tail,
        )  # fmt: skip
        draft.withdraw(ticket, Queued)
        draft.tell(ticket, revoked)


def port_blocked(draft: Draft, command: PortBlocked) -> None:
    """Who waits for the start is told who holds its port, and that this is not for the bus to end."""
    unit = draft.state.unit(command.unit)
    if unit.step is not None and unit.step.number == command.step and unit.blocked != command.who:
        draft.event(Blocked(unit.name, command.who))
        if command.who and unit.ticket is not None:
            draft.tell(unit.ticket, queued(draft, unit.ticket))


def server_gone(draft: Draft, command: ServerGone) -> None:
    """A server ended by itself. A stop or a start on the unit finds that out and says so; a verify may not."""
    unit = next((u for u in draft.state.units if u.server and u.server.launch == command.launch), None)
    if unit is None or unit.server is None or (command.alive and not unit.server.alive):
        return
    if command.alive and unit.state is UnitState.RECOVERY_REQUIRED:
        return  # what a recovery keeps is looked at when its turn comes, and stopped with proof
    if unit.step is not None and unit.step.kind is not StepKind.VERIFY:
        return
    if not command.proved and not command.alive:
        recovery_required(draft, unit, command.why)
        return
    agent = unit.ticket.agent if unit.ticket is not None else ""
    draft.event(WentDown(unit.name, command.launch, command.proved, command.why, agent))
    if unit.state is UnitState.HELD and unit.server.alive:
        _tell_down(draft, unit, command.why, command.log, command.tail)
    elif unit.ready:
        prepare_again(draft, draft.state.unit(unit.name))


def prepare_again(draft: Draft, unit: Unit) -> None:
    """What was ready for a ticket for several resources is not any more."""
    kind = anew_kind(draft, unit)
    assert kind is not None
    start_step(draft, unit, kind)


def stop_servers(draft: Draft) -> None:
    """Stop every server that runs, and what commands have prepared; whoever holds it is told that it is down."""
    for unit in draft.state.units:
        prepared = unit.prepared is not None and unit.prepared.definition.stop
        if unit.step is None and (unit.server is not None or prepared):
            start_step(draft, unit, StepKind.STOP, halt=True)


def cancel_ticket(draft: Draft, ticket: Ticket, why: str, *, remember: bool = False) -> Cancelled:
    """Take a ticket out of the queue, or stop preparing for it; what it began is then proved gone."""
    unit = next((u for u in draft.state.units if u.ticket == ticket), None)
    until = after(draft.now, ARRIVAL_REMEMBERED_MS) if remember else None
    draft.event(TicketCancelled(ticket.agent, ticket.request_id, why, draft.now.at_ms, until))
    draft.withdraw(ticket, Queued)
    if unit is not None:
        draft.abort(unit)
    return Cancelled(ticket.called, draft.state.key, ticket.request_id)


def grant(draft: Draft, unit: Unit, ticket: Ticket, *, carried: bool = False) -> None:
    """Give the unit to the ticket. Whoever asked just now hears it as the answer, and has thereby noticed."""
    answered = draft.asked_for == ticket.request_id
    until, until_ms = declared(draft, ticket.time_ms)
    fence = draft.next_seq()
    draft.event(
        HoldGranted(
            ticket.agent, unit.name, ticket.request_id, fence, draft.now.at_ms, until, until_ms,
            claimed=answered and not ticket.run, carried=carried, after_silence=unit.silent,
            epoch=draft.state.epoch if draft.state.policy is not None else 0,
            task=ticket.task, called=ticket.called if ticket.task else "",
        )
    )  # fmt: skip
    message = granted(draft, draft.state.unit(unit.name))
    draft.withdraw(ticket, Queued, Revoked)
    if answered:
        draft.answer(ticket.agent, message)
    else:
        draft.tell(ticket, message)


def recovery_required(draft: Draft, unit: Unit, why: str, *, launch: str = "", remains: Remains | None = None) -> None:
    """Stop here until a person has looked: nothing is proved, so nothing is free. `launch`: the command in doubt."""
    ticket = unit.ticket
    agent, request_id = (ticket.agent, ticket.request_id) if ticket is not None else ("", "")
    draft.event(RecoveryRequired(unit.name, why, draft.now.at_ms, agent, request_id, launch, remains))
    if launch:
        draft.abort(unit)
    if ticket is not None and unit.state is UnitState.HELD:
        draft.withdraw(ticket, Granted, StillUsing, Down)
        why_lost = f"{Code.RECOVERY_REQUIRED}: {why}"
        draft.tell(
            ticket,
            Revoked(ticket.called, draft.state.key, request_id, why_lost, unit.fence, Code.RECOVERY_REQUIRED),
        )
    for waiting in islice(draft.state.queue.values(), DOUBT_TOLD_MAX):
        if not draft.told(waiting, Queued):  # one loss can put several units in doubt
            draft.tell(waiting, queued(draft, waiting))


# --- straight helpers ---------------------------------------------------------------------
def serves(draft: Draft) -> bool:
    """Whoever is first gets what is free: no controller chooses, and no other definition waits to count."""
    return serves_itself(draft.state) and draft.state.next_definition is None


def _stood(draft: Draft, unit: Unit) -> bool:
    """What is verified on a unit was there before its ticket's turn. Of servers it always was: a start looks itself."""
    if draft.state.definition.kind is Kind.SERVER:
        return True
    same = unit.ticket is not None and unit.prepared is not None and unit.prepared.worktree == unit.ticket.worktree
    return same and unit.prepared is not None and unit.prepared.ready


def has_free_unit(state: Resource) -> bool:
    """A unit is free, whoever may have it."""
    return any(unit.state is UnitState.FREE and unit.step is None for unit in state.units)


def free_unit_for(draft: Draft, ticket: Ticket) -> Unit | None:
    """The free unit on which there is least to do for that ticket."""
    free = [u for u in draft.state.units if u.state is UnitState.FREE and u.step is None]
    given = [u for u in free if draft.given and u.name == draft.given]
    mine = [u for u in free if _stands_from(u, ticket.worktree)]
    return next(iter((*given, *mine, *free)), None)


def _stands_from(unit: Unit, worktree: str) -> bool:
    """Its server runs from there, or it is prepared from there: there is least to do."""
    if unit.server is not None:
        return unit.server.worktree == worktree
    return unit.prepared is not None and unit.prepared.ready and unit.prepared.worktree == worktree


def begin(draft: Draft, unit: Unit, ticket: Ticket) -> None:
    """Begin the hand-over of a free unit to a ticket in the queue; where nothing is to be done, grant it."""
    kind = first_kind(draft, unit, ticket.worktree)
    if kind is not None:
        start_step(draft, unit, kind, ticket=ticket)
    else:
        grant(draft, unit, ticket, carried=unit.prepared is not None and unit.prepared.worktree == ticket.worktree)


def redefine(draft: Draft, *, steps: bool = True) -> None:
    """Apply a waiting definition once nobody holds anything under the old one; servers it has no room for go first.

    Args: steps: may be begun now.
    """
    new = draft.state.next_definition
    if new is None or any(unit.state is not UnitState.FREE or unit.step for unit in draft.state.units):
        return
    homeless = [unit for unit in draft.state.units if _is_homeless(unit, new)]
    for unit in homeless if steps else ():
        start_step(draft, unit, StepKind.STOP)
    if homeless:
        return
    draft.event(Defined(new))
    for ticket in list(draft.state.queue.values()) if new.kind is not Kind.LOCK else ():
        if ticket.worktree == "-":  # asked for while it was a mere lock: there is nowhere to run it from
            cancel_ticket(draft, ticket, NEEDS_WORKTREE)
            key, code = draft.state.key, Code.BAD_MESSAGE
            draft.tell(ticket, Revoked(ticket.called, key, ticket.request_id, NEEDS_WORKTREE, code=code))


def _is_homeless(unit: Unit, new: Definition) -> bool:
    """Something stands there that the new definition has no room for."""
    if unit.server is not None:
        return new.kind is not Kind.SERVER or unit.name not in new.units
    stops = unit.prepared is not None and unit.prepared.definition.stop
    return bool(stops) and (new.kind is not Kind.COMMAND or unit.name not in new.units)


def _tell_down(draft: Draft, unit: Unit, why: str, log: str = "", tail: tuple[str, ...] = ()) -> None:
    assert unit.ticket is not None
    draft.withdraw(unit.ticket, Granted)
    draft.tell(unit.ticket, Down(unit.ticket.called, draft.state.key, unit.fence, why, log, tail))
