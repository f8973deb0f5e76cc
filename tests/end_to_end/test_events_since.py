"""Events by a cursor: no gap and no repeat, over restarts and under many writers; a wait that is told, and bounded."""

import json
import threading
from pathlib import Path
from typing import Any

from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import Bus, together

NEVER = "600s"


def read_on(bus: Bus, since: int, *more: str) -> list[dict[str, Any]]:
    done = bus("inbox", "--since", str(since), *more, "--json", agent="ann")
    assert done.code in {0, 75}, done
    assert (done.code == 75) == (not done.out), done
    return [json.loads(line) for line in done.out.splitlines()]


def test_what_came_after_a_number_is_read_again_and_again_and_stays_unread(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    bus.ok("join", "ann")
    for text in ("one", "two", "three"):
        bus.ok("send", "ann", text, agent="bob")
    # when
    first = read_on(bus, 0)
    # then: all of it, each with its number, oldest first
    assert [each["text"] for each in first] == ["one", "two", "three"]
    numbers = [each["seq"] for each in first]
    assert numbers == sorted(set(numbers))
    assert [each["text"] for each in read_on(bus, numbers[0])] == ["two", "three"]
    # when they are read in the ordinary way, then they are still after that number
    bus.ok("inbox", agent="ann")
    assert [each["seq"] for each in read_on(bus, numbers[0])] == numbers[1:]
    # and for people the last line says where to go on
    assert bus.ok("inbox", "--since", str(numbers[1]), agent="ann").splitlines()[-1] == (
        f"next: bus inbox --since {numbers[2]}"
    )


def test_where_nothing_came_the_end_of_the_wait_is_one_sentence_and_75(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    bus.ok("join", "ann")
    for words in (["inbox", "--since", "7", "--wait", "200ms"], ["tail", "--since", "9000", "--wait", "200ms"]):
        for as_json in ([], ["--json"]):
            # when
            done = bus(*words, *as_json, agent="ann")
            # then
            assert (done.code, done.out) == (75, ""), done
            assert f"after {words[2]} yet; read on from there: bus {' '.join(words)}" in done.err, done


def test_a_wait_ends_as_soon_as_there_is_something_also_over_a_restart(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    bus.ok("join", "ann")
    log = bus.start("tail", "--since", "0", "--type", "sent", "--wait", NEVER, "--json", agent="ann")
    inbox = bus.start("inbox", "--since", "0", "--wait", NEVER, "--json", agent="ann")
    bus.ok("tail", "--since", "0")
    # when
    bus.kill_supervisor()
    bus.ok("up")
    bus.ok("send", "ann", "after the restart", agent="bob")
    # then
    done = inbox.end()
    assert (done.code, json.loads(done.out)["text"]) == (0, "after the restart"), done
    done = log.end()
    assert (done.code, json.loads(done.out)["type"]) == (0, "sent"), done


def test_many_writers_leave_a_reader_no_gap_and_no_repeat_over_a_restart(bus: Bus, home: Home) -> None:
    """The coordinator writes into the same inbox: it numbers its letters apart from the log."""
    # given
    bus.ok("up")
    bus.ok("join", "ann")
    writers, each = 4, 15
    last, written = threading.Event(), set[str]()
    got: list[dict[str, Any]] = []

    def write(number: int) -> None:
        for count in range(each):
            text = f"{number}.{count}"
            bus.ok("send", "ann", text, agent=f"w{number}")
            written.add(text)
            if number == 0:  # letters of the coordinator in between
                bus.tell("ann", f"REQUEST machine/r{count} - x")
                if count == each // 2:
                    bus.kill_supervisor()

    def read() -> None:
        since, over = 0, False
        while not over:
            over = last.is_set()  # before the look: what was written until then is there
            for message in read_on(bus, since, *([] if over else ["--wait", "1s"])):
                got.append(message)
                since = message["seq"]
                over = False

    # when
    reader = threading.Thread(target=read)
    reader.start()
    together([lambda number=number: write(number) for number in range(writers)])  # type: ignore[misc]  # a bound default
    last.set()
    reader.join()
    # then
    numbers = [message["seq"] for message in got]
    assert numbers == sorted(set(numbers))
    texts = [message["text"] for message in got if message["type"] == "TEXT"]
    assert sorted(texts) == sorted(written)
    for number in range(writers):
        mine = [text for text in texts if text.startswith(f"{number}.")]
        assert mine == [f"{number}.{count}" for count in range(each)]


def test_what_is_no_number_or_says_two_things_is_wrong_usage(bus: Bus, home: Home, tmp_path: Path) -> None:
    bus.ok("up")
    bus.ok("join", "ann")
    for words in (
        ["inbox", "--since", "x"], ["inbox", "--since", "-1"], ["inbox", "--since", "1", "--last", "2"],
        ["tail", "--wait", "1s"], ["tail", "-f", "--since", "1", "--wait", "1s"],
    ):  # fmt: skip
        assert bus(*words, agent="ann").code == 64, words
