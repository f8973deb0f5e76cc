"""What stands on a unit: what commands have made of it, after each step, and why it is down while it is held."""

import msgspec

from interlock.protocol.definition import command_of
from interlock.protocol.resource_state import Prepared, Resource, StepKind, Unit, UnitState

STOPPED_WITH_BUS = "the bus was told to stop its servers"
NOT_UP_AGAIN = "did not come up again"
replace = msgspec.structs.replace


def why_down(unit: Unit, why: str) -> str:
    """Why what somebody holds is down, for whoever asks later."""
    return why if unit.state is UnitState.HELD else unit.why


def prepared_for(resource: Resource, unit: Unit, ready: bool) -> Prepared | None:
    """What stands on a unit for its ticket, where the kind has commands."""
    command = command_of(resource.definition, unit.name)
    if command is None or unit.ticket is None:
        return unit.prepared
    launch = unit.prepared.launch if unit.prepared is not None else ""
    if unit.step is not None and (unit.step.kind is not StepKind.VERIFY or not launch):
        launch = unit.step.launch  # a good look has less to tell than what was made
    return Prepared(unit.ticket.worktree, unit.ticket.agent, command, launch, ready)


def after_step(resource: Resource, unit: Unit, kind: StepKind) -> Prepared | None:
    """What stands on a unit once a step has succeeded: after its last one it is ready."""
    command = command_of(resource.definition, unit.name)
    if kind is StepKind.STOP or command is None:
        return None
    ready = kind is StepKind.VERIFY or not command.verify
    if unit.ticket is None and unit.prepared is not None:  # nobody wants it any more, but so it stands
        return replace(unit.prepared, ready=ready)
    return prepared_for(resource, unit, ready)


def after_failure(unit: Unit, kind: StepKind, untouched: bool) -> Prepared | None:
    """What stands on a unit once a step has failed: not healthy is not ready, and what was not begun is not there."""
    if kind is StepKind.PREPARE and untouched and unit.step is not None and unit.step.launch:
        return None
    if kind is StepKind.VERIFY and not untouched and unit.prepared is not None:
        launch = unit.step.launch if unit.step is not None and unit.step.launch else unit.prepared.launch
        return replace(unit.prepared, ready=False, launch=launch)
    return unit.prepared
