"""Recovery: what nobody can prove waits for a person, who looks and confirms.

database lost ──▶ every unit recovery_required, nobody's ──▶ a person confirms ──▶ free, its living server kept
"""

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.messages import Released
from interlock.protocol.resource_commands import Doubt, Recover
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_events import Recovered
from interlock.protocol.resource_handover import cancel_ticket, recovery_required
from interlock.protocol.resource_state import Launch, Remains, Resource, UnitState


def recover(draft: Draft, command: Recover) -> None:
    """A person confirms that the old use has ended: free what is in doubt, unless a command still runs there."""
    doubtful = [u for u in draft.state.units if u.state is UnitState.RECOVERY_REQUIRED]
    still = [unit for unit in doubtful if unit.launches or unit.step is not None]
    for unit in doubtful:
        if unit not in still:
            draft.event(Recovered(unit.name, command.sender))
    runs = (f"{each.command} (pid {each.keeper.pid})" for unit in still for each in unit.launches.values())
    which = dict.fromkeys(runs)  # what may be any unit's is on all of them, and said once
    why = f"{', '.join(which) or 'a step'} still runs there: confirm again once that has ended"
    if len(doubtful) > len(still):
        rest = f"not {', '.join(unit.name for unit in still)}: {why}" if still else ""
        draft.answer(command.sender, Released(draft.state.key, draft.state.key, note=rest))
    elif still:
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
    found = _by_unit(draft.state, command.remains)
    for unit in draft.state.units:
        remains = found[unit.name]
        why = f"{command.why}; {remains.known}" if remains.known else command.why
        server = remains.server
        if server is not None:  # its keeper lives, so it can be stopped with proof, whatever its leader does
            server = msgspec.structs.replace(server, alive=True)
        recovery_required(draft, unit, why, remains=msgspec.structs.replace(remains, known="", server=server))


# --- straight helpers ---------------------------------------------------------------------
def _by_unit(resource: Resource, remains: dict[str, Remains]) -> dict[str, Remains]:
    """What was found, by the units that there are yet: what lives on one that is only to be must end first."""
    found = {unit.name: remains.get(unit.name, Remains()) for unit in resource.units}
    first = resource.units[0].name
    for name, each in remains.items():
        if name not in found:
            launches = {**found[first].launches, **each.launches}
            if each.server is not None:
                server = each.server
                launches[server.launch] = Launch(server.launch, server.keeper, server.launch, server.since_ms)
            known = "; ".join(filter(None, (found[first].known, each.known)))
            found[first] = msgspec.structs.replace(found[first], known=known, launches=launches)
    return found
