"""Planted faults in what is rarer: hand-overs, persons, pools, lost databases, late words."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from interlock.protocol import (
    resource,
    resource_giving,
    resource_handover,
    resource_recovery,
    resource_revoking,
    resource_waiting,
)
from interlock.protocol.messages import Released
from interlock.protocol.outcome import Deadline
from interlock.protocol.resource_commands import LaunchGone
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_events import (
    Recovered,
    Requested,
)
from interlock.protocol.resource_state import Resource, Ticket, Unit, UnitState

Plant = Callable[[pytest.MonkeyPatch], None]


def hand_over_past_the_queue(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_giving, "first_grantable", lambda state: None)


def hand_over_some_other_unit(plant: pytest.MonkeyPatch) -> None:
    free = resource_handover.free_unit_for

    def first_free(draft: Draft, ticket: Ticket) -> Unit | None:
        draft.given = ""
        return free(draft, ticket)

    plant.setattr(resource_handover, "free_unit_for", first_free)


def hand_over_to_nobody(plant: pytest.MonkeyPatch) -> None:
    event = Draft.event

    def without(draft: Draft, fact: Any) -> None:
        if not (isinstance(fact, Requested) and fact.ticket.request_id.endswith(resource_giving.NEXT)):
            event(draft, fact)

    plant.setattr(Draft, "event", without)


def hand_over_from_another_worktree(plant: pytest.MonkeyPatch) -> None:
    heir = resource_giving._ticket_of_heir

    def elsewhere(*args: Any) -> Ticket:
        return msgspec.structs.replace(heir(*args), worktree="v")

    plant.setattr(resource_giving, "_ticket_of_heir", elsewhere)


def revoke_without_a_word(plant: pytest.MonkeyPatch) -> None:
    end_hold = resource_waiting.end_hold

    def silent(draft: Draft, unit: Unit, why: str) -> None:
        end_hold(draft, unit, why, tell=False)

    plant.setattr(resource_revoking, "end_hold", silent)


def revoke_in_word_only(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_revoking, "end_hold", lambda draft, unit, why: None)


def lose_a_doubt_silently(plant: pytest.MonkeyPatch) -> None:
    tell = Draft.tell

    def deaf(draft: Draft, ticket: Ticket, body: Any) -> None:
        if getattr(body, "code", "") != "RECOVERY_REQUIRED":
            tell(draft, ticket, body)

    plant.setattr(Draft, "tell", deaf)


def recover_under_a_command(plant: pytest.MonkeyPatch) -> None:
    def forgetful(draft: Draft, command: Any) -> None:
        for unit in draft.state.units:
            if unit.state is UnitState.RECOVERY_REQUIRED:
                draft.event(Recovered(unit.name, command.sender))
        draft.answer(command.sender, Released("r", "r"))

    plant.setattr(resource, "recover", forgetful)


def recover_nothing(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(
        resource, "recover", lambda draft, command: draft.refuse(command.sender, "RESOURCE_BUSY", "a step still runs")
    )


def give_what_is_in_doubt(plant: pytest.MonkeyPatch) -> None:
    def any_unit(draft: Draft, ticket: Ticket) -> Unit | None:
        return next((u for u in draft.state.units if u.ticket is None and u.step is None), None)

    plant.setattr(resource_handover, "free_unit_for", any_unit)


def give_one_unit_twice(plant: pytest.MonkeyPatch) -> None:
    def first(draft: Draft, ticket: Ticket) -> Unit | None:
        return next(
            (u for u in draft.state.units if u.ticket is None or u.ticket.request_id != ticket.request_id), None
        )

    plant.setattr(resource_handover, "free_unit_for", first)


def forget_the_second_unit(plant: pytest.MonkeyPatch) -> None:
    free = resource_handover.free_unit_for

    def one(draft: Draft, ticket: Ticket) -> Unit | None:
        unit = free(draft, ticket)
        return unit if unit is not None and unit.name == draft.state.units[0].name else None

    plant.setattr(resource_handover, "free_unit_for", one)


def end_a_command_on_one_unit_only(plant: pytest.MonkeyPatch) -> None:
    gone_from = resource._launch_gone_from

    def first_only(draft: Draft, unit: Unit, gone: LaunchGone) -> None:
        if unit == next(each for each in draft.state.units if gone.launch in each.launches) and not draft._events:
            gone_from(draft, unit, gone)

    plant.setattr(resource, "_launch_gone_from", first_only)


def lose_living_commands_with_the_database(plant: pytest.MonkeyPatch) -> None:
    found = resource_recovery._by_unit

    def nothing(state: Resource, remains: Any) -> Any:
        return {name: msgspec.structs.replace(each, launches={}) for name, each in found(state, remains).items()}

    plant.setattr(resource_recovery, "_by_unit", nothing)


def believe_a_deadline_of_the_last_boot(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(
        Deadline,
        "was_slept_through",
        lambda at, now, late_ms: at.boot == now.boot and at.mono_ms < now.mono_ms - late_ms,
    )


def let_the_gone_stand(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource, "_agent_gone", lambda draft, gone: None)


def take_late_words(plant: pytest.MonkeyPatch) -> None:
    failure = resource_handover.step_failure

    def gullible(draft: Draft, command: Any) -> None:
        step = draft.state.unit(command.unit).step
        failure(draft, command if step is None else msgspec.structs.replace(command, step=step.number))

    plant.setattr(resource, "step_failure", gullible)


def forget_what_is_in_use(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Resource, "is_idle", lambda state: not state.queue)
