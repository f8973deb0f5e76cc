"""The simulator is tested too: each planted bug must be caught within a few stories, and for the right reason."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.simulation.machine import Broken
from tests.simulation.story import tell

from interlock.coordinator import consequences, world
from interlock.coordinator.attendance import Attendance
from interlock.coordinator.journal import Journal
from interlock.protocol import resource_handover
from interlock.protocol.resource_state import Resource, Ticket, first_grantable

Plant = Callable[[pytest.MonkeyPatch], None]
STORIES = 60
OFTEN = {  # what makes a rare window less rare
    "takes_every_stop_for_proved": {"server_keeper_dies": 20},
    "forgets_what_it_has_done": {"again": 40},
    "takes_a_cut_session_for_gone_too_soon": {"away": 40},
    "forgets_who_was_connected_before_a_restart": {"away": 40, "crash": 20},
    "is_told_too_late_that_somebody_left": {"last_words": 60},
}


def speaks_before_it_is_on_disk(patch: pytest.MonkeyPatch) -> None:
    stage = Journal.stage

    def hasty(self: Journal, entry: Any, state: Any, then: Any = None) -> Any:
        staged = stage(self, entry, state)
        if then is not None:
            then(staged)
        return staged

    patch.setattr(Journal, "stage", hasty)


def forgets_the_last_waiter(patch: pytest.MonkeyPatch) -> None:
    def all_but_the_last(state: Resource) -> Ticket | None:
        return first_grantable(state) if len(state.queue) != 1 else None

    patch.setattr(resource_handover, "first_grantable", all_but_the_last)


def serves_the_newest(patch: pytest.MonkeyPatch) -> None:
    def newest(state: Resource) -> Ticket | None:
        return next((ticket for ticket in reversed([*state.queue.values()]) if not ticket.absent), None)

    patch.setattr(resource_handover, "first_grantable", newest)


def takes_every_stop_for_proved(patch: pytest.MonkeyPatch) -> None:
    failed, gone = resource_handover.step_failure, resource_handover.server_gone

    def step_failure(draft: Any, end: Any) -> None:
        failed(draft, msgspec.structs.replace(end, proved=True))

    def server_gone(draft: Any, end: Any) -> None:
        gone(draft, msgspec.structs.replace(end, proved=True))

    patch.setattr("interlock.protocol.resource.step_failure", step_failure)
    patch.setattr("interlock.protocol.resource.server_gone", server_gone)


def counts_on_after_a_failed_batch(patch: pytest.MonkeyPatch) -> None:
    fail = Journal._fail

    def careless(self: Journal, *args: Any) -> None:
        before = self.next_seq
        fail(self, *args)
        self.next_seq = before

    patch.setattr(Journal, "_fail", careless)


def forgets_what_it_has_done(patch: pytest.MonkeyPatch) -> None:
    project = world.World.project

    def forgetful(self: world.World, *args: Any) -> Any:
        letters = project(self, *args)
        self.ids.clear()
        return letters

    patch.setattr(world.World, "project", forgetful)


def replays_without_withdrawing(patch: pytest.MonkeyPatch) -> None:
    apply = world.World.apply

    def partly(self: world.World, record: Any) -> None:
        entries = tuple(msgspec.structs.replace(entry, withdraw=()) for entry in record.entries)
        apply(self, msgspec.structs.replace(record, entries=entries))

    patch.setattr(world.World, "apply", partly)


def is_told_too_late_that_somebody_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consequences, "departed", lambda registry, ticket: None)


def watches_nobody_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attendance, "begin", lambda self: None)  # only whoever joins in this life


def takes_a_cut_session_for_gone_too_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("interlock.protocol.registry.SESSION_CUT_MS", 7_000)


def forgets_who_was_connected_before_a_restart(patch: pytest.MonkeyPatch) -> None:
    watch = Attendance.watch

    def begin(self: Attendance) -> None:
        for agent in self._supervisor.world.registry.agents.values():
            if not agent.gone and agent.process is not None:
                watch(self, agent.process)

    patch.setattr(Attendance, "begin", begin)


@pytest.mark.parametrize(
    ("plant", "promise"),
    [
        (speaks_before_it_is_on_disk, "on disk before anyone is told"),
        (forgets_the_last_waiter, "a lost wake-up"),
        (serves_the_newest, "first come, first served"),
        (takes_every_stop_for_proved, "while .* (lives|stands) there|the last server is gone|prepared and verified"),
        (counts_on_after_a_failed_batch, "a fence is its grant's number"),
        (forgets_what_it_has_done, "nothing is executed twice"),
        (replays_without_withdrawing, "restart is replay"),
        (is_told_too_late_that_somebody_left, "who is gone still stands there"),
        (watches_nobody_after_a_restart, "a dead process is not noticed"),
        (takes_a_cut_session_for_gone_too_soon, "a session counts as gone only once it was away for long"),
        (forgets_who_was_connected_before_a_restart, "a session (that is away|counts as gone)"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_planted_bug_is_caught(plant: Plant, promise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(Broken, match=promise):
        tell_many(OFTEN.get(plant.__name__, {}))


def tell_many(often: dict[str, int]) -> None:
    for seed in range(STORIES):
        tell(seed, often=often)
