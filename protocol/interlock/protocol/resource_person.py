"""What takes a person: to confirm what nobody can prove (recovery), and to take a hold back (revocation).

database lost ──▶ every unit recovery_required, nobody's ──▶ a person confirms ──▶ free, its living server kept
"""

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.messages import Released, Revoked
from interlock.protocol.resource_commands import Doubt, Recover, Revoke
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_events import Recovered
from interlock.protocol.resource_handover import cancel_ticket, recovery_required
from interlock.protocol.resource_state import Remains, Unit, UnitState
from interlock.protocol.resource_waiting import end_hold


def recover(draft: Draft, command: Recover) -> None:
    """A person confirms that the old use has ended: free what is in doubt, unless a command still runs there."""
    doubtful = [u for u in draft.state.units if u.state is UnitState.RECOVERY_REQUIRED]
    still = [unit for unit in doubtful if unit.launches or unit.step is not None]
    for unit in doubtful:
        if unit not in still:
            draft.event(Recovered(unit.name, command.sender))
    if len(doubtful) > len(still):
        draft.answer(command.sender, Released(draft.state.key, draft.state.key))
    elif still:
        which = [f"{each.command} (pid {each.keeper.pid})" for unit in still for each in unit.launches.values()]
        why = f"{', '.join(which) or 'a step'} still runs there: confirm again once that has ended"
        draft.refuse(command.sender, Code.RESOURCE_BUSY, why)
    else:
        draft.refuse(command.sender, Code.TARGET_ENDED, "nothing is in doubt there: no recovery is needed")


def doubt(draft: Draft, command: Doubt) -> None:
    """Grant nothing and free nothing. Places in the queue end too: what they stood behind is not known any more."""
    for ticket in [unit.ticket for unit in draft.state.units if unit.state is UnitState.PREPARING]:
        if ticket is not None:
            cancel_ticket(draft, ticket, command.why)
    for ticket in list(draft.state.queue.values()):
        cancel_ticket(draft, ticket, command.why)
    for unit in draft.state.units:
        remains = command.remains.get(unit.name, Remains())
        why = f"{command.why}; {remains.known}" if remains.known else command.why
        recovery_required(draft, unit, why, remains=msgspec.structs.replace(remains, known=""))


def revoke(draft: Draft, command: Revoke) -> None:
    """A person takes a hold back, or what is being prepared for one. Gated commands under it are let finish."""
    state = draft.state
    named = [
        unit for unit in state.units
        if unit.ticket is not None and command.unit in {"", unit.name} and command.holder in {"", unit.ticket.agent}
    ]  # fmt: skip
    live = [unit for unit in named if unit.state in {UnitState.HELD, UnitState.PREPARING}]
    if len(live) != 1:
        draft.refuse(command.sender, *_why_not_revoked(live, named))
        return
    unit, ticket = live[0], live[0].ticket
    assert ticket is not None
    why = f"revoked by {command.sender} ({command.because})"
    if unit.state is UnitState.PREPARING:
        cancel_ticket(draft, ticket, why)
        draft.tell(ticket, Revoked(ticket.called, state.key, ticket.request_id, why))
    else:
        end_hold(draft, unit, why)
    still = ", ".join(f"{each.command} (pid {each.keeper.pid})" for each in unit.launches.values())
    what = f"; {still} still runs under it, and the next is served when that has ended" if still else ""
    draft.answer(
        command.sender,
        Revoked(ticket.called, state.key, ticket.request_id, f"from {ticket.agent}{what}", unit.fence),
    )


def _why_not_revoked(live: list[Unit], named: list[Unit]) -> tuple[Code, str]:
    if live:
        which = " or ".join(f"--unit {unit.name} ({unit.ticket.agent})" for unit in live if unit.ticket is not None)
        return Code.AMBIGUOUS_TARGET, f"say which: {which}"
    if named:
        return Code.TARGET_ENDED, "that hold is over already: it is given on when its command has ended"
    return Code.TARGET_ENDED, "nobody holds it: there is nothing to revoke"
