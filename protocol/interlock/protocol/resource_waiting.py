"""Polls and claims: how a silent owner is asked, and how a grant that nobody noticed passes on.

Both exist only while somebody else waits. Being asked costs an owner nothing but an answer; nobody loses a
resource because someone waits or because a record looks old.

A reservation, which is for one command (of `bus run`, or given by a controller), is not asked: if no command is begun
under it in its time it ends, whoever waits. A `bus run` that waits for the rest of what it needs says so by asking
again, and has its time anew: it lives, and gives up by itself.

Who did not notice its grant is absent: it keeps its place until it is heard of, and is passed over meanwhile. Of one
that is bound to nothing nobody ever learns that it is gone: silent for `time_max`, its place ends. All absent tickets
of a resource are looked at together, `time_max` apart; who was absent at two looks was so for all that time.
"""

from interlock.protocol.codes import Code
from interlock.protocol.durations import format_duration
from interlock.protocol.limits import CLAIMS_MISSED_MAX, LATE_MS, POLLS_UNANSWERED_MAX
from interlock.protocol.messages import Down, Granted, Queued, Revoked, StillUsing
from interlock.protocol.outcome import Deadline, after, earliest
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_events import (
    AbsentLookedAt,
    Armed,
    Claimed,
    Drained,
    Draining,
    Heard,
    HoldReleased,
    HoldRevoked,
    PassedOver,
    Polled,
    Returned,
    TicketCancelled,
)
from interlock.protocol.resource_state import Resource, Unit, UnitState, first_grantable


def next_deadline(resource: Resource, boot: str) -> Deadline | None:
    """The earliest moment at which a Tick changes something, on this boot."""
    due = []
    for unit in resource.units:
        for at in (unit.poll_at, unit.claim_at, unit.free_at if unit.free_at and unit.is_in_grace() else None):
            if at is not None:
                due.append(at)
    if resource.look_at is not None:
        due.append(resource.look_at)
    return earliest(due, boot) if due else None


def tick(draft: Draft) -> None:
    """Do what is due. A deadline that was slept through gets one fresh interval before anybody loses anything.

    One unit at most is lost in a tick, and before anybody is asked: its going on may leave nobody waiting. What is
    due besides has its turn in the next tick, which follows at once.
    """
    if draft.state.look_at is not None and draft.state.look_at.is_due(draft.now):
        _look_at_absent(draft)
    for unit in draft.state.units:
        if unit.is_in_grace() and unit.free_at is not None and unit.free_at.is_due(draft.now):
            draft.event(Drained(unit.name))
            return
    for unit in draft.state.units:
        if unit.claim_at is not None and unit.claim_at.is_due(draft.now):
            _claim_due(draft, unit)
            if draft.state.unit(unit.name).state is not unit.state:
                return
    due = [unit for unit in draft.state.units if unit.poll_at is not None and unit.poll_at.is_due(draft.now)]
    silent = next((unit for unit in due if _is_silent(draft, unit)), None)
    if silent is not None:
        why = f"no answer to {POLLS_UNANSWERED_MAX} polls, {format_duration(draft.state.definition.poll_ms)} apart"
        end_hold(draft, silent, why, silent=silent.server is None)
        return
    for unit in due:
        _poll(draft, unit)


def heard(draft: Draft, agent: str) -> None:
    """A sign of life under its name: the grant is noticed, polls are answered, an absent ticket is back."""
    for unit in draft.state.units:
        ticket = unit.ticket
        if ticket is None or ticket.agent != agent or ticket.run or unit.state is not UnitState.HELD:
            continue
        if not unit.claimed:
            draft.event(Claimed(agent, unit.name, unit.fence, draft.now.at_ms))
        elif unit.polls or unit.polled:
            draft.event(Heard(agent, unit.name, unit.fence, draft.now.at_ms))
            draft.withdraw(ticket, StillUsing)
    for request_id in draft.state.queue.absent_of(agent):
        draft.event(Returned(agent, request_id))


def arm(draft: Draft) -> None:
    """Set each hold's deadlines to what the queue now asks for."""
    waited_for = first_grantable(draft.state) is not None
    for unit in draft.state.units:
        if unit.ticket is None or unit.state is not UnitState.HELD:
            continue
        reserved, busy = unit.is_reservation(), bool(unit.launches) or unit.step is not None
        wants_poll = waited_for and unit.claimed and not reserved and not busy
        wants_claim = not unit.launches if reserved else waited_for and not unit.claimed and not busy
        definition = draft.state.definition
        claim_ms = definition.reservation_ms if reserved else definition.claim_ms
        poll_at = (unit.poll_at or after(draft.now, definition.poll_ms)) if wants_poll else None
        claim_at = (unit.claim_at or after(draft.now, claim_ms)) if wants_claim else None
        if (poll_at, claim_at) != (unit.poll_at, unit.claim_at):
            if poll_at is None and unit.polled:
                draft.withdraw(unit.ticket, StillUsing)
            draft.event(Armed(unit.name, unit.fence, poll_at, claim_at))
    look_at = draft.state.look_at
    if draft.state.queue.has_absent() is not (look_at is not None):
        look_at = after(draft.now, draft.state.definition.time_max_ms) if look_at is None else None
        draft.event(AbsentLookedAt(look_at))


def keep_reserved(draft: Draft, unit: Unit) -> None:
    """A `bus run` asks again for what it has and has not used: it waits for the rest, and its time begins anew."""
    if unit.ticket is not None and unit.ticket.run and unit.claim_at is not None and not unit.launches:
        claim_at = after(draft.now, draft.state.definition.reservation_ms)
        draft.event(Armed(unit.name, unit.fence, unit.poll_at, claim_at))


