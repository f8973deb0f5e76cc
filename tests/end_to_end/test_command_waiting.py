"""Waiting: what is shown meanwhile, and that no end of a waiting command but Ctrl-C ever loses a place."""

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import BUS, Bus, Follower
from tests.end_to_end.terminal import at_terminal

NUMBERS = itertools.count(1)


class Held(NamedTuple):
    """A resource of a test's own on the bus that these tests share: it has an owner, who is quiet."""

    bus: Bus
    key: str
    owner: str
    waiter: str

    def queue(self) -> list[str]:
        return queue(self.bus, self.key)


def queue(bus: Bus, key: str = "machine/x") -> list[str]:
    return [each["agent"] for each in bus.status(key)["queue"]]


@pytest.fixture(scope="module")
def shared() -> Iterator[Bus]:
    with shared_bus() as bus:
        yield bus


@pytest.fixture
def held(shared: Bus) -> Held:
    number = next(NUMBERS)
    held = Held(shared, f"machine/x{number}", f"A{number}", f"B{number}")
    shared.ok("request", held.key, "--for", "try the login page", "--time", "20m", agent=held.owner)
    return held


def test_wait_shows_what_it_waits_for_and_keeps_the_place_when_time_is_up(held: Held) -> None:
    # when
    done = held.bus("request", held.key, "--wait", "300ms", agent=held.waiter)
    # then
    assert done.code == 75
    assert done.out.splitlines()[-1].startswith(f"QUEUED {held.key} position 1")
    waiting = next(line for line in done.err.splitlines() if line.startswith("waiting: "))
    for part in ("position 1", f"held by {held.owner}", "since", '"try the login page"'):
        assert part in waiting
    assert held.queue() == [held.waiter]


def test_bus_wait_resumes_from_another_shell_and_never_makes_a_ticket(held: Held) -> None:
    # given
    assert held.bus("wait", held.key, "--timeout", "0", agent=held.waiter).code == 77
    assert held.queue() == []
    assert held.bus("request", held.key, agent=held.waiter).code == 75
    waiting = held.bus.start("wait", "--timeout", "20s", agent=held.waiter)
    waiting.err.until("waiting: ")
    # when
    held.bus.ok("release", agent=held.owner)
    # then
    done = waiting.end()
    assert (done.code, done.out.splitlines()[-1].split("(")[0]) == (0, f"GRANTED {held.key} ")
    assert held.bus("wait", agent=held.waiter).code == 0


@pytest.mark.parametrize("verb", ["request", "send", "wait"])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_signal_to_the_waiting_command_loses_the_place(held: Held, verb: str, signum: signal.Signals) -> None:
    # given
    held.bus("request", held.key, agent=held.waiter)
    words = {
        "request": ["request", held.key, "--wait", "1m"],
        "send": ["send", "coordinator", f"REQUEST {held.key} -", "--wait", "1m"],
        "wait": ["wait", "--timeout", "1m"],
    }[verb]
    waiting = held.bus.start(*words, agent=held.waiter)
    waiting.err.until("waiting: ")
    # when
    waiting.kill(signum)
    # then
    assert waiting.end().code in {-signum, 128 + signum}
    assert held.queue() == [held.waiter]


def test_a_closed_pipe_does_not_lose_the_place(held: Held) -> None:
    # given
    read, write = os.pipe()
    process = subprocess.Popen(
        [str(BUS), "request", held.key, "--wait", "20s"], stdout=write, stderr=subprocess.PIPE, text=True,
        stdin=subprocess.DEVNULL, env=held.bus.environment_of(held.waiter), cwd=held.bus.folder, start_new_session=True,
    )  # fmt: skip
    os.close(write)
    assert process.stderr is not None
    while "waiting: " not in process.stderr.readline():
        pass
    os.close(read)
    # when
    held.bus.ok("release", agent=held.owner)
    # then
    assert process.wait(20) == 141
    process.stderr.close()
    assert held.bus("check", held.key, agent=held.waiter).code == 0


