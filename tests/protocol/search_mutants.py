"""Machines with one planted fault each: what the search is tested with, and how deep it must go to see it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.protocol import search_promises
from tests.protocol.search_plans import (
    BOARD,
    GRACE,
    LOCK,
    LOCK_HANDED,
    LOCK_LOST,
    POOL,
    POOL_HANDED,
    PREPARED,
    RUNS,
    TIMES,
    WEB,
    WEB_HANDED,
)
from tests.protocol.search_world import Config

from interlock.protocol import (
    resource,
    resource_draft,
    resource_evolve,
    resource_giving,
    resource_handover,
    resource_recovery,
    resource_requests,
    resource_revoking,
    resource_steps,
    resource_waiting,
)
from interlock.protocol.messages import Released
from interlock.protocol.outcome import Deadline
from interlock.protocol.resource_commands import Mail
from interlock.protocol.resource_draft import Draft, granted
from interlock.protocol.resource_events import (
    Claimed,
    HoldReleased,
    HoldRevoked,
    Recovered,
    RecoveryRequired,
    Requested,
)
from interlock.protocol.resource_state import Resource, StepKind, Ticket, Unit, UnitState

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
    plant.setattr(resource_handover, "_begin", resource_handover.grant)


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


# --- hand-overs, persons, pools, lost databases ---------------------------------------------------
def hand_over_past_the_queue(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_giving, "first_grantable", lambda state: None)


def hand_over_some_other_unit(plant: pytest.MonkeyPatch) -> None:
    free = resource_handover._free_unit

    def first_free(draft: Draft, ticket: Ticket) -> Unit | None:
        draft.given = ""
        return free(draft, ticket)

    plant.setattr(resource_handover, "_free_unit", first_free)


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

    plant.setattr(resource_handover, "_free_unit", any_unit)


def give_one_unit_twice(plant: pytest.MonkeyPatch) -> None:
    def first(draft: Draft, ticket: Ticket) -> Unit | None:
        return next(
            (u for u in draft.state.units if u.ticket is None or u.ticket.request_id != ticket.request_id), None
        )

    plant.setattr(resource_handover, "_free_unit", first)


def forget_the_second_unit(plant: pytest.MonkeyPatch) -> None:
    free = resource_handover._free_unit

    def one(draft: Draft, ticket: Ticket) -> Unit | None:
        unit = free(draft, ticket)
        return unit if unit is not None and unit.name == draft.state.units[0].name else None

    plant.setattr(resource_handover, "_free_unit", one)


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


# (the machine, a plan that shows it, how deep, the promise that it breaks)
MUTANTS: list[tuple[Plant, Config, int, str]] = [
    (forget_a_wake, LOCK, 4, "no free unit with a waiter"),
    (reuse_a_fence, LOCK, 5, "fences grow"),
    (start_before_the_stop, WEB, 7, "nothing is started before the last server is proved gone"),
    (
        grant_without_proof,
        WEB,
        7,
        "(nothing is started before the last server is proved gone|what is in use is not forgotten)",
    ),
    (grant_without_verifying, WEB, 3, "GRANTED: its server lives"),
    (take_from_a_live_owner, LOCK, 6, "nobody alive and answering"),
    (take_from_one_who_answered, LOCK, 6, "nobody alive and answering"),
    (count_polls_in_the_declared_time, TIMES, 6, "nobody alive and answering"),
    (take_after_sleeping, LOCK, 6, "nobody alive and answering"),
    (revoke_under_a_command, RUNS, 5, r"AssertionError\(\)"),
    (lose_a_place, LOCK, 7, "a place keeps its arrival number"),
    (forget_a_remembered_place, RUNS, 7, "a remembered place is kept"),
    (grant_the_absent, LOCK, 9, "an absent ticket is not granted"),
    (overtake, LOCK, 5, "nobody is overtaken"),
    (forget_to_abort, WEB, 3, "a start that nobody wants is aborted"),
    (forget_to_ask, LOCK, 3, "an owner that others wait for is asked"),
    (forget_a_dead_server, WEB, 6, "GRANTED: its server lives|what is idle can be forgotten"),
    (say_granted_while_down, WEB, 6, "GRANTED: its server lives"),
    (forget_commands_in_doubt, RUNS, 6, "the machine knows every command"),
    (forget_steps_in_a_restart, WEB, 3, "after a restart every step"),
    (revoke_under_a_grace, GRACE, 6, "what runs is let be in the grace"),
    (repeat_what_may_not_be, BOARD, 6, "what may not be repeated is not"),
    (skip_the_stop, BOARD, 9, "nothing is started before the last server is proved gone"),
    (skip_the_look, BOARD, 5, "GRANTED: its server lives"),
    (prepare_for_another, PREPARED, 6, "a server starts where it was prepared"),
    (look_at_what_has_died, WEB, 7, "what is stopped or looked at is there"),
    (answer_twice, LOCK, 2, "answered exactly once"),
    (answer_nothing, LOCK, 2, "answered exactly once"),
    (change_without_a_record, LOCK, 6, "restart is replay"),
    (hand_over_past_the_queue, LOCK_HANDED, 5, "nobody is overtaken by a hand-over"),
    (hand_over_some_other_unit, POOL_HANDED, 4, "what is handed over is that very unit"),
    (hand_over_to_nobody, LOCK_HANDED, 3, "who is named has it"),
    (hand_over_from_another_worktree, WEB_HANDED, 5, "what is handed over is as it stands"),
    (revoke_without_a_word, LOCK, 3, "whoever loses a hold early is told"),
    (revoke_in_word_only, LOCK, 3, "what is revoked is over"),
    (lose_a_doubt_silently, RUNS, 4, "whoever loses a hold early is told"),
    (recover_under_a_command, LOCK_LOST, 5, "nobody confirms away a living command"),
    (recover_nothing, RUNS, 5, "a person ends every doubt"),
    (give_what_is_in_doubt, RUNS, 6, "what needs a recovery is not given|RecoveryRequired|AssertionError"),
    (give_one_unit_twice, POOL, 3, "AssertionError|live grants never exceed the units"),
    (forget_the_second_unit, POOL, 3, "no free unit with a waiter"),
    (lose_living_commands_with_the_database, LOCK_LOST, 5, "the machine knows every command"),
    (believe_a_deadline_of_the_last_boot, LOCK_LOST, 6, "nobody alive and answering|what is over"),
    (let_the_gone_stand, LOCK, 3, "who is gone (stands nowhere|holds nothing)"),
    (take_late_words, WEB, 3, "what is over changes nothing"),
    (forget_what_is_in_use, LOCK, 3, "what is in use is not forgotten"),
]
