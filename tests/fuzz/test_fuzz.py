"""A small part of `scripts/fuzz`, with fixed seeds: every door, and that the fuzz itself sees what it is to see."""

import itertools
import json
import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fuzz import parsers
from tests.fuzz.arena import Arena, arena
from tests.fuzz.commands import Ended, fault
from tests.fuzz.conversations import Connection, Talk
from tests.fuzz.frames import BadAnswer, Wanted, check

SEED = "1"
PURE = 300
GOOD: dict[str, Any] = {
    "id": "1", "from": "coordinator", "to": "a", "at": "2026-01-01T00:00:00.000Z", "reply_to": "x",
    "body": {"type": "REFUSED", "code": "BAD_MESSAGE", "why": "so"}, "exit": 64,
}  # fmt: skip


@pytest.mark.parametrize("name", list(parsers.PARSERS))
def test_a_reader_refuses_garbage_in_the_one_way_that_its_callers_expect(name: str) -> None:
    assert list(parsers.sweep(name, SEED, PURE if name != "git" else PURE // 10)) == []


@pytest.fixture(scope="module")
def bus() -> Iterator[Arena]:
    with arena() as made:
        yield made


@pytest.mark.slow
def test_no_door_lets_garbage_through_to_anybody_else(bus: Arena) -> None:
    said: dict[str, Any] = {}
    with bus.neighbour(said):
        doors = (bus.over_socket(SEED, 0, 1_000), bus.over_relay(SEED, 0, 100), bus.over_folders(SEED, 0, 200),
                 bus.over_commands(SEED, 0, 5))  # fmt: skip
        found = [fault for _, faults in itertools.chain(*doors) for fault in faults]
    assert found == []
    assert bus.faults() == []
    assert (said["broken"], said["rounds"] > 0) == ("", True)


# --- the fuzz sees what it is to see --------------------------------------------------------------
def test_a_good_frame_is_one() -> None:
    assert check(json.dumps(GOOD).encode()) == ("reply", "x")
    assert check(b'{"welcome": {"agent": "a"}}') == ("welcome", "")


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"nonsense", "no JSON object"),
        (b'{"body": {"type": "PONG"}}', "no envelope"),
        (json.dumps({**GOOD, "body": {"type": "REFUSED", "code": "OOPS", "why": ""}}).encode(), "unknown code"),
        (json.dumps({**GOOD, "exit": 0}).encode(), "another's exit code"),
        (json.dumps({**GOOD, "body": {"type": "REFUSED", "code": "INTERNAL", "why": ""}}).encode(), "exit code"),
        (json.dumps({**GOOD, "exit": 74, "body": {"type": "REFUSED", "code": "INTERNAL", "why": ""}}).encode(), "^INT"),
        (json.dumps({**GOOD, "body": {"type": "GRANTED"}}).encode(), "of no type"),
    ],
)  # fmt: skip
def test_a_bad_frame_is_seen(frame: bytes, says: str) -> None:
    with pytest.raises(BadAnswer, match=says):
        check(frame)


def test_a_line_that_is_not_answered_is_seen_and_named() -> None:
    lines = [b'{"id": "x", "to": "a"}', b'{"id": "y", "to": "a"}']
    talk = Talk(
        "7",
        "lines",
        b"\n".join(lines) + b"\n",
        lines,
        [(Wanted("reply", "x"), lines[0]), (Wanted("reply", "y"), lines[1])],
    )
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = Connection(talk, ours, random.Random(1))
    while connection.has_more():
        connection.say()
    theirs.sendall(json.dumps(GOOD).encode() + b"\n")
    connection.hear()
    theirs.close()
    connection.hear()
    assert connection.is_over
    assert connection.faults == [f"not answered (reply 'y'): {lines[1]!r}"]


@pytest.mark.parametrize(
    ("code", "said", "says"),
    [
        (64, b"bus: so (USAGE)", ""),
        (64, b"", "without a word"),
        (2, b"usage: bus", "exit code 2"),
        (1, b"Traceback (most recent call last):\n  x", "a traceback"),
        (-11, b"", "signal 11"),
    ],
)
def test_a_command_that_ends_as_none_should_is_seen(code: int, said: bytes, says: str) -> None:
    wrong = fault(Ended(["status"], {}, code, said))
    assert (says in wrong) if says else wrong == ""