def end_hold(draft: Draft, unit: Unit, why: str, *, code: str = "", tell: bool = True, silent: bool = False) -> None:
    """End a hold against its owner's word: at once, or when the last command under it is proved gone.

    Args:
        tell: its owner lives and is told, and what runs there is let be for a moment of grace.
    """
    ticket = unit.ticket
    assert ticket is not None
    draft.withdraw(ticket, Granted, StillUsing, Down)
    draft.abort(unit)
    grace = _grace(draft, unit) if tell else unit.free_at
    if unit.launches:
        draft.event(Draining(ticket.agent, unit.name, unit.fence, why, code, grace))
    else:
        reserved, at_ms = unit.is_reservation(), draft.now.at_ms
        draft.event(HoldRevoked(ticket.agent, unit.name, unit.fence, why, at_ms, code, silent, grace, reserved))
    if tell:
        draft.tell(ticket, Revoked(ticket.called, draft.state.key, ticket.request_id, why, unit.fence, code))


def release_hold(draft: Draft, unit: Unit, why: str) -> None:
    """End a hold in good order."""
    ticket = unit.ticket
    assert ticket is not None
    draft.withdraw(ticket, Granted, StillUsing, Down)
    draft.abort(unit)
    draft.event(HoldReleased(ticket.agent, unit.name, unit.fence, why, draft.now.at_ms))


# --- straight helpers ---------------------------------------------------------------------
def _grace(draft: Draft, unit: Unit) -> Deadline | None:
    """Until when what runs there is let be, so that whoever was revoked can save what it needs. Source: contract §4."""
    grace_ms = draft.state.definition.revoke_grace_ms
    stands = unit.step is None and (unit.server is not None or unit.prepared is not None)
    return after(draft.now, grace_ms) if stands and grace_ms else None


def _look_at_absent(draft: Draft) -> None:
    """Who is absent since the look before has been silent for `time_max`: its place ends. The others have until the
    next look."""
    look_at, time_max_ms = draft.state.look_at, draft.state.definition.time_max_ms
    assert look_at is not None
    again = after(draft.now, time_max_ms)
    if look_at.was_slept_through(draft.now, LATE_MS):
        draft.event(AbsentLookedAt(again))
        return
    for ticket in [each for each in draft.state.queue.absent() if each.overdue]:
        called = ticket.called
        why = f"a grant was not noticed, and nothing heard of you for {format_duration(time_max_ms)}: your place ended"
        draft.event(TicketCancelled(ticket.agent, ticket.request_id, why, draft.now.at_ms))
        draft.withdraw(ticket, Queued)
        draft.tell(ticket, Revoked(called, draft.state.key, ticket.request_id, why))
    if draft.state.queue.has_absent():
        draft.event(AbsentLookedAt(again, looked=True))


def _counts(draft: Draft, unit: Unit) -> bool:
    """Before the time that the owner declared a silent poll does not count."""
    return unit.until is None or unit.until.is_due(draft.now)


def _is_silent(draft: Draft, unit: Unit) -> bool:
    assert unit.poll_at is not None
    late = unit.poll_at.was_slept_through(draft.now, LATE_MS)
    return not late and unit.polls >= POLLS_UNANSWERED_MAX and _counts(draft, unit)


def _poll(draft: Draft, unit: Unit) -> None:
    assert unit.poll_at is not None
    assert unit.ticket is not None
    poll_ms = draft.state.definition.poll_ms
    again = after(draft.now, poll_ms)
    if unit.poll_at.was_slept_through(draft.now, LATE_MS):
        draft.event(Armed(unit.name, unit.fence, again, unit.claim_at))
        return
    polls = unit.polls + 1 if _counts(draft, unit) else 0
    draft.event(Polled(unit.ticket.agent, unit.name, unit.fence, polls, again))
    last = polls >= POLLS_UNANSWERED_MAX
    poll = StillUsing(unit.ticket.called, draft.state.key, unit.fence, len(draft.state.queue), poll_ms, last)
    draft.tell(unit.ticket, poll)


def _claim_due(draft: Draft, unit: Unit) -> None:
    assert unit.claim_at is not None
    ticket = unit.ticket
    assert ticket is not None
    definition = draft.state.definition
    claim_ms = definition.reservation_ms if unit.is_reservation() else definition.claim_ms
    if unit.claim_at.was_slept_through(draft.now, LATE_MS):
        draft.event(Armed(unit.name, unit.fence, unit.poll_at, after(draft.now, claim_ms)))
        return
    unnoticed = f"the grant was not used within {format_duration(claim_ms)}"
    if unit.is_reservation():
        end_hold(draft, unit, unnoticed, code=Code.RESERVATION_EXPIRED)
        return
    pass_over(draft, unit, unnoticed)


def pass_over(draft: Draft, unit: Unit, unnoticed: str) -> None:
    """Nobody has noticed the grant: its ticket goes back to its place, and waits to be heard of."""
    ticket = unit.ticket
    assert ticket is not None
    why = f"{unnoticed} while others wait; your place is kept: bus wait {ticket.called}"
    draft.withdraw(ticket, Granted, StillUsing, Down)
    grace = _grace(draft, unit)
    draft.event(PassedOver(ticket.agent, unit.name, unit.fence, ticket.request_id, why, draft.now.at_ms, grace))
    if ticket.misses + 1 >= CLAIMS_MISSED_MAX:
        why = f"{unnoticed}, {CLAIMS_MISSED_MAX} times in a row"
        draft.event(TicketCancelled(ticket.agent, ticket.request_id, why, draft.now.at_ms))
    draft.tell(ticket, Revoked(ticket.called, draft.state.key, ticket.request_id, why, unit.fence))
