"""Waiting: what is shown meanwhile, and that no end of a waiting command but Ctrl-C ever loses a place."""

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import BUS, Bus, Follower
from tests.end_to_end.terminal import at_terminal


def queue(bus: Bus, resource: str = "machine/x") -> list[str]:
    return [each["agent"] for each in bus.status(resource)["queue"]]


def arrivals(bus: Bus) -> list[int]:
    return [each["position"] for each in bus.status("machine/x")["queue"]]


@pytest.fixture
def held(bus: Bus, home: Home) -> Bus:
    """A holds machine/x, quietly."""
    home.write("")
    bus.ok("request", "machine/x", "--for", "try the login page", "--time", "20m", agent="A")
    return bus


def test_wait_shows_what_it_waits_for_and_keeps_the_place_when_time_is_up(held: Bus) -> None:
    # when
    done = held("request", "machine/x", "--wait", "300ms", agent="B")
    # then
    assert done.code == 75
    assert done.out.splitlines()[-1].startswith("QUEUED machine/x position 1")
    waiting = next(line for line in done.err.splitlines() if line.startswith("waiting: "))
    for part in ("position 1", "held by A", "since", '"try the login page"'):
        assert part in waiting
    assert queue(held) == ["B"]


def test_bus_wait_resumes_from_another_shell_and_never_makes_a_ticket(held: Bus) -> None:
    # given
    assert held("wait", "machine/x", "--timeout", "0", agent="B").code == 77
    assert queue(held) == []
    assert held("request", "machine/x", agent="B").code == 75
    waiting = held.start("wait", "--timeout", "20s", agent="B")
    waiting.err.until("waiting: ")
    # when
    held.ok("release", agent="A")
    # then
    done = waiting.end()
    assert (done.code, done.out.splitlines()[-1].split("(")[0]) == (0, "GRANTED machine/x ")
    assert held("wait", agent="B").code == 0


@pytest.mark.parametrize("verb", ["request", "send", "wait"])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT])
def test_no_signal_to_the_waiting_command_loses_the_place(held: Bus, verb: str, signum: signal.Signals) -> None:
    # given
    held("request", "machine/x", agent="B")
    words = {
        "request": ["request", "machine/x", "--wait", "1m"],
        "send": ["send", "coordinator", "REQUEST machine/x -", "--wait", "1m"],
        "wait": ["wait", "--timeout", "1m"],
    }[verb]
    waiting = held.start(*words, agent="B")
    waiting.err.until("waiting: ")
    # when
    waiting.kill(signum)
    # then
    assert waiting.end().code in {-signum, 128 + signum}
    assert queue(held) == ["B"]


def test_a_closed_pipe_does_not_lose_the_place(held: Bus) -> None:
    # given
    read, write = os.pipe()
    process = subprocess.Popen(
        [str(BUS), "request", "machine/x", "--wait", "20s"], stdout=write, stderr=subprocess.PIPE, text=True,
        stdin=subprocess.DEVNULL, env=held.environment_of("B"), cwd=held.folder, start_new_session=True,
    )  # fmt: skip
    os.close(write)
    assert process.stderr is not None
    while "waiting: " not in process.stderr.readline():
        pass
    os.close(read)
    # when
    held.ok("release", agent="A")
    # then
    assert process.wait(20) == 141
    process.stderr.close()
    assert held("check", "machine/x", agent="B").code == 0


@pytest.mark.parametrize("verb", ["request", "send", "wait"])
def test_ctrl_c_on_a_terminal_cancels(held: Bus, verb: str) -> None:
    held("request", "machine/x", agent="B")
    words = {
        "request": ["request", "machine/x", "--wait", "1m"],
        "send": ["send", "coordinator", "REQUEST machine/x -", "--wait", "1m"],
        "wait": ["wait"],
    }[verb]
    # when
    seen = at_terminal(held, *words, agent="B", keys=b"\x03", when="waiting: ")
    # then
    assert seen.code == 130
    assert "CANCELLED machine/x" in seen.screen
    assert queue(held) == []


def test_no_wait_does_not_queue(held: Bus) -> None:
    done = held("request", "machine/x", "--no-wait", agent="B")
    assert (done.code, "RESOURCE_BUSY" in done.err, "held by A" in done.err) == (75, True, True)
    assert queue(held) == []
    assert held("request", "machine/x", "--wait", "1s", "--no-wait", agent="B").code == 64


def test_a_wait_goes_on_over_a_killed_supervisor(held: Bus) -> None:
    # given
    held("request", "machine/x", agent="B")
    waiting = held.start("wait", "--timeout", "1m", agent="B")
    waiting.err.until("waiting: ")
    # when
    held.kill_supervisor()
    held.ok("release", "machine/x", agent="A")
    # then
    assert waiting.end().code == 0


def test_json_while_waiting_is_one_object_at_the_end(held: Bus) -> None:
    for words in (["request", "machine/x", "--wait", "50ms"], ["wait", "--timeout", "50ms"]):
        done = held("--json", *words, agent="B")
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


@pytest.mark.parametrize("words", [["extend"], ["status"], ["me"], ["send", "B", "a moment"], ["inbox"]], ids=str)
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
    home.write('[bus]\nclaim = "300ms"\n')
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
    log.until("passed_over", agent="away")
    assert queue(bus) == ["away"]
    # when: it comes back, before one who came later
    bus("request", "machine/x", agent="later")
    assert bus("wait", "machine/x", "--timeout", "0", agent="away").code == 75
    assert queue(bus) == ["away", "later"]
    bus.ok("release", "machine/x", agent="here")
    # then
    assert bus.ok("wait", "machine/x", agent="away").startswith("GRANTED")
