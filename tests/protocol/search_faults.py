"""Planted faults: one plant a function, in how the queue, holds, polls, steps, restarts and answers are kept."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.protocol import search_promises

from interlock.protocol import (
    resource,
    resource_draft,
    resource_evolve,
    resource_giving,
    resource_handover,
    resource_requests,
    resource_steps,
    resource_waiting,
)
from interlock.protocol.resource_commands import Mail
from interlock.protocol.resource_draft import Draft, granted
from interlock.protocol.resource_events import (
    Claimed,
    HoldReleased,
    HoldRevoked,
    RecoveryRequired,
)
from interlock.protocol.resource_state import Resource, StepKind, Ticket, Unit

Plant = Callable[[pytest.MonkeyPatch], None]


def forget_a_wake(plant: pytest.MonkeyPatch) -> None:
    settle = resource_handover.settle

    def lazy(draft: Draft, first: str) -> None:
        if not any(isinstance(event, HoldReleased) for event in draft.outcome().events):
            settle(draft, first)

    plant.setattr(resource, "settle", lazy)


def reuse_a_fence(plant: pytest.MonkeyPatch) -> None:
    next_seq = Draft.next_seq

    def old(draft: Draft) -> int:
        return next((each.fence for each in draft.state.lost.values()), next_seq(draft))

    plant.setattr(Draft, "next_seq", old)


def start_before_the_stop(plant: pytest.MonkeyPatch) -> None:
    start_step = resource_steps.start_step

    def hasty(draft: Draft, unit: Unit, kind: StepKind, **how: Any) -> None:
        start_step(draft, unit, StepKind.START if how.get("ticket") else kind, **how)

    plant.setattr(resource_handover, "start_step", hasty)


def grant_without_proof(plant: pytest.MonkeyPatch) -> None:
    failure = resource_handover.step_failure

    def trusting(draft: Draft, command: Any) -> None:
        failure(draft, msgspec.structs.replace(command, proved=True))

    plant.setattr(resource, "step_failure", trusting)


def grant_without_verifying(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_handover, "begin", resource_handover.grant)


def take_from_a_live_owner(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_waiting, "POLLS_UNANSWERED_MAX", 1)


def take_from_one_who_answered(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_waiting, "_is_silent", lambda draft, unit: unit.claimed)


def count_polls_in_the_declared_time(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_waiting, "_counts", lambda draft, unit: True)


def take_after_sleeping(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_waiting, "LATE_MS", 10**9)


def revoke_under_a_command(plant: pytest.MonkeyPatch) -> None:
    def rash(draft: Draft, unit: Unit, why: str, **how: Any) -> None:
        assert unit.ticket is not None
        draft.event(HoldRevoked(unit.ticket.agent, unit.name, unit.fence, why, draft.now.at_ms))

    plant.setattr(resource, "end_hold", rash)


def lose_a_place(plant: pytest.MonkeyPatch) -> None:
    enqueue = resource_evolve._enqueue

    def to_the_back(state: Resource, ticket: Ticket) -> Resource:
        arrival = state.next_arrival if ticket.absent else ticket.arrival
        return enqueue(state, msgspec.structs.replace(ticket, arrival=arrival))

    plant.setattr(resource_evolve, "_enqueue", to_the_back)


def forget_a_remembered_place(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_handover, "ARRIVAL_REMEMBERED_MS", 0)


def grant_the_absent(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_handover, "first_grantable", lambda state: next(iter(state.queue.values()), None))


def overtake(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_handover, "first_grantable", lambda state: next(reversed([*state.queue.values()]), None))


def forget_to_abort(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Draft, "abort", lambda draft, unit: None)


def forget_to_ask(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_handover, "arm", lambda draft: None)


def forget_a_dead_server(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource, "server_gone", lambda draft, command: None)


def say_granted_while_down(plant: pytest.MonkeyPatch) -> None:
    def careless(draft: Draft, mail: Mail, unit: Unit, *, shared: bool = False) -> None:
        draft.answer(mail.sender, granted(draft, unit, shared=shared))

    plant.setattr(resource_requests, "_answer_holder", careless)


def forget_commands_in_doubt(plant: pytest.MonkeyPatch) -> None:
    evolve = resource_evolve.evolve

    def forgetful(state: Resource, event: Any) -> Resource:
        state = evolve(state, event)
        if isinstance(event, RecoveryRequired):
            unit = msgspec.structs.replace(state.unit(event.unit), launches={})
            state = msgspec.structs.replace(state, units=(unit, *state.units[1:]))
        return state

    plant.setattr(resource_draft, "evolve", forgetful)
    plant.setattr(search_promises, "evolve", forgetful)


def forget_steps_in_a_restart(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource, "resume", lambda draft: None)


def revoke_under_a_grace(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_waiting, "_grace", lambda draft, unit: None)


def repeat_what_may_not_be(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_handover, "may_run_again", lambda draft, unit, *, proved: True)


def skip_the_stop(plant: pytest.MonkeyPatch) -> None:
    anew = resource_steps.anew_kind

    def lazy(draft: Draft, unit: Unit, *, restart: bool = False) -> StepKind | None:
        kind = anew(draft, unit, restart=restart)
        return StepKind.PREPARE if kind is StepKind.STOP and unit.prepared is not None else kind

    plant.setattr(resource_steps, "anew_kind", lazy)


def skip_the_look(plant: pytest.MonkeyPatch) -> None:
    following = resource_steps.next_kind

    def hasty(draft: Draft, unit: Unit, done: StepKind, *, restart: bool = False) -> StepKind | None:
        return None if done is StepKind.PREPARE else following(draft, unit, done, restart=restart)

    plant.setattr(resource_handover, "next_kind", hasty)


def prepare_for_another(plant: pytest.MonkeyPatch) -> None:
    following = resource_steps.next_kind

    def hasty(draft: Draft, unit: Unit, done: StepKind, *, restart: bool = False) -> StepKind | None:
        return following(draft, unit, StepKind.PREPARE if done is StepKind.STOP else done, restart=restart)

    plant.setattr(resource_steps, "next_kind", hasty)
    plant.setattr(resource_handover, "next_kind", hasty)


def look_at_what_has_died(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_steps, "_still", lambda draft, unit, kind: kind)


def answer_twice(plant: pytest.MonkeyPatch) -> None:
    answer = Draft.answer

    def twice(draft: Draft, to: str, body: Any) -> None:
        answer(draft, to, body)
        answer(draft, to, body)

    plant.setattr(Draft, "answer", twice)


def answer_nothing(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_giving, "refuse_not_holder", lambda draft, mail, fence: None)


def change_without_a_record(plant: pytest.MonkeyPatch) -> None:
    event = Draft.event

    def silent(draft: Draft, fact: Any) -> None:
        event(draft, fact)
        if isinstance(fact, Claimed):
            draft._events.pop()

    plant.setattr(Draft, "event", silent)
