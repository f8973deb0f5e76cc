"""The policy of a resource: its controller says who is next, and what was reserved under an older policy is stale.

    Govern ──▶ governed ──▶ places of those not enrolled, and reservations not yet used, end: STALE_POLICY
    GRANT  ──▶ the hand-over to that ticket, as it would be if it were first, wherever it stands

Never grants by itself, and ends nothing that has started. Without a policy `settle` serves the queue as ever.
"""

from itertools import islice

from interlock.protocol.answers import one_line
from interlock.protocol.codes import Code
from interlock.protocol.limits import TICKETS_TOLD_MAX
from interlock.protocol.messages import Grant, Queued, Request, Revoked, Text
from interlock.protocol.resource_commands import Govern, Mail
from interlock.protocol.resource_draft import Draft, blocking, queued
from interlock.protocol.resource_events import Amended, Governed, Requested, Returned
from interlock.protocol.resource_giving import who_has
from interlock.protocol.resource_handover import cancel_ticket, serve
from interlock.protocol.resource_state import Resource, Ticket, Unit, UnitState, find_ticket
from interlock.protocol.resource_waiting import end_hold
from interlock.protocol.visible import quoted
from interlock.protocol.words import quote

REASON_SHOWN = 200  # characters of what it is for, in a line among others; bus status has all of it


def govern(draft: Draft, command: Govern) -> None:
    """What the gate says counts from now on; said again it changes nothing."""
    state = draft.state
    said, known = (command.policy, command.epoch), (state.policy, state.epoch)
    if (*said, command.blockers) == (*known, state.blockers):
        return
    draft.event(Governed(command.epoch, command.policy, command.blockers))
    if said == known and {*command.blockers} <= {*state.blockers}:
        return
    if state.policy is None and command.policy is None:
        return  # a number only: whoever has it or waits does so without a policy, as before
    if said == known:
        why = blocking(draft.state)
    elif command.policy is None:
        why = f"its policy was taken away (epoch {command.epoch})"
    else:
        why = f"its policy has changed (epoch {command.epoch}), {command.policy.controller} chooses who is next"
    for unit in draft.state.units:
        _end_unused(draft, unit, f"{why}: ask again")
    if command.policy is not None:
        for ticket in [each for each in draft.state.queue.values() if not each.is_of(command.policy.participants)]:
            _end_place(draft, ticket, f"{why}, and you are not among its participants")
        for ticket in list(draft.state.queue.sets()):
            _end_place(draft, ticket, f"{why}: ask for it alone, and for the others apart")


def grant_ticket(draft: Draft, mail: Mail, body: Grant) -> None:
    """GRANT: the controller chooses that ticket. Said again of one that is reserved already, it is answered alike."""
    draft.asked_for = ""  # the answer is the controller's; the ticket's owner has its own
    ticket, unit = find_ticket(draft.state, body.request_id)
    refusal = _may_not_choose(draft, mail, body) or _is_over(draft, body.request_id, ticket, unit)
    refusal = refusal or (_is_in_use(draft) if unit is None else None)
    if refusal is not None:
        draft.refuse(mail.sender, *refusal, draft.state.key)
        return
    assert ticket is not None
    if unit is None:
        if ticket.absent:  # passed over before there was a policy; now it is chosen nevertheless
            draft.event(Returned(ticket.agent, ticket.request_id))
        served = serve(draft, draft.state.queue[ticket.request_id])
        assert served
    epoch = unit.epoch if unit is not None and unit.fence else draft.state.epoch
    said = f"GRANTED {draft.state.key} to {ticket.agent} (request {ticket.request_id}, epoch {epoch})"
    draft.answer(mail.sender, Text(said))


def may_ask(draft: Draft, mail: Mail) -> bool:
    """Under a policy only its participants have a place; who counts as one is one. Else that is answered."""
    policy = draft.state.policy
    if policy is None or any(name in policy.participants for name in (mail.sender, *mail.also)):
        return True
    why = f"you are not among the participants of its policy: ask {policy.controller}, who decides about it"
    draft.refuse(mail.sender, Code.SCOPE_DENIED, why, mail.called)
    return False


