"""Revoking: a person takes a resource back. Who and why are told to its owner, and kept in the log."""

from interlock.protocol.codes import Code
from interlock.protocol.messages import Revoked
from interlock.protocol.resource_commands import Revoke
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_handover import cancel_ticket
from interlock.protocol.resource_state import Unit, UnitState
from interlock.protocol.resource_waiting import end_hold


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
