"""Many real processes at once, and processes killed, stopped and gone on at random: never two inside, never a gap."""

import json
import random
import signal
import threading
import time
from collections.abc import Callable

import pytest
from tests.end_to_end import sections
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import Bus, Done, Follower, Running, alive, ends, together

LOCK = "machine/lock"


def the_only_supervisor(bus: Bus) -> int:
    """The pid of the one that serves. Those that came too late say so and end by themselves: waits for that."""
    serving = bus.supervisor()
    others = [each for each in bus.processes() if each.pid != serving]
    assert all(ends(each.pid) for each in others)
    assert alive(serving)
    return serving


def test_of_eight_that_ask_at_once_one_is_granted_and_each_other_has_its_own_place(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    # when
    answers = together([lambda n=n: bus("request", LOCK, "--json", agent=f"agent-{n}") for n in range(8)])  # type: ignore[misc]  # a bound default
    # then
    bodies = [done.json["body"] for done in answers]
    assert sorted(done.code for done in answers) == [0] + [75] * 7
    assert sorted(body.get("position", 0) for body in bodies) == list(range(8))
    assert [body["type"] for body in bodies if "position" not in body] == ["GRANTED"]


def test_twenty_starts_at_once_end_in_one_supervisor_and_twenty_zeroes(bus: Bus, home: Home) -> None:
    # when
    answers: list[Done] = together([lambda: bus("up", "--json")] * 20)
    # then
    assert {done.code for done in answers} == {0}, answers
    assert len({done.json["pid"] for done in answers}) == 1
    assert [done.json["started"] for done in answers].count(True) == 1
    assert the_only_supervisor(bus) == answers[0].json["pid"]


def test_twenty_commands_at_once_without_a_supervisor_start_one(bus: Bus, home: Home) -> None:
    # when
    answers = together([lambda n=n: bus("request", LOCK, agent=f"agent-{n}") for n in range(20)])  # type: ignore[misc]  # a bound default
    # then
    assert sorted(done.code for done in answers) == [0] + [75] * 19, answers
    assert the_only_supervisor(bus) == bus.supervisor()
    assert len(bus.status(LOCK)["queue"]) == 19


@pytest.mark.slow
@pytest.mark.parametrize(("clients", "rounds"), [(8, 100), (32, 80)])
def test_no_two_are_ever_inside_whoever_is_killed_or_stopped(
    bus: Bus, home: Home, follow: Callable[[], Follower], clients: int, rounds: int
) -> None:
    # given
    bus.ok("up")
    log, notes, seed = follow(), bus.folder / "notes", random.randrange(1 << 32)
    print(f"seed {seed}")
    chance, racing, left, gate = random.Random(seed), list[Running](), iter(range(rounds)), threading.Lock()

    def client(number: int) -> None:
        """One round after the other; a `bus run` that is killed is simply followed by the next."""
        while True:
            with gate:
                if next(left, None) is None:
                    return
            run = bus.start("run", "--resource", LOCK, "--", *sections.command(notes), agent=f"agent-{number}")
            with gate:
                racing.append(run)
            done = run.end(within_s=120)
            with gate:
                racing.remove(run)
            assert done.code in {0, -signal.SIGKILL, 137, 143}, done

    def trouble(over: threading.Event) -> int:
        """SIGKILL, SIGSTOP and SIGCONT to clients, kill -9 to the supervisor, until they are through."""
        killed = 0
        while not over.wait(chance.uniform(0.02, 0.1)):
            with gate:
                victim = chance.choice(racing) if racing else None
            what = chance.random()
            if what < 0.02:
                bus.kill_supervisor()
                killed += 1
            elif victim is not None and what < 0.1:
                victim.kill(signal.SIGKILL)
            elif victim is not None and what < 0.4:
                victim.kill(signal.SIGSTOP)
                over.wait(chance.uniform(0, 0.2))
                victim.kill(signal.SIGCONT)
        return killed

    # when
    over, killed, begun = threading.Event(), list[int](), time.monotonic()
    troubled = threading.Thread(target=lambda: killed.append(trouble(over)))
    troubled.start()
    try:
        together([lambda n=n: client(n) for n in range(clients)])  # type: ignore[misc]  # a bound default
    finally:
        over.set()
        troubled.join()
    # then
    lines = sections.entered(notes)
    assert sections.faults(lines, killed=True) == [], f"seed {seed}"
    bus.ok("up")
    last = json.loads(bus.ok("request", LOCK, "--wait", "20s", "--json", agent="last").splitlines()[-1])
    assert last["body"]["type"] == "GRANTED", "whatever happened, it is free again in the end"
    log.until("granted", agent="last")
    fences = [event["fence"] for event in log.all("granted")]
    assert fences == sorted(set(fences))
    assert log.is_whole()
    entered = sum(line.startswith("enter") for line in lines)
    print(f"{clients} clients: {entered} sections, {len(fences)} grants, supervisor killed {killed[0]} times, "
          f"{time.monotonic() - begun:.1f} s")  # fmt: skip
    assert entered > rounds / 3
