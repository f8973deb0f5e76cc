"""Admission: whether a command of `bus run` may begin under a grant. It is on record before it does.

A reservation is for one command: its first use binds it to that command and its directory, and besides only what is
started inside that command goes under it, not a second one of the same. A hold of a resource without a policy takes
what its owner starts.
"""

from interlock.protocol.codes import Code
from interlock.protocol.messages import Admitted
from interlock.protocol.resource_commands import Admit
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_events import Claimed, Started
from interlock.protocol.resource_state import Launch, Unit, UnitState, is_reserved_anew

ENDED_BY_RULE = {Code.RESERVATION_EXPIRED, Code.STALE_POLICY}


def admit(draft: Draft, admit: Admit) -> None:
    """A command may begin, if its fence is the present hold's, and the hold is for it."""
    unit = next((u for u in draft.state.units if u.fence == admit.fence and u.state is UnitState.HELD), None)
    inside = unit is not None and any(launch in unit.launches for launch in admit.inside)
    if unit is None or unit.ticket is None or not (inside or unit.ticket.agent in _names(admit)):
        draft.refuse(admit.sender, *_why_over(draft, admit))
        return
    if admit.launch in unit.launches:  # asked again: it is on record, and says so again
        draft.answer(admit.sender, Admitted(unit.ticket.called, draft.state.key, unit.fence, admit.launch))
        return
    refusal = None if inside else _is_not_for_it(draft, unit, admit.digest)
    if refusal is not None:
        draft.refuse(admit.sender, *refusal)
        return
    if not unit.claimed:
        draft.event(Claimed(unit.ticket.agent, unit.name, unit.fence, draft.now.at_ms))
    launch = Launch(admit.launch, admit.keeper, admit.command, draft.now.at_ms)
    binds = unit.is_reservation() and not unit.launches
    draft.event(Started(unit.ticket.agent, unit.name, unit.fence, launch, admit.digest if binds else ""))
    draft.answer(admit.sender, Admitted(unit.ticket.called, draft.state.key, unit.fence, admit.launch))


# --- straight helpers ---------------------------------------------------------------------
def _names(admit: Admit) -> tuple[str, ...]:
    return (admit.sender, *admit.also)


def _why_over(draft: Draft, admit: Admit) -> tuple[Code, str]:
    """Why nothing may begin under that fence: the rule that ended it, where it is one that asking again mends."""
    ended = (each for each in draft.state.ended.values() if each.fence == admit.fence and each.agent in _names(admit))
    found = next((each for each in ended if each.code in ENDED_BY_RULE), None)
    if found is not None:
        return Code(found.code), f"{found.why}: the command was not started"
    return Code.STALE_FENCE, f"fence {admit.fence} is over: the command was not started"


def _is_not_for_it(draft: Draft, unit: Unit, digest: str) -> tuple[Code, str] | None:
    if not is_reserved_anew(draft.state, unit):
        why = f"fence {unit.fence} was granted before the present policy: the command was not started, ask again"
        return Code.STALE_POLICY, why
    if unit.is_reservation() and unit.digest:
        runs = ", ".join(each.command for each in unit.launches.values())
        if digest == unit.digest:  # two of it, begun at once under what one reservation was asked for
            why = f"{runs} runs under fence {unit.fence} already: this one was not started, ask for its own"
            return Code.RESOURCE_BUSY, why
        why = f"fence {unit.fence} is reserved for another command ({runs}): this one was not started, ask for its own"
        return Code.SCOPE_DENIED, why
    return None
