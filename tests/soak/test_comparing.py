"""What a soak says: of rows that came back, of rows that did not, and of those that are kept by design."""

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import WAIT_S, Bus
from tests.polling import pause
from tests.soak.comparing import BY_DESIGN, compare, table
from tests.soak.sampler import Sample, sample

SESSIONS, SOCKETS = "bus: sessions", "descriptors: socket"


@pytest.mark.parametrize(
    ("name", "start", "end", "ok"),
    [
        (SESSIONS, 3, 3, True),
        (SESSIONS, 3, 2, True),
        (SESSIONS, 3, 4, False),
        ("descriptors: pidfd", 0, 1, False),
        ("files: inboxes/…/tmp", 0, 1, False),
        ("a row that only the end has", 0, 1, False),
        ("memory MB", 40, 60, True),
        ("memory MB", 40, 70, False),
        ("database log MB", 4, 7, True),
        ("database log MB", 4, 9, False),
        ("bus: message ids", 0, 69_632, True),
        ("bus: message ids", 0, 69_633, False),
    ],
)
def test_a_row_comes_back_or_stays_below_its_bound(name: str, start: float, end: float, ok: bool) -> None:
    rows = compare({name: start} if start else {}, [{name: 99_999}], {name: end})
    assert [(row.start, row.peak, row.end, row.ok) for row in rows] == [(start, 99_999, end, ok)]
    assert ("NOT BACK" in table(rows)) is not ok


def test_a_row_that_only_the_middle_had_came_back() -> None:
    assert [row.ok for row in compare({}, [{"descriptors: file x": 2}], {})] == [True]


@pytest.mark.parametrize(("end", "ok"), [(4, True), (5, False)])
def test_who_was_killed_may_have_left_one_result_each(end: float, ok: bool) -> None:
    assert [row.ok for row in compare({}, [], {"files: launches": end}, kills=3)] == [ok]


def test_each_bound_says_why() -> None:
    assert all(kept.why for kept in BY_DESIGN.values())


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        yield bus


def taken(home: Path) -> Sample:
    found = sample(home)
    assert found is not None
    return found


def at_rest(home: Path) -> Sample:
    """The least of half a second: of a closed connection, such as that of a look, the bus hears a moment later."""
    samples = []
    for _ in range(10):
        pause(0.05)
        samples.append(taken(home))
    return min(samples, key=lambda each: (each[SESSIONS], each[SOCKETS]))


def test_what_is_open_shows_in_the_sample_and_its_end_too(bus: Bus) -> None:
    """One that leaves connections open is told from one that closes them: the comparison is no formality."""
    start = at_rest(bus.home)
    with contextlib.ExitStack() as connections:
        for _ in range(3):
            connection = connections.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(str(bus.home / "bus.sock"))
            connection.sendall(b'{"hello":{"agent":"a"}}\n')
            connection.recv(65536)
        open_ = at_rest(bus.home)
    assert open_[SESSIONS] == start[SESSIONS] + 3
    assert open_[SOCKETS] == start[SOCKETS] + 3
    assert {row.name for row in compare(start, [], open_) if not row.ok} == {SESSIONS, SOCKETS}
    until = time.monotonic() + WAIT_S
    while (end := at_rest(bus.home))[SESSIONS] > start[SESSIONS]:
        assert time.monotonic() < until  # nobody tells of a closed connection
    assert {row.name for row in compare(start, [open_], end) if not row.ok} == set()


def test_the_sample_has_what_the_table_is_about(bus: Bus) -> None:
    bus.ok("request", "machine/x", agent="a")
    now = taken(bus.home)
    assert now["bus: resources in use"] == 1
    assert now["files: shared-resources"] >= 1
    assert now["children"] == 0
    assert now["threads"] >= 1
    assert now["memory MB"] > 1
    assert now["descriptors: file bus.db"] == now["descriptors: file bus.db-wal"] == 1
    assert now["database log MB"] > 0
    bus.ok("release", agent="a")


def test_no_supervisor_is_no_sample(tmp_path: Path) -> None:
    assert sample(tmp_path) is None
