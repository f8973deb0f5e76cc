"""What agents ask of a resource, message by message: each is answered once, and an expected no changes nothing."""

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.definition import Kind
from interlock.protocol.durations import format_age
from interlock.protocol.limits import QUEUE_TICKETS_MAX
from interlock.protocol.messages import (
    Cancel,
    Cancelled,
    Down,
    Extend,
    Extended,
    Queued,
    Request,
)
from interlock.protocol.names import named
from interlock.protocol.resource_commands import (
    Mail,
)
from interlock.protocol.resource_draft import Draft, arrival_of, declared, granted, queued
from interlock.protocol.resource_events import (
    Amended,
    HoldExtended,
    Requested,
)
from interlock.protocol.resource_giving import refuse_not_holder, who_has
from interlock.protocol.resource_handover import cancel_ticket
from interlock.protocol.resource_policy import may_ask, reserved_for
from interlock.protocol.resource_state import (
    StepKind,
    Ticket,
    Unit,
    UnitState,
    find_ticket,
    first_grantable,
    is_down,
    queued_of,
    serves_itself,
    unit_of,
    why_down,
)
from interlock.protocol.resource_steps import anew_kind, next_kind, start_step
from interlock.protocol.resource_waiting import heard, keep_reserved, release_hold
from interlock.protocol.visible import quoted
from interlock.protocol.words import quote


def request(draft: Draft, mail: Mail, body: Request) -> None:
    """REQUEST: a new ticket, or what is true of the one that is there already. Source: contract, messages."""
    heard(draft, mail.sender)
    ticket, _ = find_ticket(draft.state, mail.id)
    known = ticket or draft.state.ended.get(mail.id)
    if known is not None and known.agent != mail.sender:
        draft.refuse(mail.sender, Code.ID_CONFLICT, "another agent's request has that id: use a new one", mail.called)
        return
    if known is not None:
        _repeat(draft, mail)
        return
    held, answered = _has(draft, mail, body)
    if held is not None:
        _request_again(draft, mail, body, held)
    if held is not None or answered:
        return
    if draft.state.definition.kind is not Kind.LOCK and body.worktree == "-":
        why = f"{mail.called} runs from a worktree: name an existing absolute directory instead of '-'"
        draft.refuse(mail.sender, Code.BAD_MESSAGE, why, mail.called)
        return
    waiting = queued_of(draft.state, mail.sender)
    if waiting is not None and not body.run and waiting.together:
        draft.refuse(mail.sender, Code.RESOURCE_BUSY, waits_for_several(waiting, mail.called), mail.called)
        return
    if waiting is not None and not body.run:
        draft.asked_for = waiting.request_id
        amend(draft, waiting, body)
        return
    if not body.queue and not can_be_next(draft):
        policy = draft.state.policy
        busy = who_has(draft) if policy is None else f"{policy.controller} chooses who is next"
        why = f"{busy}; ask without --no-wait to get a place in the queue"
        draft.refuse(mail.sender, Code.RESOURCE_BUSY, why, mail.called)
        return
    if len(draft.state.queue) >= QUEUE_TICKETS_MAX:
        why = f"{len(draft.state.queue)} wait for {mail.called} already, at most {QUEUE_TICKETS_MAX} can: try later"
        draft.refuse(mail.sender, Code.QUEUE_FULL, why, mail.called)
        return
    draft.event(Requested(mail.sender, new_ticket(draft, mail, body, arrival_of(draft, mail.sender))))


def new_ticket(draft: Draft, mail: Mail, body: Request, arrival: int, together: tuple[str, ...] = ()) -> Ticket:
    """A place in the queue. Args: together: keys of all that it is for, where they are several."""
    return Ticket(
        request_id=mail.id,
        agent=mail.sender,
        incarnation=mail.incarnation,
        arrival=arrival,
        worktree=body.worktree,
        purpose=body.purpose,
        called=mail.called,
        asked_ms=draft.now.at_ms,
        time_ms=body.time_ms,
        run=body.run,
        process=body.process,
        also=mail.also,
        task=body.task,
        together=together,
    )


def amend(draft: Draft, waiting: Ticket, body: Request) -> None:
    """It was asked for once more: the place stays, and what was said now counts."""
    amended = msgspec.structs.replace(
        waiting,
        worktree=body.worktree,
        purpose=body.purpose or waiting.purpose,
        time_ms=waiting.time_ms if body.time_ms is None else body.time_ms,
        task=body.task or waiting.task,
        process=waiting.process if body.process == waiting.process else None,  # no end of one ends what two want
    )
    if amended != waiting:
        draft.event(Amended(waiting.agent, amended))


