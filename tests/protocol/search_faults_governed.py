"""Planted faults in what a policy is: who grants, what is stale, what a reservation is for, who is told."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from interlock.protocol import (
    resource,
    resource_admission,
    resource_handover,
    resource_policy,
    resource_waiting,
)
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_events import Governed
from interlock.protocol.resource_handover import serve
from interlock.protocol.resource_state import Resource, Ticket, Unit, UnitState

Plant = Callable[[pytest.MonkeyPatch], None]


def serve_without_the_controller(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_handover, "serves_itself", lambda state: not state.blockers)


def grant_beside_blockers(plant: pytest.MonkeyPatch) -> None:
    busy = resource_policy._is_in_use

    def rash(draft: Draft) -> Any:
        return None if draft.state.blockers and draft.state.units[0].state is UnitState.FREE else busy(draft)

    plant.setattr(resource_policy, "_is_in_use", rash)


def let_blockers_come_too_late(plant: pytest.MonkeyPatch) -> None:
    govern = resource_policy.govern

    def lazy(draft: Draft, command: Any) -> None:
        known = (draft.state.policy, draft.state.epoch)
        if (command.policy, command.epoch) == known and command.blockers != draft.state.blockers:
            draft.event(Governed(command.epoch, command.policy, command.blockers))
        else:
            govern(draft, command)

    plant.setattr(resource, "govern", lazy)


def obey_anybody(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_policy, "_may_not_choose", lambda draft, mail, body: None)


def obey_an_old_word(plant: pytest.MonkeyPatch) -> None:
    may_not = resource_policy._may_not_choose

    def forgiving(draft: Draft, mail: Any, body: Any) -> Any:
        return may_not(draft, mail, msgspec.structs.replace(body, epoch=0))

    plant.setattr(resource_policy, "_may_not_choose", forgiving)


def grant_the_first_instead(plant: pytest.MonkeyPatch) -> None:
    def first(draft: Draft, ticket: Ticket) -> bool:
        return serve(draft, next(draft.state.queue.values()))

    plant.setattr(resource_policy, "serve", first)


def grant_in_word_only(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_policy, "serve", lambda draft, ticket: True)


def keep_what_is_stale(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_policy, "_end_unused", lambda draft, unit, why: None)


def end_what_has_started(plant: pytest.MonkeyPatch) -> None:
    def rash(draft: Draft, unit: Unit, why: str) -> None:
        if unit.state is UnitState.HELD:
            resource_waiting.end_hold(draft, unit, why, code="STALE_POLICY")

    plant.setattr(resource_policy, "_end_unused", rash)


def end_a_reservation_silently(plant: pytest.MonkeyPatch) -> None:
    def silent(draft: Draft, unit: Unit, why: str, *, code: str) -> None:
        resource_waiting.end_hold(draft, unit, why, code=code, tell=False)

    plant.setattr(resource_policy, "end_hold", silent)


def keep_the_places_of_others(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_policy, "_end_place", lambda draft, ticket, why: None)


def enrol_anybody(plant: pytest.MonkeyPatch) -> None:
    plant.setattr("interlock.protocol.resource_requests.may_ask", lambda draft, mail: True)


def tell_the_controller_nothing(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource, "tell_of_policy", lambda draft: None)


def take_nothing_back_from_the_controller(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Draft, "withdraw_slot", lambda draft, agent, slot: None)


def let_a_reservation_stand(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Unit, "is_reservation", lambda unit: unit.ticket is not None and unit.ticket.run)


def begin_under_an_older_policy(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_admission, "is_reserved_anew", lambda state, unit: True)


def begin_anything(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_admission, "_is_not_for_it", lambda draft, unit, digest: None)


def hold_on_after_the_last_command(plant: pytest.MonkeyPatch) -> None:
    release = resource_waiting.release_hold

    def only_of_runs(draft: Draft, unit: Unit, why: str) -> None:
        if unit.ticket is not None and unit.ticket.run:
            release(draft, unit, why)

    plant.setattr(resource, "release_hold", only_of_runs)


def forget_a_policy(plant: pytest.MonkeyPatch) -> None:
    idle = Resource.is_idle

    def careless(state: Resource) -> bool:
        return idle(msgspec.structs.replace(state, policy=None, blockers=()))

    plant.setattr(Resource, "is_idle", careless)
