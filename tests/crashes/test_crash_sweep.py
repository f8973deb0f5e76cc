"""A small part of `scripts/crash-sweep`: a few kills and failures of a disk; and faults planted to see that it sees."""

import msgspec
import pytest
from tests.crashes import notify, real_disk
from tests.crashes.faults import Point
from tests.crashes.promises import Journal, broken_promises
from tests.crashes.sweep import play
from tests.end_to_end.playground import Event

from interlock.coordinator.world import World

pytestmark = pytest.mark.skipif(not notify.is_supported(), reason="system calls can be stopped on Linux 5.5 only")

# What each found once, or stands for: speak is said after the commit; the second unlink is the old socket's, the
# third a stopped server's report; the tenth file is a new server's log.
SMALL = (
    "server:kill:fdatasync:27",
    "lock:kill:speak:9",
    "lock:enospc+:pwrite:30",
    "server:eio:unlink:3",
    "lock:eio:unlink:2",
    "server:enospc:create:10",
)


@pytest.mark.slow
@pytest.mark.parametrize("point", SMALL)
def test_a_fault_in_a_whole_conversation_breaks_no_promise(point: str) -> None:
    # when
    story = play(Point.read(point))
    # then
    assert story.met, f"the conversation has no such call any more: {story.counts}"
    assert story.broken == [], story.told()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "points", "seen"),
    [
        ("speaks_first", [f"lock:kill:pwrite:{number}" for number in range(24, 40)], "'code': 'NOT_HOLDER'"),
        ("small loses_places", ["lock:kill:none:0"], "the conversation did not come to its end"),
        ("small numbers_again", ["lock:kill:none:0"], "1: a fence is not its event's number"),
        ("small leaves_files", ["lock:kill:rename:2"], "was left in shared-resources/"),
    ],
)
def test_the_sweep_sees_a_supervisor_that(planted: str, points: list[str], seen: str) -> None:
    # when
    stories = (play(Point.read(point), words=tuple(planted.split())) for point in points)
    # then
    assert any(story.broken and seen in story.told() for story in stories)


@pytest.mark.slow
@pytest.mark.skipif(bool(real_disk.refusal()), reason=real_disk.refusal())
@pytest.mark.parametrize("point", ["disk:full:first:6", "disk:full:during:0", "disk:readonly:later:0"])
def test_a_real_disk_that_is_full_or_read_only_costs_a_sentence(point: str) -> None:
    # when
    story = play(Point.read(point))
    # then
    assert story.met, story.told()
    assert story.no, "it says no, in a sentence each time"
    assert story.broken == [], story.told()


REQUESTED: Event = {"seq": 1, "actor": "x", "type": "requested", "agent": "A", "ticket": {"request_id": "r"}}
GRANTED: Event = {"seq": 2, "actor": "x", "type": "granted", "agent": "A", "fence": 2, "request_id": "r"}
RELEASED: Event = {"seq": 3, "actor": "x", "type": "released", "agent": "A", "fence": 2}
LETTER: Event = {"seq": 4, "actor": "inbox:B", "type": "sent", "to": "B", "letter": {"id": "m"}}
WHOLE = [REQUESTED, GRANTED, RELEASED, LETTER]
SAID: list[Event] = [
    {"type": "GRANTED", "agent": "A", "fence": 2, "asked": ""},
    {"type": "RELEASED", "agent": "A", "asked": ""},
    {"type": "SENT", "agent": "A", "id": "m", "asked": ""},
]


def broken(said: list[Event], events: list[Event]) -> list[str]:
    return list(broken_promises(said, Journal(events, World(), World())))


def test_a_whole_log_and_true_answers_break_no_promise() -> None:
    assert broken(SAID, WHOLE) == []


@pytest.mark.parametrize(
    ("number", "said", "events"),
    [
        ("2", [{**SAID[0], "fence": 1}], WHOLE),
        ("2", [{**SAID[0], "agent": "B"}], WHOLE),
        ("2", [{"type": "QUEUED", "agent": "B", "request_id": "y", "asked": ""}], WHOLE),
        ("2", [{"type": "RELEASED", "agent": "B", "asked": ""}], WHOLE),
        ("2", [{**SAID[2], "id": "n"}], WHOLE),
        ("2", [], [*WHOLE, {**LETTER, "seq": 5}]),
        ("1", [*SAID, {**SAID[0], "agent": "B"}], WHOLE),
        ("1", [], [REQUESTED, GRANTED, {**GRANTED, "seq": 3, "fence": 3}, {**RELEASED, "seq": 4}]),
        ("1", [], [REQUESTED, {**GRANTED, "fence": 1}, {**RELEASED, "fence": 1}]),
        ("3", [], [REQUESTED, {**GRANTED, "request_id": "s"}, RELEASED]),
        ("7", [], [REQUESTED, GRANTED]),
        ("7", [], [*WHOLE, {**RELEASED, "seq": 5}]),
        ("the log", [], [REQUESTED, GRANTED, {**RELEASED, "seq": 4}]),
    ],
)
def test_the_check_sees_the_broken_promise(number: str, said: list[Event], events: list[Event]) -> None:
    assert any(each.startswith(number) for each in broken(said, events)), broken(said, events)


def test_the_check_sees_a_replay_that_is_not_what_was_lived() -> None:
    lived = msgspec.structs.replace(World(), term=2)
    assert list(broken_promises([], Journal(WHOLE, lived, World()))) == [
        "8: what the records make is not what was lived"
    ]