@pytest.mark.parametrize("verb", ["request", "send", "wait"])
def test_ctrl_c_on_a_terminal_cancels(held: Held, verb: str) -> None:
    held.bus("request", held.key, agent=held.waiter)
    words = {
        "request": ["request", held.key, "--wait", "1m"],
        "send": ["send", "coordinator", f"REQUEST {held.key} -", "--wait", "1m"],
        "wait": ["wait"],
    }[verb]
    # when
    seen = at_terminal(held.bus, *words, agent=held.waiter, keys=b"\x03", when="waiting: ")
    # then
    assert seen.code == 130
    assert f"CANCELLED {held.key}" in seen.screen
    assert held.queue() == []


def test_no_wait_does_not_queue(held: Held) -> None:
    done = held.bus("request", held.key, "--no-wait", agent=held.waiter)
    assert (done.code, "RESOURCE_BUSY" in done.err, f"held by {held.owner}" in done.err) == (75, True, True)
    assert held.queue() == []
    assert held.bus("request", held.key, "--wait", "1s", "--no-wait", agent=held.waiter).code == 64


def test_a_wait_goes_on_over_a_killed_supervisor(held: Held) -> None:
    # given
    held.bus("request", held.key, agent=held.waiter)
    waiting = held.bus.start("wait", "--timeout", "1m", agent=held.waiter)
    waiting.err.until("waiting: ")
    # when
    held.bus.kill_supervisor()
    held.bus.ok("release", held.key, agent=held.owner)
    # then
    assert waiting.end().code == 0


def test_json_while_waiting_is_one_object_at_the_end(held: Held) -> None:
    for words in (["request", held.key, "--wait", "50ms"], ["wait", "--timeout", "50ms"]):
        done = held.bus("--json", *words, agent=held.waiter)
        assert (done.code, done.json["body"]["type"]) == (75, "QUEUED")


def test_where_several_match_a_bare_verb_lists_them(bus: Bus, home: Home) -> None:
    home.write("")
    for name in ("one", "two"):
        bus.ok("request", f"machine/{name}", agent="A")
    for verb in ("wait", "release", "extend", "restart"):
        done = bus(verb, agent="A")
        assert (done.code, "AMBIGUOUS_TARGET" in done.err) == (64, True), verb
        assert "machine/one, machine/two" in done.err


def test_an_agent_with_only_a_shell_no_memory_and_two_minutes_a_call(bus: Bus, home: Home) -> None:
    """A whole day: it never says its name, forgets its place, and every call that waits is cut off."""
    # given
    home.write('[bus]\npoll_every = "30s"\n[resources.flat]\n')
    mine, theirs = bus.folder / "mine", bus.folder / "theirs"
    for place in (mine, theirs):
        (place / ".git").mkdir(parents=True)
        bus.ok("join", cwd=place)
    bus.ok("request", "flat", "--for", "a long test", cwd=theirs)
    # when: it asks, and its call is cut off
    assert bus("request", "flat", "--for", "fix the header, 5m", cwd=mine).code == 75
    cut = bus.start("wait", cwd=mine)
    cut.err.until("waiting: ")
    cut.kill()
    cut.end()
    # then: it has forgotten everything but how to ask
    me = bus.ok("me", cwd=mine)
    assert me.startswith("mine (joined in ")
    assert "flat queued position 1" in me
    assert '"fix the header"' in me
    assert "next: bus wait flat" in me
    assert bus("check", "flat", cwd=mine).code == 77
    # when: again and again
    for _ in range(2):
        assert bus("wait", "--timeout", "50ms", cwd=mine).code == 75
    bus.ok("release", cwd=theirs)
    # then: another command, at last, tells it
    told = bus("status", cwd=mine)
    assert "GRANTED flat" in told.err
    assert "GRANTED flat" not in bus("status", cwd=mine).err
    assert bus.ok("wait", cwd=mine).startswith("GRANTED flat")
    assert bus.ok("check", "flat", cwd=mine).startswith("GRANTED flat")
    # when: it works, forgets, and looks
    me = bus.ok("me", cwd=mine)
    assert "flat held" in me
    assert "next: bus release flat" in me
    bus.ok("release", cwd=mine)
    # then
    gone = bus("check", "flat", cwd=mine)
    assert (gone.code, "released" in gone.err, "bus request flat" in gone.err) == (77, True, True)
    assert "you hold nothing and wait for nothing - next: bus request RESOURCE" in bus.ok("me", cwd=mine)