def reserved_for(draft: Draft, mail: Mail, body: Request) -> tuple[Unit | None, bool]:
    """What a `bus run` goes under: the reservation, not yet used, of who asks, else of one that it counts as.

    Returns:
        The unit, or None where there is none; and whether that could not be said and is answered.
    """
    unused = [unit for unit in draft.state.units if _is_asked_for(unit)]
    mine = [unit for unit in unused if unit.ticket is not None and unit.ticket.agent == mail.sender]
    others = [unit for unit in unused if unit.ticket is not None and unit.ticket.agent in mail.also]
    usable = mine or others
    if body.ticket:
        usable = [each for each in mine + others if each.ticket and each.ticket.request_id == body.ticket]
        if not usable:
            why = f"no reservation {quoted(body.ticket)} of yours waits for a command: ask without it"
            draft.refuse(mail.sender, Code.TARGET_ENDED, why, mail.called)
            return None, True
    if len(usable) > 1:
        which = ", ".join(f"{u.ticket.request_id} ({u.ticket.agent})" for u in usable if u.ticket is not None)
        why = f"several reservations could be used: say which of {which}"
        draft.refuse(mail.sender, Code.AMBIGUOUS_TARGET, why, mail.called)
        return None, True
    return (usable[0] if usable else None), False


def tell_of_policy(draft: Draft) -> None:
    """Keep in the controller's inbox what waits for its GRANT, and nothing else; tell who waits what has changed."""
    before, after = draft.began, draft.state
    if before.policy is None and after.policy is None:
        return
    changed = (before.policy, before.epoch) != (after.policy, after.epoch)
    fresh = [each.ticket.request_id for each in draft.events() if isinstance(each, Requested | Amended)]
    touched = [getattr(each, "request_id", "") for each in draft.events()]
    if changed:
        fresh, touched = [*after.queue], [*before.queue]
        for ticket in islice(after.queue.values(), TICKETS_TOLD_MAX):
            if not draft.told(ticket, Queued):
                draft.tell(ticket, queued(draft, ticket))
    if before.policy is not None:
        new = after.policy is None or after.policy.controller != before.policy.controller
        for request_id in dict.fromkeys(touched):
            if request_id in before.queue and (new or request_id not in after.queue):
                draft.withdraw_slot(before.policy.controller, _slot(request_id))
    if after.policy is not None:
        fresh += [each for each in touched if each not in before.queue]  # back in the queue
        waiting = [each for each in dict.fromkeys(fresh) if each in after.queue]
        for request_id in waiting[:TICKETS_TOLD_MAX]:
            said = Text(_asked(after, after.queue[request_id]))
            draft.notify(after.policy.controller, said, _slot(request_id))
    _tell_of_room(draft, changed=changed)


# --- straight helpers ---------------------------------------------------------------------
def _end_unused(draft: Draft, unit: Unit, why: str) -> None:
    """End what is reserved on a unit, or prepared for somebody, unless a command has been started under it."""
    if unit.ticket is None or unit.launches:
        return
    if unit.state is UnitState.PREPARING:
        _end_place(draft, unit.ticket, why)
    elif unit.state is UnitState.HELD:
        end_hold(draft, unit, why, code=Code.STALE_POLICY)


def _end_place(draft: Draft, ticket: Ticket, why: str) -> None:
    cancel_ticket(draft, ticket, why)
    draft.tell(ticket, Revoked(ticket.called, draft.state.key, ticket.request_id, why, code=Code.STALE_POLICY))


