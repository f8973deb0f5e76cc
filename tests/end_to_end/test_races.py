"""Many real processes at once: never two inside, never a gap. `scripts/races` does the same for minutes."""

import json
import os
import signal
import subprocess
from typing import Any, NamedTuple

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import PYTHON, ROOT, WAIT_S, Bus, alive, ends

LOCK = "machine/lock"


class Said(NamedTuple):
    """How a command ended, and its one JSON object."""

    code: int
    text: str

    @property
    def json(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.text)
        return said


def at_once(bus: Bus, lines: list[list[str]]) -> list[Said]:
    """These command lines at the very same moment, each in a process of its own."""
    done = subprocess.run(
        [str(PYTHON), "-m", "tests.races.at_once"], input=json.dumps(lines), cwd=ROOT, env=bus.environment, text=True,
        capture_output=True, timeout=2 * WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [Said(*each) for each in json.loads(done.stdout)]


def requests(count: int) -> list[list[str]]:
    return [["request", LOCK, "--json", "--as", f"agent-{n}", "--worktree", "-"] for n in range(count)]


def the_only_supervisor(bus: Bus) -> int:
    """The pid of the one that serves. Those that came too late say so and end by themselves: waits for that."""
    serving = bus.supervisor()
    others = [each for each in bus.processes() if each.pid != serving]
    assert all(ends(each.pid) for each in others)
    assert alive(serving)
    return serving


def test_of_many_that_ask_at_once_one_is_granted_and_each_other_has_its_own_place(bus: Bus, home: Home) -> None:
    """Nobody had started a supervisor: they start one between them."""
    # when
    answers = at_once(bus, requests(30))
    # then
    assert sorted(said.code for said in answers) == [0] + [75] * 29, answers
    bodies = [said.json["body"] for said in answers]
    assert sorted(body.get("position", 0) for body in bodies) == list(range(30))
    assert the_only_supervisor(bus) == bus.supervisor()


def test_fifty_starts_after_a_kill_end_in_one_supervisor_and_fifty_zeroes(bus: Bus, home: Home) -> None:
    """What is left of a dead one (its lock file, its socket) is taken over once, by one of them.

    https://github.com/tiian/flom/issues/6
    """
    # given
    bus.ok("up")
    killed = bus.kill_supervisor()
    assert (bus.home / "bus.sock").exists()
    # when
    answers = at_once(bus, [["up", "--json"]] * 50)
    # then
    assert {said.code for said in answers} == {0}, answers
    assert len({said.json["pid"] for said in answers} - {killed}) == 1
    assert [said.json["started"] for said in answers].count(True) == 1
    assert the_only_supervisor(bus) == answers[0].json["pid"]


@pytest.mark.slow
def test_no_two_are_ever_inside_whoever_is_killed_or_stopped() -> None:
    """A few seconds of `scripts/races`: every kind of client, and trouble for all of them."""
    done = subprocess.run(
        [str(PYTHON), "-m", "scripts.races", "--clients", "16", "--rounds", "70"], cwd=ROOT, text=True,
        capture_output=True, check=False, timeout=8 * WAIT_S,
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_a_stopped_supervisor_keeps_its_place_and_no_second_one_starts(bus: Bus, home: Home) -> None:
    """https://github.com/etcd-io/etcd/issues/12528: the old leader woke up, and went on beside the new one."""
    # given
    bus.ok("up")
    granted = bus.ok("request", LOCK, agent="a")
    first = bus.supervisor()
    os.kill(first, signal.SIGSTOP)
    # when
    refused = bus("up")
    os.kill(first, signal.SIGCONT)
    # then
    assert refused.code == 69
    assert f"(pid {first}) holds {bus.home}/bus.lock but does not answer" in refused.err
    assert the_only_supervisor(bus) == first
    assert bus.ok("request", LOCK, agent="a").split("(")[0] == granted.split("(")[0]
    assert bus("request", LOCK, agent="b").code == 75


def test_a_stopped_supervisor_whose_lock_was_removed_leaves_when_it_wakes_and_changes_nothing(
    bus: Bus, home: Home
) -> None:
    """Somebody takes its lock and its socket away and starts another one. The database is locked all the same."""
    # given
    bus.ok("up")
    bus.ok("request", LOCK, agent="a")
    first = bus.supervisor()
    os.kill(first, signal.SIGSTOP)
    (bus.home / "bus.lock").unlink()
    (bus.home / "bus.sock").unlink()
    # when
    second = bus("up")
    os.kill(first, signal.SIGCONT)
    # then
    assert second.code == 74
    assert "bus.db is locked by whoever has it open" in second.err
    assert ends(first)
    bus.ok("up")
    bus.ok("check", LOCK, agent="a")
    assert bus("request", LOCK, agent="b").code == 75
