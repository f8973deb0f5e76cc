"""What an agent asks of several resources at once: REQUEST, RELEASE and CANCEL of all of them, or of none."""

from collections.abc import Mapping, Sequence

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.definition import Kind
from interlock.protocol.limits import QUEUE_TICKETS_MAX
from interlock.protocol.messages import Cancel, FromBus, Granted, Queued, Refused, Release, Released, Request
from interlock.protocol.names import named
from interlock.protocol.resource_commands import Mail
from interlock.protocol.resource_draft import Draft, declared, granted, queued
from interlock.protocol.resource_events import HoldExtended, Requested
from interlock.protocol.resource_giving import release, who_has
from interlock.protocol.resource_requests import amend, can_be_next, cancel, new_ticket
from interlock.protocol.resource_state import Ticket, Unit, UnitState, find_ticket, is_down, queued_of, unit_of
from interlock.protocol.resource_waiting import heard

Mails = Mapping[str, Mail]
Drafts = Mapping[str, Draft]


def ask(drafts: Drafts, mails: Mails) -> bool:
    """REQUEST of several: a place in each of their queues, at one arrival number, or what is true of it already.

    Returns:
        That it was refused, and why is said. Else `answer_of` says what became of it, once it is served.
    """
    first = next(iter(mails.values()))
    refusal = _refusal(drafts, mails)
    for key, mail in mails.items():
        heard(drafts[key], mail.sender)
    if refusal is not None:
        _say(drafts[next(iter(mails))], first, refusal)
        return True
    mine = {key: _mine(drafts[key], mail) for key, mail in mails.items()}
    arrival = max(drafts[key].state.next_arrival for key in mails)
    for key, mail in mails.items():
        draft, body = drafts[key], _body(mail)
        draft.asked_for, draft.gathered = mail.id, []
        ticket, unit = mine[key]
        if unit is not None and unit.state is UnitState.HELD and ticket is not None:
            if mail.id not in {ticket.request_id, *draft.state.ended}:
                until, until_ms = declared(draft, body.time_ms)
                at_ms = draft.now.at_ms
                draft.event(HoldExtended(mail.sender, unit.name, unit.fence, at_ms, body.purpose, until, until_ms))
        elif ticket is not None:
            draft.asked_for = ticket.request_id
            if unit is None and mail.id != ticket.request_id:
                amend(draft, ticket, body)
        else:
            draft.event(Requested(mail.sender, new_ticket(draft, mail, body, arrival, tuple(sorted(mails)))))
    return False


def give(drafts: Drafts, mails: Mails, called: str) -> None:
    """RELEASE or CANCEL of several: of all, or, where one of them cannot be, of none."""
    first = next(iter(mails.values()))
    for key, mail in mails.items():
        trial = Draft(drafts[key].state, drafts[key].now)
        trial.gathered = []
        _give(trial, mail)
        no = next((each for each in trial.gathered if isinstance(each, Refused)), None)
        if no is not None:
            _say(drafts[next(iter(mails))], first, no)
            return
    said: list[FromBus] = []
    for key, mail in mails.items():
        draft = drafts[key]
        draft.gathered = []
        _give(draft, mail)
        said += draft.gathered
        draft.gathered = None
    keys = ",".join(mails)
    whole = next((each for each in said if isinstance(each, Released)), said[0])
    _say(drafts[next(iter(mails))], first, msgspec.structs.replace(whole, resource=called, key=keys))


def answer_of(drafts: Drafts, mails: Mails) -> None:
    """What has become of a REQUEST of several: GRANTED where all are, else QUEUED."""
    first = next(iter(mails.values()))
    for key in mails:
        drafts[key].gathered = None
    _say(drafts[next(iter(mails))], first, truth_of_several(drafts, first.sender, mails))


def truth_of_several(drafts: Drafts, agent: str, keys: Sequence[str] | Mails) -> FromBus:
    """What is true of an agent's places or holds at several resources: GRANTED of all, or QUEUED.

    Args: drafts: of these at least. The agent has a ticket at each of them, or its set has ended a moment ago.
    """
    holds: list[Granted] = []
    waits: list[Queued] = []
    for key in keys:
        draft = drafts[key]
        unit, ticket = unit_of(draft.state, agent), queued_of(draft.state, agent)
        if unit is not None and unit.ticket is not None and unit.state is UnitState.HELD:
            if unit.step is None and not is_down(draft.state, unit):
                holds.append(granted(draft, unit))
            else:
                waits.append(queued(draft, unit.ticket))
        elif unit is not None and unit.ticket is not None:
            waits.append(queued(draft, unit.ticket))
        elif ticket is not None:
            waits.append(queued(draft, ticket))
        else:
            why = f"what you asked for together with {named((key,))} has ended: ask again for all of them"
            return Refused(Code.TARGET_ENDED, why)
    if not waits:
        return granted_together(holds)
    return queued_together(waits, [each.resource for each in holds])


def granted_together(holds: Sequence[Granted]) -> Granted:
    """One GRANTED of several."""
    if len(holds) == 1:
        return holds[0]
    called, keys = ",".join(each.resource for each in holds), ",".join(each.key for each in holds)
    return msgspec.structs.replace(holds[0], resource=called, key=keys, together=tuple(holds))


