"""The steps of a hand-over: which one comes first, which one follows, and the order for each.

    lock:     free ─────────────────────────────────────────────────────────────────────▶ granted
    server:   free ── nothing runs ────────────────▶ [prepare] ──▶ start ────────────────▶ granted
              free ── same worktree, alive ────────▶ verify ─────────────────────────────▶ granted
              free ── another, or not healthy ─────▶ stop ──▶ [prepare] ──▶ start ───────▶ granted
    command:  free ── same worktree, ready ────────▶ [verify] ───────────────────────────▶ granted
              free ── another, or not as it was ───▶ [stop] ──▶ [prepare] ──▶ [verify] ──▶ granted

What stands in brackets is left out where the definition has none. RESTART is stop and start of a server, without its
preparing; of commands it is all of them.
"""

from interlock.protocol.definition import CommandDefinition, Kind, ServerDefinition, command_of, server_of
from interlock.protocol.resource_commands import AbortStep, Go, LaunchUp, Order, RunCommand, RunStep
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_events import LaunchStarted, StepStarted, StepUndone
from interlock.protocol.resource_set_events import SetReady
from interlock.protocol.resource_state import StepKind, Ticket, Unit, UnitState


def first_kind(draft: Draft, unit: Unit, worktree: str) -> StepKind | None:
    """Where preparing a free unit for that worktree begins; None where nothing is to be done."""
    definition = draft.state.definition
    if definition.kind is Kind.SERVER:
        server = unit.server
        same = server is not None and server.alive and server.worktree == worktree
        if server is not None and same and server.definition == server_of(definition, unit.name):
            return StepKind.VERIFY
        return anew_kind(draft, unit)
    prepared, command = unit.prepared, command_of(definition, unit.name)
    if command is None:
        return None
    same = prepared is not None and prepared.ready and prepared.worktree == worktree
    if prepared is not None and same and prepared.definition == command:
        return StepKind.VERIFY if command.verify else None
    return anew_kind(draft, unit)


def anew_kind(draft: Draft, unit: Unit, *, restart: bool = False) -> StepKind | None:
    """Where everything begins anew: with a stop, if there is something to stop."""
    runs = unit.server is not None or (unit.prepared is not None and unit.prepared.definition.stop)
    return StepKind.STOP if runs else next_kind(draft, unit, StepKind.STOP, restart=restart)


def next_kind(draft: Draft, unit: Unit, done: StepKind, *, restart: bool = False) -> StepKind | None:
    """What follows on a step that is done; None: the unit is ready."""
    server = server_of(draft.state.definition, unit.name)
    command = command_of(draft.state.definition, unit.name)
    if server is not None:
        if done is StepKind.STOP and server.prepare and not restart:
            return StepKind.PREPARE
        return StepKind.START if done in {StepKind.STOP, StepKind.PREPARE} else None
    if command is None:
        return None
    if done is StepKind.STOP and command.prepare:
        return StepKind.PREPARE
    return StepKind.VERIFY if done is not StepKind.VERIFY and command.verify else None


def start_step(draft: Draft, unit: Unit, kind: StepKind, *, ticket: Ticket | None = None, **how: bool) -> None:
    """Record the intent, then order the work."""
    number = draft.next_seq()
    whose = ticket or unit.ticket
    request_id = ticket.request_id if ticket is not None else ""
    draft.event(StepStarted(unit.name, number, kind, whose.agent if whose is not None else "", request_id, **how))
    draft.order(_order(draft, draft.state.unit(unit.name), number, kind, ""))


def launch_up(draft: Draft, command: LaunchUp) -> None:
    """The keeper is up: record who it is, and only then say GO."""
    unit = draft.state.unit(command.unit)
    if unit.step is None or unit.step.number != command.step or unit.step.aborting:
        draft.order(AbortStep(command.unit, command.step))
        return
    draft.event(LaunchStarted(command.unit, command.step, command.launch, command.keeper))
    draft.order(Go(command.unit, command.step))