def waits_for_several(ticket: Ticket, called: str) -> str:
    """Why who waits for several may not ask for something else of them; what to do."""
    return f"you wait for {named(ticket.together)} together: CANCEL {called} first, then ask for what you need"


def _request_again(draft: Draft, mail: Mail, body: Request, unit: Unit) -> None:
    """From the owner, or from the one it is being prepared for."""
    assert unit.ticket is not None
    worktree = unit.ticket.worktree
    elsewhere = body.worktree != worktree and draft.state.definition.kind is not Kind.LOCK
    if body.task not in {"", unit.ticket.task} and not body.run:
        why = f"you have {mail.called} already, and not for {body.task}: RELEASE it first, or ask without the task"
        draft.refuse(mail.sender, Code.RESOURCE_BUSY, why, mail.called)
    elif unit.state is UnitState.DRAINING:
        why = f"your last hold ends only when its command does ({unit.why}): bus status {mail.called}"
        draft.refuse(mail.sender, Code.RESOURCE_BUSY, why, mail.called)
    elif elsewhere:
        verb = "RELEASE" if unit.state is UnitState.HELD else "CANCEL"
        why = f"you have it for {quote(worktree)}: {verb} {mail.called} first, then ask for {quote(body.worktree)}"
        draft.refuse(mail.sender, Code.RESOURCE_BUSY, why, mail.called)
    elif unit.state is UnitState.PREPARING:
        draft.answer(mail.sender, queued(draft, unit.ticket))
    else:
        shared = body.run or unit.ticket.run
        if not shared:
            until, until_ms = declared(draft, body.time_ms)
            draft.event(
                HoldExtended(mail.sender, unit.name, unit.fence, draft.now.at_ms, body.purpose, until, until_ms)
            )
        _answer_holder(draft, mail, draft.state.unit(unit.name), shared=shared)


def _answer_holder(draft: Draft, mail: Mail, unit: Unit, *, shared: bool = False) -> None:
    """What a holder has now: GRANTED says verified ready, so what is down or being restarted is said so."""
    assert unit.ticket is not None
    if unit.step is not None:
        draft.answer(mail.sender, queued(draft, unit.ticket))
    elif is_down(draft.state, unit):
        draft.answer(mail.sender, Down(mail.called, draft.state.key, unit.fence, why_down(draft.state, unit)))
    else:
        draft.answer(mail.sender, granted(draft, unit, shared=shared))


def _repeat(draft: Draft, mail: Mail) -> None:
    """The same REQUEST again: what is true now is said (QUEUED is said by the caller). All it does is to keep what a
    `bus run` has not used yet."""
    _, unit = find_ticket(draft.state, mail.id)
    ended = draft.state.ended.get(mail.id)
    if ended is not None:
        why = f"that request ended {format_age(draft.now.at_ms - ended.at_ms)} ago: {ended.why}"
        draft.refuse(mail.sender, Code.TARGET_ENDED, why, mail.called)
    elif unit is not None and unit.state is UnitState.HELD:
        keep_reserved(draft, unit)
        _answer_holder(draft, mail, unit)
    elif unit is not None and unit.state is UnitState.DRAINING:
        draft.refuse(mail.sender, Code.TARGET_ENDED, f"that request ended: {unit.why}", mail.called)
    elif unit is not None:
        assert unit.ticket is not None
        draft.answer(mail.sender, queued(draft, unit.ticket))


def answer_request(draft: Draft, mail: Mail) -> None:
    """After settling: whoever is not granted hears its place. A lost grant or a refusal was answered before."""
    ticket, _ = find_ticket(draft.state, mail.id)
    ticket = ticket or queued_of(draft.state, mail.sender)
    if ticket is None:
        unit = unit_of(draft.state, mail.sender)
        assert unit is not None
        assert unit.ticket is not None
        draft.answer(mail.sender, granted(draft, unit) if unit.state is UnitState.HELD else queued(draft, unit.ticket))
        return
    draft.answer(mail.sender, queued(draft, ticket))


def extend(draft: Draft, mail: Mail, body: Extend) -> None:
    """EXTEND: the owner still needs it; a declared time counts from now."""
    unit = unit_of(draft.state, mail.sender)
    if unit is None or unit.state is not UnitState.HELD:
        refuse_not_holder(draft, mail, 0)
        return
    heard(draft, mail.sender)
    until, until_ms = declared(draft, body.time_ms)
    draft.event(HoldExtended(mail.sender, unit.name, unit.fence, draft.now.at_ms, body.purpose, until, until_ms))
    draft.answer(mail.sender, Extended(mail.called, draft.state.key, unit.fence, body.time_ms or 0))