def queued_together(waits: Sequence[Queued], has: Sequence[str] = ()) -> Queued:
    """One QUEUED of several: what it says is true of the one that is most in the way. Args: has: held already."""
    if len(waits) == 1 and not has:
        return waits[0]
    order = ["recovery_required", "held", "grace", "draining", "blocked", "controller", "preparing_other", "preparing"]
    rank = {state: number for number, state in enumerate(order)}
    worst = min(waits, key=lambda each: (rank.get(each.state, len(order)), -each.position))
    called, keys = ",".join(each.resource for each in waits), ",".join(each.key for each in waits)
    position = max(each.position for each in waits)
    return msgspec.structs.replace(worst, resource=called, key=keys, position=position, together=tuple(waits))


# --- straight helpers ---------------------------------------------------------------------
def _body(mail: Mail) -> Request:
    assert isinstance(mail.body, Request)
    return mail.body


def _say(draft: Draft, mail: Mail, body: FromBus) -> None:
    draft.asker, draft.gathered = mail.id, None
    draft.answer(mail.sender, body)


def _give(draft: Draft, mail: Mail) -> None:
    if isinstance(mail.body, Release):
        release(draft, mail, mail.body)
    else:
        assert isinstance(mail.body, Cancel)
        cancel(draft, mail, mail.body)


def _mine(draft: Draft, mail: Mail) -> tuple[Ticket | None, Unit | None]:
    """What the sender has there, or waits with: by an asked ticket."""
    unit = unit_of(draft.state, mail.sender)
    if unit is not None:
        return unit.ticket, unit
    return queued_of(draft.state, mail.sender), None


def _refusal(drafts: Drafts, mails: Mails) -> Refused | None:
    """Why it is not taken, if it is not; nothing is changed then."""
    mine = {key: _mine(drafts[key], mail) for key, mail in mails.items()}
    has = [key for key, (ticket, _) in mine.items() if ticket is not None]
    called = ",".join(mail.called for mail in mails.values())
    for key, mail in mails.items():
        draft, body = drafts[key], _body(mail)
        ticket, _ = find_ticket(draft.state, mail.id)
        known = ticket or draft.state.ended.get(mail.id)
        if known is not None and known.agent != mail.sender:
            return Refused(Code.ID_CONFLICT, "another agent's request has that id: use a new one", mail.called)
        ended = draft.state.ended.get(mail.id)
        if ended is not None and len(has) < len(mails):
            return Refused(Code.TARGET_ENDED, f"that request ended: {ended.why}", mail.called)
        if draft.state.policy is not None:
            why = (
                f"{draft.state.policy.controller} chooses who is next at {mail.called}, so it is not granted together "
                "with others: ask for it alone"
            )
            return Refused(Code.SCOPE_DENIED, why, mail.called)
        if draft.state.definition.kind is not Kind.LOCK and body.worktree == "-":
            why = f"{mail.called} runs from a worktree: name an existing absolute directory instead of '-'"
            return Refused(Code.BAD_MESSAGE, why, mail.called)
        if len(draft.state.queue) >= QUEUE_TICKETS_MAX and not has:
            many = len(draft.state.queue)
            why = f"{many} wait for {mail.called} already, at most {QUEUE_TICKETS_MAX} can: try later"
            return Refused(Code.QUEUE_FULL, why, mail.called)
    if has:
        return _why_not_again(drafts, mails, mine, has, called)
    for key, mail in mails.items():
        if not _body(mail).queue and not can_be_next(drafts[key]):
            why = f"{mail.called}: {who_has(drafts[key])}; ask without --no-wait to get a place in the queue"
            return Refused(Code.RESOURCE_BUSY, why, mail.called)
    return None


def _why_not_again(
    drafts: Drafts, mails: Mails, mine: Mapping[str, tuple[Ticket | None, Unit | None]], has: list[str], called: str
) -> Refused | None:
    """Who has a part of them already may not ask for more beside it: whoever holds one and waits for another can
    close a circle. Exactly the same again is fine."""
    whole = tuple(sorted(mails))
    for key in has:
        ticket, unit = mine[key]
        mail = mails[key]
        assert ticket is not None
        held = unit is not None and unit.state is not UnitState.PREPARING
        if unit is not None and unit.state is UnitState.DRAINING:
            why = f"your last hold ends only when its command does ({unit.why}): bus status {mail.called}"
            return Refused(Code.RESOURCE_BUSY, why, mail.called)
        same = len(has) == len(mails) and (held or ticket.together == whole)
        if not same:
            verb, word = ("RELEASE", "hold") if held else ("CANCEL", "wait for")
            others = f" together with {named([k for k in ticket.together if k != key])}" if ticket.together else ""
            others = "" if held else others
            why = f"you {word} {mail.called}{others} already: {verb} {mail.called} first, then ask for all: {called}"
            return Refused(Code.RESOURCE_BUSY, why, mail.called)
        task = _body(mail).task
        if held and task not in {"", ticket.task}:
            why = f"you have {mail.called} already, and not for {task}: RELEASE it first, or ask without the task"
            return Refused(Code.RESOURCE_BUSY, why, mail.called)
        elsewhere = _body(mail).worktree != ticket.worktree and drafts[key].state.definition.kind is not Kind.LOCK
        if elsewhere and unit is not None:
            why = f"you have {mail.called} for {ticket.worktree}: give that back first, then ask for another worktree"
            return Refused(Code.RESOURCE_BUSY, why, mail.called)
    held_keys = [key for key in has if _holds(mine[key][1])]
    if held_keys and len(held_keys) < len(mails):
        why = f"you hold {named(held_keys)} already: give that back first, then ask for all: {called}"
        return Refused(Code.RESOURCE_BUSY, why, called)
    return None


def _holds(unit: Unit | None) -> bool:
    return unit is not None and unit.state is UnitState.HELD