def test_nobody_is_asked_while_nobody_waits(bus: Bus, home: Home, follow: Callable[[], Follower]) -> None:
    # given
    home.write('[bus]\npoll_every = "300ms"\n')
    log = follow()
    bus.ok("request", "machine/x", agent="A")
    # when: as long as it takes to lose another one, whose owner is silent and waited for
    bus.ok("request", "machine/y", agent="silent")
    bus("request", "machine/y", agent="B")
    log.until("revoked", actor="machine/y")
    # then
    assert not [each for each in log.all("polled") if each["actor"] == "machine/x"]
    assert bus("check", "machine/x", agent="A").code == 0


def test_a_silent_owner_loses_it_after_two_polls_and_is_told_why(
    bus: Bus, home: Home, follow: Callable[[], Follower]
) -> None:
    # given
    home.write('[bus]\npoll_every = "300ms"\n')
    log = follow()
    bus.ok("request", "machine/x", agent="A")
    # when
    assert bus("request", "machine/x", agent="B").code == 75
    log.until("granted", agent="B")
    # then
    assert [each["polls"] for each in log.all("polled")] == [1, 2]
    assert "previous owner silent, not proved gone" in bus.ok("wait", "machine/x", agent="B")
    lost = bus("extend", "machine/x", agent="A")
    assert lost.code == 77
    assert "REVOKED machine/x" in lost.err
    assert "no answer to 2 polls" in lost.err


@pytest.mark.parametrize("words", [["extend"], ["status"]], ids=str)
def test_any_command_of_the_owner_answers_a_poll(
    bus: Bus, home: Home, follow: Callable[[], Follower], words: list[str]
) -> None:
    # given
    home.write('[bus]\npoll_every = "2s"\n')
    log = follow()
    bus.ok("request", "machine/x", agent="A")
    bus("request", "machine/x", agent="B")
    first = log.until("polled", polls=1)
    # when
    bus(*words, agent="A")
    # then
    log.until("heard" if words[0] != "extend" else "extended", after=first["seq"], agent="A")
    assert not log.all("revoked")


@pytest.mark.slow
def test_a_declared_time_is_respected(bus: Bus, home: Home, follow: Callable[[], Follower]) -> None:
    # given
    home.write('[bus]\npoll_every = "200ms"\n')
    log = follow()
    began = time.monotonic()
    bus.ok("request", "machine/x", "--time", "3s", agent="A")
    # when
    bus("request", "machine/x", agent="B")
    log.until("granted", agent="B")
    # then
    assert time.monotonic() - began >= 3
    assert len(log.all("polled")) >= 2


def test_a_waiter_that_never_comes_back_is_passed_over_and_keeps_its_arrival(
    bus: Bus, home: Home, follow: Callable[[], Follower]
) -> None:
    # given
    home.write('[bus]\nclaim = "2s"\n')
    log = follow()
    bus.ok("request", "machine/x", agent="A")
    for agent in ("away", "here"):
        assert bus("request", "machine/x", agent=agent).code == 75
    waiting = bus.start("wait", "machine/x", "--timeout", "20s", agent="here")
    waiting.err.until("waiting: ")
    # when
    bus.ok("release", "machine/x", agent="A")
    # then
    assert waiting.end().code == 0
    log.until("expired", agent="away")
    assert queue(bus) == ["away"]
    # when: it comes back, before one who came later
    bus("request", "machine/x", agent="later")
    assert bus("wait", "machine/x", "--timeout", "0", agent="away").code == 75
    assert queue(bus) == ["away", "later"]
    bus.ok("release", "machine/x", agent="here")
    # then
    assert bus.ok("wait", "machine/x", agent="away").startswith("GRANTED")