def cancel(draft: Draft, mail: Mail, body: Cancel) -> None:
    """CANCEL: out of the queue, or out of the preparing, or of what a controller gave and nothing has used; never out
    of a hold."""
    if body.request_id:
        ticket, unit = find_ticket(draft.state, body.request_id)
    else:
        unit = unit_of(draft.state, mail.sender)
        ticket = unit.ticket if unit is not None else queued_of(draft.state, mail.sender)
    if ticket is None or ticket.agent != mail.sender:
        why = f"you do not wait for {mail.called}"
        draft.refuse(mail.sender, Code.NOT_QUEUED, why, mail.called)
    elif unit is not None and unit.is_reservation() and (unit.launches or unit.state is UnitState.DRAINING):
        why = f"a command has been started under it: it ends with that, see bus status {mail.called}"
        draft.refuse(mail.sender, Code.RESOURCE_BUSY, why, mail.called)
    elif unit is not None and unit.state is UnitState.HELD and unit.epoch:
        release_hold(draft, unit, "cancelled")
        draft.answer(mail.sender, Cancelled(ticket.called, draft.state.key, ticket.request_id))
    elif unit is not None and unit.state is not UnitState.PREPARING:
        heard(draft, mail.sender)
        why = f"it is yours already: give it back with RELEASE {mail.called}"
        draft.refuse(mail.sender, Code.NOT_QUEUED, why, mail.called)
    else:
        draft.answer(mail.sender, cancel_ticket(draft, ticket, "cancelled", remember=ticket.run))


def restart(draft: Draft, mail: Mail) -> None:
    """RESTART: the holder's server again, or its preparing, from the same worktree, under the same fence."""
    unit = unit_of(draft.state, mail.sender)
    kind = anew_kind(draft, unit, restart=True) if unit is not None else None
    if unit is None or unit.state is not UnitState.HELD or unit.ticket is None:
        refuse_not_holder(draft, mail, 0)
    elif kind is None or next_kind(draft, unit, StepKind.STOP, restart=True) is None:
        heard(draft, mail.sender)
        what = "is a lock" if draft.state.definition.kind is Kind.LOCK else "has neither prepare nor verify"
        draft.refuse(
            mail.sender, Code.CAPABILITY_DENIED, f"{mail.called} {what}: there is nothing to restart", mail.called
        )
    elif unit.step is not None:
        heard(draft, mail.sender)
        draft.answer(mail.sender, queued(draft, unit.ticket))
    else:
        heard(draft, mail.sender)
        start_step(draft, unit, kind, restart=True)
        again = "the same server is started" if draft.state.definition.kind is Kind.SERVER else "it is prepared"
        note = f"{again} again; GRANTED follows"
        restarting = Queued(mail.called, draft.state.key, 1, unit.ticket.request_id, "preparing", note=note)
        draft.answer(mail.sender, restarting)


# --- straight helpers ---------------------------------------------------------------------
def _has(draft: Draft, mail: Mail, body: Request) -> tuple[Unit | None, bool]:
    """What a REQUEST goes under instead of waiting, if anything; or it may not ask at all, and that is answered."""
    outer = next((u for u in draft.state.units if body.under and u.fence == body.under), None)
    if outer is not None and not _is_inside(outer, mail, body):
        outer = None
    if draft.state.policy is None and body.run and body.ticket:
        held, unit = find_ticket(draft.state, body.ticket)
        if held is not None and held.agent == mail.sender and unit is not None:
            return unit, False
        why = f"no ticket {quoted(body.ticket)} of yours is granted here: bus me shows those that you have"
        draft.refuse(mail.sender, Code.TARGET_ENDED, why, mail.called)
        return None, True
    if draft.state.policy is None:
        return unit_of(draft.state, mail.sender) or outer, False
    if outer is not None:
        return outer, False
    if not may_ask(draft, mail):
        return None, True
    return reserved_for(draft, mail, body) if body.run else (unit_of(draft.state, mail.sender), False)


def _is_inside(outer: Unit, mail: Mail, body: Request) -> bool:
    """A `bus run`, or a program, inside a `bus run` of the same agent, or of one that it was started by."""
    if outer.ticket is None:
        return False
    if outer.ticket.agent == mail.sender:
        return body.run or body.attended
    return body.run and outer.ticket.agent in mail.also


def can_be_next(draft: Draft) -> bool:
    """A newcomer would wait for nobody: a unit is free, and whoever stands in the queue is absent."""
    free = any(unit.state is UnitState.FREE and unit.step is None for unit in draft.state.units)
    able = serves_itself(draft.state) and draft.state.next_definition is None
    return free and able and first_grantable(draft.state) is None
