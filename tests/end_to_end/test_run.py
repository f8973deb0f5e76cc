"""`bus run`: strictly one after the other, each its own page and exit code, and nothing left held however it ends."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.end_to_end import sections
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import (
    BUS,
    WAIT_S,
    Bus,
    Follower,
    Repository,
    alive,
    executions,
    kill,
    server_config,
    together,
)
from tests.end_to_end.terminal import at_terminal

Follow = Callable[[], Follower]
LOCK = "machine/lock"
SLEEP = ("sh", "-c", "echo inside; exec sleep 600")  # no handler: one in Python may miss a signal as it falls asleep


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_runs_from_two_worktrees_go_strictly_one_after_the_other(
    bus: Bus, home: Home, port: int, repository: Repository, count: int
) -> None:
    # given
    home.write(server_config(port))
    places = repository.worktrees(2)
    bus.ok("up")
    notes = bus.folder / "notes"

    def run(number: int) -> None:
        place, code = places[number % 2], number + 1
        done = bus(
            "run", "--resource", "server-loop", "--", *sections.command(notes, code), cwd=place, agent=f"agent-{number}"
        )
        # then each has its own worktree's page and its own exit code
        assert (done.code, done.out) == (code, repository.page(place)), done

    # when all at once
    together([lambda number=number: run(number) for number in range(count)])  # type: ignore[misc]  # a bound default
    # then
    lines = sections.entered(notes)
    assert sections.faults(lines) == []
    assert len(lines) == 2 * count
    assert bus.status("server-loop")["state"] == "free"


def test_the_checker_of_sections_sees_what_is_wrong() -> None:
    good = ["enter 3 10", "leave 3 10", "enter 5 11", "leave 5 11"]
    assert sections.faults(good) == []
    assert sections.faults(["enter 3 10", "enter 5 11", "leave 3 10", "leave 5 11"])
    assert sections.faults(["enter 3 10", "clash 5 11", "enter 5 11", "leave 5 11"], killed=True)
    assert sections.faults(["enter 3 10", "leave 3 10", "enter 3 11", "leave 3 11"])
    assert sections.faults(["enter 5 10", "leave 5 10", "enter 3 11", "leave 3 11"])
    assert sections.faults(["enter 3 10", "leave 3 11"])
    assert sections.faults(["enter 3 10", "enter 5 11", "leave 5 11"])
    assert sections.faults(["enter 3 10", "enter 5 11", "leave 5 11"], killed=True) == []


def test_the_exit_code_is_the_commands_own_and_nothing_is_left_held(bus: Bus, home: Home) -> None:
    bus.ok("up")
    plain = bus.folder / "plain"
    plain.write_text("no program\n")
    cases = [
        (["true"], 0),
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "exit 75"], 75),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
        (["no-such-program"], 127),
        ([str(plain)], 126),
        ([str(bus.folder)], 126),
    ]
    for words, code in cases:
        # when
        done = bus("run", "--resource", LOCK, "--", *words, agent="A")
        # then
        assert done.code == code, (words, done)
        assert bus.status(LOCK)["state"] == "free", words
        assert not list((bus.home / "launches").iterdir()), words


def test_streams_and_environment_pass_through(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    # when
    done = bus("run", "--resource", LOCK, "--", "sh", "-c", 'cat; echo "$MINE" >&2; pwd', env={"MINE": "kept"},
               stdin="over stdin\n", agent="A", cwd=bus.home)  # fmt: skip
    # then
    assert done.out == f"over stdin\n{bus.home}\n"
    assert done.err.splitlines()[-1] == "kept"
    # and in $(…), where a stray open stream would hang it
    shell = f'test "$({BUS} run --resource {LOCK} -- echo inside)" = inside'
    assert bus.launch(["sh", "-c", shell], env=bus.environment_of("A")).end().code == 0


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 128 + signal.SIGTERM)]
)
def test_a_signal_to_bus_run_ends_its_command_and_gives_back(
    bus: Bus, home: Home, signum: signal.Signals, code: int
) -> None:
    # given
    bus.ok("up")
    run = bus.start("run", "--resource", LOCK, "--", *SLEEP, agent="A")
    run.out.until("inside")
    # when
    run.kill(signum)
    # then
    assert run.end().code == code
    assert bus.status(LOCK)["state"] == "free"


def test_ctrl_c_on_a_terminal_ends_the_command_and_gives_back(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    # when
    seen = at_terminal(bus, "run", "--resource", LOCK, "--", *SLEEP, keys=b"\x03", when="inside", agent="A")
    # then
    assert seen.code == 130, seen
    assert bus.status(LOCK)["state"] == "free"


def test_ctrl_c_in_the_queue_leaves_it(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    bus.tell("A", f"REQUEST {LOCK} - hold it")
    # when
    seen = at_terminal(bus, "run", "--resource", LOCK, "--", "true", keys=b"\x03", when="waiting: ", agent="B")
    # then
    assert seen.code == 130, seen
    assert bus.status(LOCK)["queue"] == []
    assert bus.status(LOCK)["holders"][0]["agent"] == "A"


def test_sigterm_in_the_queue_leaves_it(bus: Bus, home: Home, follow: Follow) -> None:
    # given
    bus.ok("up")
    bus.tell("A", f"REQUEST {LOCK} - hold it")
    run = bus.start("run", "--resource", LOCK, "--", "true", agent="B")
    run.err.until("waiting: ")
    # when
    run.kill(signal.SIGTERM)
    # then
    assert run.end().code == 128 + signal.SIGTERM
    assert bus.status(LOCK)["queue"] == []


def test_kill_9_of_the_command_gives_back(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    run = bus.start("run", "--resource", LOCK, "--", "python3", "-c",
                    "import os,time; print('pid', os.getpid(), flush=True); time.sleep(600)", agent="A")  # fmt: skip
    pid = int(run.out.until("pid").split()[1])
    # when
    os.kill(pid, signal.SIGKILL)
    # then
    assert run.end().code == 128 + signal.SIGKILL
    assert bus.status(LOCK)["state"] == "free"


def test_kill_9_of_bus_run_ends_the_commands_tree_and_releases(bus: Bus, home: Home, follow: Follow) -> None:
    # given a command with a child in another session, and somebody who waits
    bus.ok("up")
    log = follow()
    program = "import os,time; os.fork() or os.setsid(); print('pid', os.getpid(), flush=True); time.sleep(600)"
    run = bus.start("run", "--resource", LOCK, "--", "python3", "-c", program, agent="A")
    pids = [int(run.out.until("pid").split()[1]) for _ in range(2)]
    assert bus.tell("B", f"REQUEST {LOCK} - next")["type"] == "QUEUED"
    assert all(alive(pid) for pid in pids)
    # when
    run.kill(signal.SIGKILL)
    log.until("granted", agent="B")
    # then
    assert not any(alive(pid) for pid in pids)
    assert "its command ended" in log.until("released", agent="A")["why"]


def test_a_run_under_the_agents_own_hold_leaves_it(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    fence = bus.tell("A", f"REQUEST {LOCK} - all afternoon")["fence"]
    # when
    done = bus("run", "--resource", LOCK, "--", "sh", "-c", "echo $BUS_FENCE", agent="A")
    # then
    assert (done.code, done.out) == (0, f"{fence}\n")
    assert [(each["agent"], each["fence"]) for each in bus.status(LOCK)["holders"]] == [("A", fence)]


def test_what_a_hurried_user_types_is_taken_or_said(bus: Bus, home: Home) -> None:
    assert bus.ok("run", "-r", "machine/x,machine/y", "--", "sh", "-c", "echo $BUS_RESOURCES", agent="A") == (
        "machine/x,machine/y\n"
    )
    done = bus("run", "machine/x", "--", "true", agent="A")
    assert (done.code, "bus run --resource machine/x -- true" in done.err) == (64, True)
    done = bus("run", "-r", "machine/x", "--ticket", "nonsense", "--", "true", agent="A")
    assert (done.code, "TARGET_ENDED" in done.err) == (125, True)


def test_a_wait_that_is_over_is_124_and_the_place_is_remembered(bus: Bus, home: Home, follow: Follow) -> None:
    # given
    bus.ok("up")
    log = follow()
    bus.tell("A", f"REQUEST {LOCK} - hold it")
    # when
    done = bus("run", "--resource", LOCK, "--wait", "200ms", "--", "true", agent="B")
    # then
    assert done.code == 124
    assert "with the place that you had" in done.err
    assert bus.status(LOCK)["queue"] == []
    # when C comes, and then B again
    bus.tell("C", f"REQUEST {LOCK} - later")
    run = bus.start("run", "--resource", LOCK, "--", "true", agent="B")
    # then B stands before C
    assert "position 1" in run.err.until("waiting: ")
    bus.tell("A", f"RELEASE {LOCK}")
    assert run.end().code == 0
    assert log.until("granted", agent="B")["seq"] < log.until("granted", agent="C")["seq"]


def test_a_command_that_leaves_a_process_in_the_background_keeps_the_resource_until_that_ends(
    bus: Bus, home: Home, follow: Follow
) -> None:
    # given
    bus.ok("up")
    log = follow()
    program = "import os,time; pid = os.fork(); print('pid', pid, flush=True) if pid else time.sleep(600)"
    # when
    run = bus.start("run", "--resource", LOCK, "--", "python3", "-c", program, agent="A")
    pid = int(run.out.until("pid").split()[1])
    # then
    run.err.until(f"processes of python3 are left in the background: {LOCK} stays taken until they end")
    assert run.process.wait(WAIT_S) == 0
    assert bus.tell("B", f"REQUEST {LOCK} - next")["type"] == "QUEUED"
    assert alive(pid)
    # when
    kill(pid)
    # then
    log.until("granted", agent="B")


def test_a_run_that_waits_while_its_agent_is_granted_runs_under_that_hold(bus: Bus, follow: Follow) -> None:
    # given
    bus.ok("request", LOCK, agent="owner")
    assert bus("request", LOCK, agent="both").code == 75
    waiting = bus.start("run", "--resource", LOCK, "--", "echo", "inside", agent="both")
    follower = follow()
    follower.until("requested", agent="both", where=lambda event: bool(event["ticket"].get("run")))
    # when
    bus.ok("release", LOCK, agent="owner")
    # then
    done = waiting.end()
    assert (done.code, done.out) == (0, "inside\n"), done
    assert bus("check", LOCK, agent="both").code == 0  # and leaves it


def test_a_run_from_the_same_worktree_restarts_nothing(bus: Bus, home: Home, port: int, repository: Repository) -> None:
    # given
    home.write(server_config(port))
    (place,) = repository.worktrees(1)
    show = ("run", "--resource", "server-loop", "--", "sh", "-c", "echo $BUS_WORKTREE $BUS_AGENT $BUS_RESOURCE")
    # when
    outs = [bus.ok(*show, cwd=place, agent=agent) for agent in ("A", "B")]
    # then
    assert outs == [f"{place} {agent} machine/server-loop\n" for agent in ("A", "B")]
    assert executions(place) == 1


def test_a_closed_output_does_not_keep_the_resource(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    # when
    shell = f"{BUS} run --resource {LOCK} -- yes | head -1"
    done = subprocess.run(
        ["bash", "-c", shell + "; exit ${PIPESTATUS[0]}"], env=bus.environment_of("A"), text=True, capture_output=True,
        timeout=30, check=False, cwd=Path("/"),
    )  # fmt: skip
    # then
    assert (done.returncode, done.stdout) == (128 + signal.SIGPIPE, "y\n")
    assert bus.status(LOCK)["state"] == "free"
