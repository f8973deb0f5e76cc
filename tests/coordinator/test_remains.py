"""What is left of a lost journal's holds: what a person is told of each unit, and what stands on it."""

from typing import Any

import msgspec
import pytest
from tests.coordinator.beside import ALIVE, DEFINITION, PAGE, PAGES, RUN, facts, file, held
from tests.coordinator.bus import process

from interlock.coordinator.config import Config
from interlock.coordinator.recovery import remains_of
from interlock.coordinator.states import Found, Mark, StateFacts, Survivor
from interlock.protocol.resource_state import Launch, Server, Ticket, Unit, UnitState


def test_the_evidence_says_who_had_it_and_who_waited() -> None:
    waiting = tuple(Ticket(f"m{n}", f"w{n}", 1, n, "-", "", "r", 0) for n in range(20))
    known = facts(units=(held(),), queue=waiting, waiting=400)

    [remains] = remains_of("machine/r", Found(None, file(known)), Config().lock()).values()

    assert 'held, fence 5, by ann from /w1 for "try it"' in remains.known
    assert "400 waited: w0, w1" in remains.known
    assert "w9" not in remains.known


def test_what_nobody_confirmed_is_still_known_after_the_next_loss_and_does_not_grow() -> None:
    why = "the database was lost"
    unit = Unit("", UnitState.RECOVERY_REQUIRED, why=f"{why}; held, fence 5, by ann, {'x' * 5_000}")
    [remains] = remains_of("machine/r", Found(None, file(facts(units=(unit,)))), Config().lock(), why).values()
    assert remains.known.startswith("held, fence 5, by ann, xxx")
    assert len(remains.known) < 1_000


def test_a_file_that_cannot_be_read_says_so() -> None:
    [remains] = remains_of("machine/r", Found(None, {"machine/r": None}), Config().lock()).values()
    assert remains.known == "its state file cannot be read"


def test_a_server_that_survived_is_kept_as_it_was_known() -> None:
    assert DEFINITION.server is not None
    server = Server(ALIVE.launch, ALIVE.keeper, "/w1", DEFINITION.server, "c0ffee", 1)
    known = facts("machine/web", units=(held(server=server),))

    remains = remains_of("machine/web", Found(None, file(known), (ALIVE,)), DEFINITION)

    assert remains[""].server == server
    assert f"its server still runs from /w1 (keeper pid {ALIVE.keeper.pid})" in remains[""].known


@pytest.mark.parametrize("unreadable", [True, False])
def test_a_server_of_which_no_file_tells_is_kept_as_nobodys(unreadable: bool) -> None:
    files: dict[str, StateFacts | None] = {"machine/web": None} if unreadable else {}
    found = Found(Mark("b", 1, 1), files, (ALIVE,))
    server = remains_of("machine/web", found, DEFINITION)[""].server
    assert server is not None
    assert (server.keeper, server.worktree) == (ALIVE.keeper, "")


@pytest.mark.parametrize("told_by", ["its file", "its keeper"])
def test_a_command_that_survived_stands_in_the_way(told_by: str) -> None:
    run = Survivor("run-5-bb", process(), "machine/r" if told_by == "its keeper" else "")
    launch = Launch(run.launch, run.keeper, "make test", 0)
    files = file(facts(units=(held(launches={run.launch: launch}),))) if told_by == "its file" else {}

    remains = remains_of("machine/r", Found(Mark("b", 1, 1), files, (run,)), Config().lock())

    assert [each.keeper for each in remains[""].launches.values()] == [run.keeper]
    assert "still runs" in remains[""].known


def test_a_server_whose_resource_is_declared_otherwise_now_stands_in_the_way() -> None:
    alive = msgspec.structs.replace(ALIVE, unit="")
    remains = remains_of("machine/web", Found(None, {}, (alive,)), Config().lock(("0", "1")))
    assert [*remains["0"].launches] == [ALIVE.launch]
    assert not remains["1"].launches


def test_a_command_of_a_unit_that_is_not_declared_any_more_stands_in_the_way_of_the_first() -> None:
    run = Survivor("run-5-bb", process(), "")
    launch = Launch(run.launch, run.keeper, "make", 0)
    found = Found(None, file(facts(units=(held("9", launches={run.launch: launch}),))), (run,))
    remains = remains_of("machine/r", found, Config().lock(("0", "1")))
    assert [*remains["0"].launches] == [run.launch]


@pytest.mark.parametrize(
    ("survivor", "unit", "in_file", "kept_by", "stands_on"),
    [
        (PAGE, "1", None, ["1"], []),  # the file is older than the launch
        (PAGE, "1", "0", ["1"], []),
        (PAGE, None, "1", ["1"], []),
        (PAGE, None, None, [], ["0", "1"]),
        (PAGE, "7", None, [], ["0"]),  # no unit any more: what stands on one of them stands in a new definition's way
        (RUN, "1", None, [], ["1"]),
        (RUN, None, "1", [], ["1"]),
        (RUN, None, None, [], ["0", "1"]),
    ],
)
def test_what_survived_is_on_its_own_unit_and_where_nobody_knows_that_on_all(
    survivor: Survivor, unit: str | None, in_file: str | None, kept_by: list[str], stands_on: list[str]
) -> None:
    assert PAGES.server is not None
    units = [held("0"), held("1")]
    if in_file is not None:
        launch = Launch(survivor.launch, survivor.keeper, "make", 0)
        server = Server(survivor.launch, survivor.keeper, "/w1", PAGES.server)
        what: dict[str, Any] = {"launches": {launch.launch: launch}} if survivor is RUN else {"server": server}
        units[int(in_file)] = held(in_file, **what)
    found = Found(
        None, file(facts("machine/pages", units=tuple(units))), (msgspec.structs.replace(survivor, unit=unit),)
    )

    remains = remains_of("machine/pages", found, PAGES)

    assert [name for name, each in remains.items() if each.server is not None] == kept_by
    assert [name for name, each in remains.items() if each.launches] == stands_on
    unsure = ["on a unit that is not known" in each.known for each in remains.values()]
    assert unsure == [len(stands_on) == 2] * 2


@pytest.mark.parametrize("on", [{"0", "1"}, {"1"}])
def test_where_a_recovery_put_what_it_could_not_place_is_not_believed_in_the_next(on: set[str]) -> None:
    launch = {RUN.launch: Launch(RUN.launch, RUN.keeper, "make", 0)}
    why = f"lost; make still runs (keeper pid {RUN.keeper.pid}), on a unit that is not known"
    units = tuple(Unit(name, UnitState.RECOVERY_REQUIRED, launches=launch, why=why) for name in sorted(on))
    found = Found(None, file(facts("machine/pages", units=units)), (RUN,))
    remains = remains_of("machine/pages", found, PAGES, "lost")
    assert [[*each.launches] for each in remains.values()] == [[RUN.launch]] * 2
    assert [each.known.count("still runs") for each in remains.values()] == [1, 1], "it is said once"


def test_what_ran_on_one_of_several_units_is_not_charged_to_the_only_one_that_is_left() -> None:
    found = Found(None, file(facts("machine/pages", units=(held("0"), held("1")))), (PAGE,))
    remains = remains_of("machine/pages", found, msgspec.structs.replace(PAGES, units=("1",)))
    assert (remains["1"].server, [*remains["1"].launches]) == (None, [PAGE.launch])
