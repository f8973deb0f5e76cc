"""The joint step: one decision over several resources, whose actors stand still meanwhile.

    AskTogether · GiveTogether · SettleTogether ──▶ each resource's part ──▶ sets that are not whole end
                                                ──▶ who is served, in the order of arrival ──▶ one record

A ticket for several resources (a set) stands in each of their queues at one arrival number. It is granted all or
nothing, and holds nothing while it waits. Where it cannot be served, who came later is: it is passed. Only an agent
that waits for nothing else may pass a set, for it will finish whatever happens; and after PASSES_MAX a set is passed no
more: what is free in its queues stays free for it.

What commands do: `resource_sets.py`. What `decide` of one resource leaves to it: `settle` in `resource_handover.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import merge

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.definition import Kind
from interlock.protocol.limits import PASSES_MAX
from interlock.protocol.messages import Revoked
from interlock.protocol.outcome import Now, Outcome
from interlock.protocol.resource_commands import (
    AskTogether,
    Deferred,
    GiveTogether,
    SettleTogether,
    TogetherCommand,
    TryTogether,
)
from interlock.protocol.resource_draft import Draft, granted, queued
from interlock.protocol.resource_events import ResourceEvent, Returned
from interlock.protocol.resource_handover import (
    begin,
    cancel_ticket,
    finish,
    first_of,
    free_unit_for,
    grant,
    redefine,
    serves,
)
from interlock.protocol.resource_set_events import SetAside, SetParted, SetPassed
from interlock.protocol.resource_sets import answer_of, ask, give
from interlock.protocol.resource_state import (
    Resource,
    Ticket,
    Unit,
    UnitState,
    find_ticket,
    queued_of,
    unit_of,
)
from interlock.protocol.resource_steps import first_kind
from interlock.protocol.resource_waiting import pass_over

Drafts = dict[str, Draft]
WaitsElsewhere = Callable[[str, str], bool]
NOT_NOTICED = "the grant of all of them was not noticed"


def decide_together(
    states: Mapping[str, Resource], command: TogetherCommand, now: Now, waits_elsewhere: WaitsElsewhere
) -> dict[str, Outcome[Resource, ResourceEvent]]:
    """Answer one command to several resources, and serve whoever can be served.

    Args:
        states: by key; with those that are asked for, all that a set waits for which stands in one of their queues.
        waits_elsewhere: whether an agent waits for anything besides that request, by its id.

    Returns:
        The outcome of each, in the order of their keys, in which their events are numbered.
    """
    drafts = {key: Draft(states[key], now) for key in sorted(states)}
    firsts = {key: first_of(draft) for key, draft in drafts.items()}
    refused = False
    match command:
        case AskTogether(mails):
            refused = ask(drafts, mails)
        case GiveTogether(mails, called):
            give(drafts, mails, called)
        case SettleTogether(deferred):
            for each in deferred:
                _expect(drafts[each.key], each)
    served = _served(drafts, waits_elsewhere)
    seq = now.seq
    for key, draft in drafts.items():
        draft.now = msgspec.structs.replace(now, seq=seq)
        redefine(draft)
        for ticket in served[key]:
            _serve(draft, ticket, takes_time=any(_takes_time(drafts[each]) for each in ticket.together))
        finish(draft, firsts[key])
        seq += len(draft.events())
    if isinstance(command, AskTogether) and not refused:
        answer_of(drafts, command.mails)
    if isinstance(command, SettleTogether):
        for each in command.deferred:
            _answer(drafts[each.key], each)
    _try_again(drafts)
    return {key: draft.outcome() for key, draft in drafts.items()}


# --- a REQUEST for one resource that came while a set stood before it ---------------------------
def _expect(draft: Draft, deferred: Deferred) -> None:
    """What becomes of its ticket is the answer; of several that came together only one can be answered by a grant."""
    if not draft.asker:
        ticket = find_ticket(draft.state, deferred.id)[0] or queued_of(draft.state, deferred.sender)
        draft.asker, draft.asked_for = deferred.id, ticket.request_id if ticket is not None else ""


def _answer(draft: Draft, deferred: Deferred) -> None:
    if draft.asker == deferred.id and draft.answered():
        return
    draft.asker = deferred.id
    ticket, unit = find_ticket(draft.state, deferred.id)
    ticket = ticket or queued_of(draft.state, deferred.sender)
    unit = unit or unit_of(draft.state, deferred.sender)
    if unit is not None and unit.state is UnitState.HELD:
        draft.answer(deferred.sender, granted(draft, unit))
    elif ticket is not None or (unit is not None and unit.ticket is not None):
        waiting = ticket or (unit.ticket if unit is not None else None)
        assert waiting is not None
        draft.answer(deferred.sender, queued(draft, waiting))
    else:
        ended = draft.state.ended.get(deferred.id)
        why = f"that request ended: {ended.why}" if ended is not None else "that request ended: ask anew"
        draft.refuse(deferred.sender, Code.TARGET_ENDED, why, draft.state.key)


# --- a set is whole, or over --------------------------------------------------------------------
def sets_of(state: Resource) -> Iterator[Ticket]:
    """The sets that stand there and are not granted yet."""
    yield from state.queue.sets()
    for unit in state.units:
        if unit.ticket is not None and unit.ticket.together and unit.state is UnitState.PREPARING:
            yield unit.ticket


def _make_whole(drafts: Drafts) -> None:
    """What is left of a set of which a part has ended ends too; what was granted and not noticed goes back as one."""
    sets = {ticket.request_id: ticket for draft in drafts.values() for ticket in sets_of(draft.state)}
    for request_id, ticket in sets.items():
        if not all(key in drafts for key in ticket.together):
            continue
        found = {key: find_ticket(drafts[key].state, request_id) for key in ticket.together}
        waiting = [key for key, (there, unit) in found.items() if there is not None and unit is None]
        units = [(key, unit) for key, (_, unit) in found.items() if unit is not None]
        held = [(key, unit) for key, unit in units if unit.state is not UnitState.PREPARING]
        preparing = [key for key, unit in units if unit.state is UnitState.PREPARING]
        if len(waiting) == len(found) or len(preparing) == len(found):
            continue
        if held and not preparing:
            _go_back(drafts, request_id, waiting, held)
        else:
            _end(drafts, request_id, [*waiting, *preparing], is_silent=not all(there for there, _ in found.values()))


def _go_back(drafts: Drafts, request_id: str, waiting: list[str], held: list[tuple[str, Unit]]) -> None:
    """A part of it was not noticed: all of it goes back to its place; or what waits stands for itself from now on."""
    if any(unit.claimed or unit.launches or unit.state is not UnitState.HELD for _, unit in held):
        for key in waiting:
            draft = drafts[key]
            ticket = draft.state.queue[request_id]
            draft.event(SetParted(ticket.agent, request_id))
            if ticket.absent:
                draft.event(Returned(ticket.agent, request_id))
        return
    for key, unit in held:
        pass_over(drafts[key], unit, NOT_NOTICED)


def _end(drafts: Drafts, request_id: str, keys: list[str], *, is_silent: bool) -> None:
    """Args: is_silent: where a part of it has ended, that one has told its agent why."""
    for number, key in enumerate(keys):
        draft = drafts[key]
        ticket, _ = find_ticket(draft.state, request_id)
        assert ticket is not None
        why = "the others that it was asked for with can not be had: ask again for all of them"
        cancel_ticket(draft, ticket, why)
        gone = all(request_id not in each.state.ended for k, each in drafts.items() if k not in keys)
        if number == 0 and (not is_silent or gone):
            code = Code.RECOVERY_REQUIRED if not is_silent else Code.TARGET_ENDED
            draft.tell(ticket, Revoked(ticket.called, draft.state.key, request_id, why, code=code))


# --- who is served --------------------------------------------------------------------------------
def _served(drafts: Drafts, waits_elsewhere: WaitsElsewhere) -> dict[str, list[Ticket]]:
    """Whom each resource serves now, in order; passes are counted here."""
    _make_whole(drafts)
    for draft in drafts.values():
        redefine(draft, steps=False)
    served: dict[str, list[Ticket]] = {key: [] for key in drafts}
    _all_ready(drafts, served)
    free = {key: _free(draft) if serves(draft) else 0 for key, draft in drafts.items()}
    waiting: dict[str, list[Ticket]] = {key: [] for key in drafts}  # sets that stand there and may be passed
    stopped: set[str] = set()  # nobody further behind is served: who is before may not pass
    seen: set[str] = set()
    for (_, request_id), key in merge(*(_places(drafts, key, free, stopped) for key in drafts if free[key])):
        ticket = drafts[key].state.queue[request_id]
        keys = ticket.together or (key,)
        if request_id in seen or free[key] <= 0 or key in stopped:
            continue
        if not all(each in drafts for each in keys):
            stopped.add(key)  # it has come since the resources of this step were chosen
            drafts[key].apart += keys
            continue
        if ticket.together:
            seen.add(request_id)
        able = all(free[each] > 0 and each not in stopped for each in keys)
        passed = {each.request_id: each for at in keys for each in waiting[at][max(0, free[at] - 1) :]}
        may_not_pass = bool(passed) and (_waits_here(drafts, ticket) or waits_elsewhere(ticket.agent, request_id))
        if ticket.together:
            able = able and not may_not_pass and not any(_is_absent(drafts[each], request_id) for each in keys)
            if not able:
                _let_wait(ticket, free, waiting)
                continue
        elif may_not_pass:
            stopped.add(key)
            continue
        for each in keys:
            served[each].append(ticket)
            free[each] -= 1
        for before in passed.values():
            _pass(drafts, drafts[before.together[0]].state.queue[before.request_id], free, waiting)
    return served


def _free(draft: Draft) -> int:
    return sum(unit.state is UnitState.FREE and unit.step is None for unit in draft.state.units)


def _places(drafts: Drafts, key: str, free: dict[str, int], stopped: set[str]) -> Iterator[tuple[tuple[int, str], str]]:
    """Who waits there, by arrival, as long as there is something to have."""
    for ticket in drafts[key].state.queue.present():
        if free[key] <= 0 or key in stopped:
            return
        yield (ticket.arrival, ticket.request_id), key


def _waits_here(drafts: Drafts, ticket: Ticket) -> bool:
    """Its agent waits for something else, perhaps since this very step."""
    return any(each != ticket.request_id for draft in drafts.values() for each in draft.state.queue.of(ticket.agent))


def _is_absent(draft: Draft, request_id: str) -> bool:
    return draft.state.queue[request_id].absent


def _let_wait(ticket: Ticket, free: dict[str, int], waiting: dict[str, list[Ticket]]) -> None:
    """It cannot be served: who comes later may pass it, or one unit of each stays free for it."""
    for key in ticket.together:
        if ticket.passed < PASSES_MAX:
            waiting[key].append(ticket)
        elif free[key] > 0:
            free[key] -= 1


def _pass(drafts: Drafts, ticket: Ticket, free: dict[str, int], waiting: dict[str, list[Ticket]]) -> None:
    passed = ticket.passed + 1
    for key in ticket.together:
        drafts[key].event(SetPassed(ticket.agent, ticket.request_id, passed))
        if passed >= PASSES_MAX:
            waiting[key] = [each for each in waiting[key] if each.request_id != ticket.request_id]
            free[key] = max(0, free[key] - 1)


def _all_ready(drafts: Drafts, served: dict[str, list[Ticket]]) -> None:
    """Sets of which each part is prepared and verified are granted."""
    ready = {u.ticket.request_id: u.ticket for d in drafts.values() for u in d.state.units if u.ready and u.ticket}
    for request_id, ticket in ready.items():
        if all(key in drafts and _is_ready(drafts[key], request_id) for key in ticket.together):
            for key in ticket.together:
                served[key].append(ticket)


def _is_ready(draft: Draft, request_id: str) -> bool:
    _, unit = find_ticket(draft.state, request_id)
    return unit is not None and unit.ready


def _takes_time(draft: Draft) -> bool:
    """It is prepared before it is granted."""
    return draft.state.definition.kind is not Kind.LOCK


def _serve(draft: Draft, ticket: Ticket, *, takes_time: bool) -> None:
    """Begin the hand-over to that ticket, or grant what is ready.

    Args: takes_time: others of several have to be prepared: what needs nothing is set aside until they are.
    """
    mine, there = find_ticket(draft.state, ticket.request_id)
    ticket = mine or ticket  # as it stands here: each resource has its own, with its own worktree and name
    if there is not None:
        grant(draft, there, ticket, carried=there.carried)
        return
    unit = free_unit_for(draft, ticket)
    assert unit is not None
    if takes_time and first_kind(draft, unit, ticket.worktree) is None:
        carried = unit.prepared is not None and unit.prepared.worktree == ticket.worktree
        draft.event(SetAside(unit.name, ticket.agent, ticket.request_id, carried))
    else:
        begin(draft, unit, ticket)


def _try_again(drafts: Drafts) -> None:
    """Where this step has not seen all that a set needs, or what was begun may be ready at once, another follows."""
    for draft in drafts.values():
        unseen = tuple(key for key in draft.apart if key not in drafts)
        if unseen or any(isinstance(each, SetAside) for each in draft.events()):
            draft.order(TryTogether((draft.state.key, *draft.apart)))
            return