def _may_not_choose(draft: Draft, mail: Mail, body: Grant) -> tuple[Code, str] | None:
    state = draft.state
    if not mail.may_control:
        return Code.CAPABILITY_DENIED, "you may not grant: that takes the capability resource.control"
    if state.policy is None:
        return Code.SCOPE_DENIED, f"{state.key} has no policy: it is granted by itself, first come, first served"
    if mail.sender != state.policy.controller:
        return Code.SCOPE_DENIED, f"{state.policy.controller} is the controller of {state.key}: it has to say so"
    if body.epoch not in {0, state.epoch}:
        why = f"the policy of {state.key} has changed, its epoch is {state.epoch}: look again, then grant under that"
        return Code.STALE_POLICY, why
    return None


def _is_over(draft: Draft, request_id: str, ticket: Ticket | None, unit: Unit | None) -> tuple[Code, str] | None:
    ended = draft.state.ended.get(request_id)
    if ended is not None:
        return Code.TARGET_ENDED, f"the request of {ended.agent} is over: {ended.why}"
    if ticket is None:
        return Code.TARGET_ENDED, f"nobody waits under {request_id}: bus status {draft.state.key} shows who does"
    if unit is not None and unit.state is UnitState.DRAINING:
        return Code.TARGET_ENDED, f"the hold of {ticket.agent} is over: {unit.why}"
    return None


def _is_in_use(draft: Draft) -> tuple[Code, str] | None:
    """Why nothing of it can be given now."""
    state = draft.state
    if state.blockers:
        return Code.RESOURCE_BUSY, blocking(state)
    if state.next_definition is not None:
        return Code.RESOURCE_BUSY, f"{who_has(draft)}, and its new definition counts once that is over"
    if any(_is_free(unit) for unit in state.units):
        return None
    if all(unit.state is UnitState.RECOVERY_REQUIRED for unit in state.units):
        return Code.RECOVERY_REQUIRED, f"{state.units[0].why}: a person looks first: bus recover {state.key}"
    if not any(unit.ticket is not None for unit in state.units):
        return Code.RESOURCE_BUSY, "what was used last is being ended: it is free once that is done"
    return Code.RESOURCE_BUSY, who_has(draft)


def _is_free(unit: Unit) -> bool:
    return unit.state is UnitState.FREE and unit.step is None


def _is_asked_for(unit: Unit) -> bool:
    """A ticket that was asked for has it, or will, and no command has been started under it."""
    asked = unit.ticket is not None and not unit.ticket.run and not unit.launches
    return asked and unit.state in {UnitState.HELD, UnitState.PREPARING}


def _slot(request_id: str) -> str:
    return f"Ticket:{request_id}"


def _asked(state: Resource, ticket: Ticket) -> str:
    """The line in the controller's inbox: what is asked, and the command that grants it."""
    what = f": {one_line(ticket.purpose, REASON_SHOWN)}" if ticket.purpose.strip() else ""
    which = f"request {ticket.request_id}, epoch {state.epoch}"
    return f"REQUESTED {state.key} by {ticket.agent}, {which}{what}; {_command(state, ticket.request_id)}"


def _command(state: Resource, request_id: str) -> str:
    return f"bus grant {quote(request_id)} --epoch {state.epoch}"


def _can_choose(state: Resource) -> bool:
    """Somebody waits, and what it waits for could be given."""
    given = state.policy is not None and not state.blockers and state.next_definition is None
    return given and bool(state.queue) and any(_is_free(unit) for unit in state.units)


def _tell_of_room(draft: Draft, *, changed: bool) -> None:
    """The controller has heard of who waits; it hears too when there is something to give to them again."""
    before, after = draft.began, draft.state
    slot = f"Free:{after.key}"
    if before.policy is not None and _can_choose(before) and (changed or not _can_choose(after)):
        draft.withdraw_slot(before.policy.controller, slot)
    if after.policy is not None and _can_choose(after) and before.queue and (changed or not _can_choose(before)):
        others = f" and {len(after.queue) - 1} more wait" if len(after.queue) > 1 else " waits"
        first = after.queue[after.queue.first()]
        said = f"FREE {after.key}: {first.agent}{others}; {_command(after, first.request_id)}"
        draft.notify(after.policy.controller, Text(said), slot)
