"""Every combination: a breadth-first search over all that can happen to one resource, with every promise checked.

States are told apart by their normal form (`search_world.normal`), so that the search goes deep: it says how many it
saw. The search is itself tested: machines with one planted fault each are caught by it.
"""

from collections.abc import Callable
from time import monotonic
from typing import Any

import msgspec
import pytest
from tests.protocol import search_promises
from tests.protocol.search_promises import follow
from tests.protocol.search_world import Config, World, begin, definition, moves, normal

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
from interlock.protocol.definition import Kind
from interlock.protocol.resource_commands import Mail
from interlock.protocol.resource_draft import Draft, granted
from interlock.protocol.resource_events import Claimed, HoldReleased, HoldRevoked, RecoveryRequired
from interlock.protocol.resource_state import Resource, StepKind, Ticket, Unit

SERVER = definition(Kind.SERVER)
LOCK = Config("lock", definition(), ("a", "b", "c"))
TIMES = Config("lock-times", definition(), ("a", "b"), times=True)
LOCK_HANDED = Config("lock-handed-on", definition(), agents=("a", "b", "c"), handovers=True)
WEB_HANDED = Config("server-handed-on", definition(Kind.SERVER), worktrees=("w", "v"), handovers=True)
RUNS = Config("lock-runs", definition(), ("a", "b"), runs=True, commands=2)
ATTENDED = Config("lock-attended", definition(), ("a", "b"), attended=True)
POOL = Config("pool", definition(units=("0", "1")), ("a", "b", "c"))
WEB = Config("server", SERVER, ("a", "b"), worktrees=("/1", "/2"))
WEB_POOL = Config("server-pool", definition(Kind.SERVER, ("0", "1")), ("a", "b"), worktrees=("/1", "/2"))
WEB_REDEFINED = Config("server-redefined", SERVER, ("a", "b"), ("/1",), other=definition(Kind.SERVER, start="other"))
LOCK_REDEFINED = Config("lock-redefined", definition(), ("a", "b", "c"), other=definition(units=("0", "1")))
BECOMES_LOCK = Config("server-becomes-lock", SERVER, ("a", "b"), ("/1", "/2"), other=definition())
WEB_RUNS = Config("server-runs", SERVER, ("a", "b"), worktrees=("/1",), runs=True)
PREPARED = Config("server-prepared", definition(Kind.SERVER, prepare="build"), ("a", "b"), worktrees=("/1", "/2"))
GRACE = Config("server-grace", definition(Kind.SERVER, grace_ms=5_000), ("a", "b"), worktrees=("/1", "/2"), runs=True)
BOARD = Config("command", definition(Kind.COMMAND), ("a", "b"), worktrees=("/1", "/2"))
BOARD_REPEATS = Config("command-repeats", definition(Kind.COMMAND, repeatable=True), ("a", "b"), worktrees=("/1", "/2"))
BOARD_BECOMES = Config("command-becomes-lock", definition(Kind.COMMAND), ("a",), ("/1", "/2"), other=definition())


class Found(AssertionError):
    """A broken promise, and the shortest way to it."""


def search(config: Config, depth: int) -> str:
    """Look at everything that can happen in so many steps; say what was seen, or raise Found."""
    began = monotonic()
    first = begin(config)
    seen = {normal(first, config)}
    level: list[tuple[World, tuple[str, ...]]] = [(first, ())]
    steps = 0
    for deep in range(depth):
        following = []
        for world, path in level:
            for move in moves(world, config):
                steps += 1
                try:
                    after = follow(world, move)
                except (AssertionError, KeyError) as broken:
                    way = "".join(f"\n  {each}" for each in (*path, move[0]))
                    raise Found(f"{broken!r}, by{way}") from broken
                if after.resource is world.resource and after.trees == world.trees:
                    continue
                form = normal(after, config)
                if form not in seen:
                    seen.add(form)
                    following.append((after, (*path, move[0])))
        level = following
        if not level:
            return f"{config.name}: all {len(seen):,} states, {steps:,} steps, the deepest at {deep}"
    took = monotonic() - began
    return f"{config.name}: {len(seen):,} states, {steps:,} steps, to depth {depth}, {took:.1f} s"


# --- the machine as it is ---------------------------------------------------------------------
QUICK = [
    (LOCK, 11), (TIMES, 9), (RUNS, 7), (POOL, 7), (WEB, 6), (WEB_POOL, 6), (WEB_REDEFINED, 6), (WEB_RUNS, 6),
    (LOCK_REDEFINED, 7), (BECOMES_LOCK, 5), (PREPARED, 6), (GRACE, 5), (BOARD, 8), (BOARD_REPEATS, 8),
    (BOARD_BECOMES, 9), (LOCK_HANDED, 6), (WEB_HANDED, 5), (ATTENDED, 8),
]  # fmt: skip
DEEP = [
    (LOCK, 12), (TIMES, 12), (RUNS, 8), (POOL, 10), (WEB, 8), (WEB_POOL, 8), (WEB_REDEFINED, 8), (WEB_RUNS, 8),
    (LOCK_REDEFINED, 10), (BECOMES_LOCK, 8), (PREPARED, 8), (GRACE, 7), (BOARD, 11), (BOARD_REPEATS, 11),
    (BOARD_BECOMES, 12), (LOCK_HANDED, 8), (WEB_HANDED, 7), (ATTENDED, 10),
]  # fmt: skip


@pytest.mark.parametrize(("config", "depth"), QUICK, ids=[config.name for config, _ in QUICK])
def test_every_promise_holds_in_every_combination(config: Config, depth: int) -> None:
    print(search(config, depth))


@pytest.mark.slow
@pytest.mark.parametrize(("config", "depth"), DEEP, ids=[config.name for config, _ in DEEP])
def test_every_promise_holds_in_every_longer_combination(config: Config, depth: int) -> None:
    print(search(config, depth))


# --- machines with a fault ----------------------------------------------------------------------
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


MUTANTS: list[tuple[Plant, Config, int, str]] = [
    (forget_a_wake, LOCK, 4, "no free unit with a waiter"),
    (reuse_a_fence, LOCK, 5, "fences grow"),
    (start_before_the_stop, WEB, 7, "nothing is started before the last server is proved gone"),
    (grant_without_proof, WEB, 7, "nothing is started before the last server is proved gone"),
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
    (forget_a_dead_server, WEB, 6, "GRANTED: its server lives"),
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
]


@pytest.mark.parametrize(("plant", "config", "depth", "promise"), MUTANTS, ids=[row[0].__name__ for row in MUTANTS])
def test_a_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Plant, config: Config, depth: int, promise: str
) -> None:
    plant(monkeypatch)
    with pytest.raises(Found, match=promise):
        search(config, depth)
