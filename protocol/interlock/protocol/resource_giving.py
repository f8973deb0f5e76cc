"""Giving back: RELEASE, which serves the queue, and HANDOVER, by which the holder says who is next.

HANDOVER overtakes nobody: it names the agent that is first anyway, or one that has not asked while nobody waits. To
the latter the hold goes as it stands, its worktree and the server that runs there included.
"""

from interlock.protocol.codes import Code
from interlock.protocol.durations import format_age
from interlock.protocol.limits import ID_CHARACTERS_MAX
from interlock.protocol.messages import Handover, Release, Released
from interlock.protocol.resource_commands import Mail
from interlock.protocol.resource_draft import Draft, arrival_of
from interlock.protocol.resource_events import Requested
from interlock.protocol.resource_handover import cancel_ticket
from interlock.protocol.resource_state import Ticket, Unit, UnitState, first_grantable, queued_of, unit_of
from interlock.protocol.resource_waiting import release_hold

HANDED_OVER = "handed over to "  # and the name of who is next: how such a hold has ended
NEXT = ".next"  # after the message's id, for the id of the ticket that it makes


def release(draft: Draft, mail: Mail, body: Release) -> None:
    """RELEASE: the hold ends; before it was granted, the ticket does. Refused while a command runs under it."""
    unit = _held_for_release(draft, mail.sender, body.fence)
    if unit is None or unit.ticket is None:
        ticket = queued_of(draft.state, mail.sender)
        if ticket is not None and not body.fence:
            draft.answer(mail.sender, cancel_ticket(draft, ticket, "released before it was granted"))
            return
        refuse_not_holder(draft, mail, body.fence)
    elif unit.state is UnitState.PREPARING:
        draft.answer(mail.sender, cancel_ticket(draft, unit.ticket, "released before it was granted"))
    elif _may_be_given(draft, mail, unit):
        release_hold(draft, unit, "released")
        draft.answer(mail.sender, Released(mail.called, draft.state.key, unit.fence))


def handover(draft: Draft, mail: Mail, body: Handover) -> None:
    """HANDOVER: the hold ends, and that agent is next. Source: contract, messages."""
    unit, first = unit_of(draft.state, mail.sender), first_grantable(draft.state)
    waiting = queued_of(draft.state, body.agent)
    if unit is None or unit.ticket is None:
        refuse_not_holder(draft, mail, 0)
    elif draft.state.policy is not None:
        controller = draft.state.policy.controller
        draft.refuse(
            mail.sender, Code.SCOPE_DENIED, f"{controller} chooses who is next: RELEASE {mail.called}", mail.called
        )
    elif unit.state is UnitState.PREPARING:
        _busy(draft, mail, f"it is being prepared for you: CANCEL {mail.called}, or wait for GRANTED")
    elif unit_of(draft.state, body.agent) is not None:
        whose = "you have" if body.agent == mail.sender else f"{body.agent} has"
        _busy(draft, mail, f"{whose} it already: RELEASE {mail.called}")
    elif first is not None and first.together:
        why = f"{first.agent} waits for it together with others: RELEASE {mail.called} serves the queue in its order"
        _busy(draft, mail, why)
    elif first is not None and first.agent != body.agent:
        why = f"{first.agent} waits ahead of {body.agent}: RELEASE {mail.called} serves the queue in its order"
        _busy(draft, mail, why)
    elif first is None and waiting is not None:
        _busy(draft, mail, f"{body.agent} did not notice its last grant: it is next once it is heard of again")
    elif _may_be_given(draft, mail, unit):
        if first is None:
            draft.given = unit.name
            draft.event(Requested(body.agent, _ticket_of_heir(draft, mail, body.agent, unit.ticket)))
        release_hold(draft, unit, HANDED_OVER + body.agent)
        draft.answer(mail.sender, Released(mail.called, draft.state.key, unit.fence))


def refuse_not_holder(draft: Draft, mail: Mail, fence: int) -> None:
    """Say that it is not the sender's, and since when and why, as far as that is known."""
    lost = draft.state.lost.get(mail.sender)
    mine = unit_of(draft.state, mail.sender)
    if fence and (mine is not None or lost is None or lost.fence != fence):
        why = f"fence {fence} is not your present hold: nothing was changed; bus me shows what you hold"
        draft.refuse(mail.sender, Code.STALE_FENCE, why, mail.called)
    elif lost is not None:
        ago = format_age(draft.now.at_ms - lost.at_ms)
        why = f"{mail.called} is not yours any more since {ago}: {lost.why}"
        draft.refuse(mail.sender, Code.NOT_HOLDER, why, mail.called)
    elif any(u.ticket is not None and u.ticket.agent == mail.sender for u in draft.state.units):
        _busy(draft, mail, f"{mail.called} is held by a bus run of yours and ends with its command")
    else:
        draft.refuse(mail.sender, Code.NOT_HOLDER, f"you do not hold {mail.called}; {who_has(draft)}", mail.called)


def who_has(draft: Draft) -> str:
    """Who has it, or what is in the way, in half a sentence."""
    for unit in draft.state.units:
        if unit.ticket is not None and unit.fence:
            age = format_age(draft.now.at_ms - unit.since_ms)
            return f"it is held by {unit.ticket.agent} since {age}"
        if unit.ticket is not None:
            return f"it is being prepared for {unit.ticket.agent}"
        if unit.state is UnitState.RECOVERY_REQUIRED:
            return f"it waits for a person: {unit.why}"
    return "nobody holds it"


# --- straight helpers ---------------------------------------------------------------------
def _held_for_release(draft: Draft, agent: str, fence: int) -> Unit | None:
    if fence:
        return next(
            (u for u in draft.state.units if u.fence == fence and u.ticket is not None and u.ticket.agent == agent),
            None,
        )
    return unit_of(draft.state, agent)


def _may_be_given(draft: Draft, mail: Mail, unit: Unit) -> bool:
    """Nothing runs under it any more, and it is the hold that the sender meant; else that is answered."""
    if unit.launches or unit.state is UnitState.DRAINING:
        which = ", ".join(f"{each.command} (pid {each.keeper.pid})" for each in unit.launches.values())
        _busy(draft, mail, f"a command still runs under it: {which}; it is released when that ends")
        return False
    if mail.sent_ms and mail.sent_ms < unit.since_ms:
        why = f"it was sent before the present grant (fence {unit.fence}): nothing was released"
        draft.refuse(mail.sender, Code.STALE_FENCE, why, mail.called)
        return False
    return True


def _busy(draft: Draft, mail: Mail, why: str) -> None:
    draft.refuse(mail.sender, Code.RESOURCE_BUSY, why, mail.called)


def _ticket_of_heir(draft: Draft, mail: Mail, heir: str, given: Ticket) -> Ticket:
    """The place of one who has not asked: what it is given, as it stands. Its id follows from the message's."""
    return Ticket(
        request_id=mail.id[: ID_CHARACTERS_MAX - len(NEXT)] + NEXT,
        agent=heir,
        incarnation=mail.heir,
        arrival=arrival_of(draft, heir),
        worktree=given.worktree,
        purpose=f"handed over by {mail.sender}",
        called=mail.called,
        asked_ms=draft.now.at_ms,
    )