def resume(draft: Draft) -> None:
    """After a restart: a launch that is on record is taken up again, every other step is begun again.

    Nothing runs twice: without a record of the launch the keeper was never told GO, and ends by itself.
    """
    for unit in draft.state.units:
        step = unit.step
        if step is None:
            if unit.ticket is not None and unit.state is UnitState.PREPARING and not unit.ready:
                kind = first_kind(draft, unit, unit.ticket.worktree)  # it went down with the bus while it was ready
                if kind is not None:
                    start_step(draft, unit, kind)
                else:
                    draft.event(SetReady(unit.name, unit.ticket.agent, unit.ticket.request_id))
            continue
        if step.launch:
            draft.order(_order(draft, unit, step.number, step.kind, step.launch))
            if step.aborting:
                draft.order(AbortStep(unit.name, step.number))
        elif step.aborting or (unit.ticket is None and step.kind is StepKind.VERIFY):  # a stop is begun again
            why = "it was no longer wanted and had not begun"
            draft.event(StepUndone(unit.name, step.number, step.kind, why, untouched=True))
        else:
            start_step(draft, unit, _still(draft, unit, step.kind), restart=step.restart, halt=step.halt)


def may_run_again(draft: Draft, unit: Unit, *, proved: bool) -> bool:
    """Whether a step may run again of which nobody knows how it ended; a server's preparing, if it is proved gone."""
    command = _commands(draft, unit)
    return proved if command is None else command.repeatable


# --- straight helpers ---------------------------------------------------------------------
def _still(draft: Draft, unit: Unit, kind: StepKind) -> StepKind:
    """What a step is begun again as: a server that died under the look is not looked at any more."""
    died = draft.state.definition.kind is Kind.SERVER and (unit.server is None or not unit.server.alive)
    return anew_kind(draft, unit) or kind if kind is StepKind.VERIFY and died else kind


def _order(draft: Draft, unit: Unit, number: int, kind: StepKind, launch: str) -> Order:
    """The order for a step. What is ended is ended with the definition it was begun with."""
    keeper = unit.step.keeper if unit.step is not None else None
    worktree, agent = (unit.ticket.worktree, unit.ticket.agent) if unit.ticket is not None else ("-", "")
    server, command = server_of(draft.state.definition, unit.name), _commands(draft, unit)
    if command is not None:
        if kind is StepKind.STOP and unit.prepared is not None:
            worktree, agent = unit.prepared.worktree, unit.prepared.agent
        return RunCommand(
            unit.name, number, kind, _line(command, kind), worktree, agent, command.step_timeout_ms, command.env,
            spare=command.spare, repeatable=command.repeatable, launch=launch, keeper=keeper,
        )  # fmt: skip
    if kind is StepKind.PREPARE:
        assert server is not None
        return RunCommand(
            unit.name, number, kind, server.prepare, worktree, agent, server.start_timeout_ms, server.env, server.url,
            spare=server.spare, repeatable=True, launch=launch, keeper=keeper,
        )  # fmt: skip
    definition: ServerDefinition | None = server
    if kind is StepKind.STOP or definition is None:
        assert unit.server is not None
        definition = unit.server.definition
    return RunStep(unit.name, number, kind, definition, worktree, agent, unit.server, launch, keeper)


def _commands(draft: Draft, unit: Unit) -> CommandDefinition | None:
    """The commands that a step under way on a unit is one of; None where it is a server's."""
    if unit.server is not None:
        return None
    if unit.step is not None and unit.step.kind is StepKind.STOP and unit.prepared is not None:
        return unit.prepared.definition
    return command_of(draft.state.definition, unit.name)


def _line(command: CommandDefinition, kind: StepKind) -> str:
    lines = {StepKind.STOP: command.stop, StepKind.PREPARE: command.prepare, StepKind.VERIFY: command.verify}
    return lines[kind]
