"""The simulator is tested too: each planted bug must be caught within a few stories, and for the right reason."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.simulation.machine import Broken
from tests.simulation.story import tell

from interlock.coordinator import claiming, consequences, recovery, take_up, world
from interlock.coordinator.attendance import Attendance
from interlock.coordinator.governing import Governing
from interlock.coordinator.journal import Journal
from interlock.coordinator.states import Found
from interlock.coordinator.watching import Watching
from interlock.protocol import gate, resource_handover
from interlock.protocol.agents import Agents
from interlock.protocol.definition import Definition
from interlock.protocol.outcome import Deadline
from interlock.protocol.resource_events import Defined
from interlock.protocol.resource_state import Resource, Ticket, first_grantable

Plant = Callable[[pytest.MonkeyPatch], None]
STORIES = 60
OFTEN = {
    "keeps_a_deadline_over_a_sleep": {"suspend": 12},  # what makes a rare window less rare
    "takes_every_stop_for_proved": {"server_keeper_dies": 20},
    "forgets_what_it_has_done": {"again": 40},
    "takes_a_cut_session_for_gone_too_soon": {"away": 40},
    "forgets_who_was_connected_before_a_restart": {"away": 40, "crash": 20},
    "is_told_too_late_that_somebody_left": {"last_words": 60},
    "charges_the_first_unit_with_what_survived": {"lost": 8, "recover": 20},
    "adopts_no_command": {"policy": 30, "run": 60},
    "admits_whatever_is_covered": {"policy": 30, "run": 60},
    "tells_no_resource_after_a_restart": {"policy": 60, "crash": 60},
    "watches_no_command_after_a_restart": {"run": 60, "crash": 30},
}


def speaks_before_it_is_on_disk(patch: pytest.MonkeyPatch) -> None:
    stage = Journal.stage

    def hasty(self: Journal, entry: Any, state: Any, then: Any = None, **how: Any) -> Any:
        staged = stage(self, entry, state, **how)
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


def lets_go_of_processes_that_agents_are_bound_to(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Agents, "of_process", lambda self, process: [])


def lets_go_of_processes_that_holds_live_by(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watching, "_living", lambda self, address, agent: set())


def takes_a_cut_session_for_gone_too_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("interlock.protocol.registry.SESSION_CUT_MS", 7_000)


def forgets_who_was_connected_before_a_restart(patch: pytest.MonkeyPatch) -> None:
    watch = Attendance.watch

    def begin(self: Attendance) -> None:
        for agent in self._supervisor.world.registry.agents.values():
            if not agent.gone and agent.process is not None:
                watch(self, agent.process)

    patch.setattr(Attendance, "begin", begin)


def forgets_its_timers_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(take_up, "next_deadline", lambda resource, boot: None)


def keeps_a_deadline_over_a_sleep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Deadline, "was_slept_through", lambda self, now, late_ms: False)


def reads_its_records_twice(patch: pytest.MonkeyPatch) -> None:
    apply = world.World.apply

    def twice(self: world.World, record: Any) -> None:
        index = self.index
        apply(self, record)
        self.index = index
        apply(self, record)

    patch.setattr(world.World, "apply", twice)


def counts_from_one_after_a_lost_database(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claiming, "number_floor", lambda world, found: 0)


def believes_that_nothing_was_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claiming, "judge", lambda world, found: "")


def forgets_what_survived_the_database(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "_survivors", lambda *args: ({}, {}))


def charges_the_first_unit_with_what_survived(patch: pytest.MonkeyPatch) -> None:
    survivors = recovery._survivors

    def on_the_first(key: str, facts: Any, found: Found, definition: Definition) -> Any:
        first = tuple(msgspec.structs.replace(each, unit=definition.units[0]) for each in found.survivors)
        return survivors(key, facts, msgspec.structs.replace(found, survivors=first), definition)

    patch.setattr(recovery, "_survivors", on_the_first)


def gives_a_unit_that_is_in_doubt(patch: pytest.MonkeyPatch) -> None:
    def any_unit(draft: Any, ticket: Ticket) -> Any:
        return next((u for u in draft.state.units if u.ticket is None and u.step is None), None)

    patch.setattr(resource_handover, "free_unit_for", any_unit)


def redefines_under_a_holder(patch: pytest.MonkeyPatch) -> None:
    def at_once(draft: Any) -> None:
        if draft.state.next_definition is not None:
            draft.event(Defined(draft.state.next_definition))

    patch.setattr(resource_handover, "redefine", at_once)


def loses_what_nobody_has_read(patch: pytest.MonkeyPatch) -> None:
    apply = world.World.apply

    def without_letters(self: world.World, record: Any) -> None:
        apply(
            self,
            msgspec.structs.replace(
                record, entries=tuple(msgspec.structs.replace(entry, outbox=()) for entry in record.entries)
            ),
        )

    patch.setattr(world.World, "apply", without_letters)


def adopts_no_command(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gate, "_adopted", lambda gate, key, policy: ())


def admits_whatever_is_covered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gate, "covering", lambda gate, agent, also, recognised: ())


def tells_no_resource_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Governing, "renew", lambda self, key: self._told.setdefault(key, self._word(key)))


def watches_no_command_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Governing, "take_up", lambda self: [self.renew(key) for key in self._supervisor.world.gate.epochs])


@pytest.mark.slow
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
        (lets_go_of_processes_that_agents_are_bound_to, "a dead process is not noticed"),
        (lets_go_of_processes_that_holds_live_by, "a bus run that is gone still stands there"),
        (takes_a_cut_session_for_gone_too_soon, "a session counts as gone only once it was away for long"),
        (forgets_its_timers_in_a_restart, "a deadline is forgotten"),
        (keeps_a_deadline_over_a_sleep, "had its whole time, awake|a session counts as gone only"),
        (reads_its_records_twice, "restart is replay"),
        (counts_from_one_after_a_lost_database, "events are numbered"),
        (believes_that_nothing_was_lost, "events are numbered"),
        (forgets_what_survived_the_database, "begins on .* while .* lives there"),
        (charges_the_first_unit_with_what_survived, "begins on .* while .* lives there"),
        (gives_a_unit_that_is_in_doubt, "nothing is given that somebody holds|what runs is let be"),
        (redefines_under_a_holder, "live grants never exceed the units"),
        (loses_what_nobody_has_read, "restart is replay"),
        (adopts_no_command, "a policy adopts what runs and is covered"),
        (admits_whatever_is_covered, "nothing is admitted without what covers it"),
        (tells_no_resource_after_a_restart, "a resource has not heard what the gate says"),
        (watches_no_command_after_a_restart, "a command that is gone is still on record"),
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
