"""The gate: commands of one capacity strictly one after the other, their whole trees, and who decides who is next."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end import sections
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import BUS, WAIT_S, Bus, Follower, ends
from tests.end_to_end.terminal import at_terminal

Follow = Callable[[], Follower]
KEY = "machine/xcodebuild"
CONTROL = '[agents.boss]\nallow = ["resource.control"]\n'
SECRET = "hunter2-is-the-password"


def a_policy(bus: Bus, *participants: str, profile: str = "strict") -> int:
    """One for KEY, whose controller is here; its epoch."""
    bus.ok("join", "boss")
    for name in participants:
        bus.ok("join", name)
    asked = ("policy", "set", KEY, "--controller", "boss", "--participants", ",".join(participants))
    done = bus("--json", *asked, "--profile", profile, agent="boss")
    assert done.code == 0, done
    epoch: int = done.json["body"]["epoch"]
    return epoch


def ticket_of(bus: Bus, agent: str, follower: Follower) -> str:
    """The id of the ticket that this agent has asked for."""
    event = follower.until("requested", agent=agent)
    return str(event["ticket"]["request_id"])


def under_way(bus: Bus) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(bus.ok("--json", "ps"))["commands"]
    return found


class Held:
    """A command that lives until it is let go, by a FIFO: it opens `path` for reading, and ends with what opens it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        os.mkfifo(self.path)
        self.words = ("sh", "-c", f"echo inside {name}; read line < {self.path}; exit 7")

    def let_go(self) -> None:
        with open(self.path, "w") as fifo:
            fifo.write("go\n")


# --- one after the other ----------------------------------------------------------------------
@pytest.mark.parametrize("count", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_commands_of_two_participants_run_strictly_one_after_the_other(
    bus: Bus, home: Home, follow: Follow, count: int
) -> None:
    """In the order in which they came, each with its own exit code."""
    # given one that holds it until all others wait
    bus.ok("up")
    log, notes, first = follow(), bus.folder / "notes", Held(bus.folder, "first")
    holder = bus.start("run", "--resource", KEY, "--", *first.words, agent="worker-0")
    holder.out.until("inside first")
    # when
    runs = [
        bus.start("run", "--resource", KEY, "--", *sections.command(notes, number % 120), agent=f"worker-{number % 2}")
        for number in range(count)
    ]
    for _ in range(count + 1):
        log.until("requested")
    first.let_go()
    # then
    assert holder.end().code == 7
    assert [run.end(4 * WAIT_S).code for run in runs] == [number % 120 for number in range(count)]
    lines = sections.entered(notes)
    assert sections.faults(lines) == []
    assert len(lines) == 2 * count
    asked = [event["ticket"]["request_id"] for event in log.all("requested")]
    last = log.until("granted", request_id=asked[-1])
    log.until("released", after=last["seq"])
    assert [event["request_id"] for event in log.all("granted")] == asked


@pytest.mark.parametrize("how", ["setsid", "double fork", "nohup"])
def test_a_process_that_outlives_its_command_keeps_the_capacity(bus: Bus, home: Home, follow: Follow, how: str) -> None:
    # given
    bus.ok("up")
    log, fifo = follow(), bus.folder / "fifo"
    os.mkfifo(fifo)
    waits = f"read line < {fifo}"
    shells = {
        "setsid": f"setsid sh -c '{waits}' >/dev/null 2>&1 & exit 5",
        "double fork": f"(sh -c '{waits}' >/dev/null 2>&1 & ) ; exit 5",
        "nohup": f"nohup sh -c '{waits}' >/dev/null 2>&1 & exit 5",
    }
    # when its leader has ended
    run = bus.start("run", "--resource", KEY, "--", "sh", "-c", shells[how], agent="A")
    # then it is said, with the leader's own code
    assert run.end().code == 5
    log.until("command_draining", agent="A")
    (command,) = under_way(bus)
    assert (command["state"], list(command["holds"])) == ("draining", [KEY])
    assert [each["program"] for each in command["processes"]] == ["sh"]
    assert bus.tell("B", f"REQUEST {KEY} - next")["type"] == "QUEUED"
    assert log.all("granted")[-1]["agent"] == "A"
    # when the last process ends
    fifo.write_text("go\n")
    # then, and not before
    granted = log.until("granted", agent="B")
    assert granted["seq"] > log.until("finished", agent="A")["seq"]
    assert under_way(bus) == []


def test_several_resources_are_taken_in_key_order_all_or_none(bus: Bus, home: Home, follow: Follow) -> None:
    # given
    bus.ok("up")
    log = follow()
    bus.tell("other", "REQUEST machine/b - mine")
    show = ("sh", "-c", "echo $BUS_RESOURCE $BUS_RESOURCES $BUS_FENCE/$BUS_FENCES $BUS_AGENT ${BUS_LAUNCH%-*}")
    # when one of them is not free in time
    done = bus(
        "run", "-r", "machine/c", "-r", "machine/b", "-r", "machine/a", "--wait", "100ms", "--", *show, agent="A"
    )
    # then nothing was run, and what was taken is free again
    assert (done.code, done.out) == (124, ""), done
    assert "RESOURCE_WAIT_TIMEOUT" in done.err
    assert [bus.status(f"machine/{name}")["state"] for name in "abc"] == ["free", "held", "free"]
    # when
    bus.tell("other", "RELEASE machine/b")
    done = bus("run", "-r", "machine/c", "-r", "machine/b", "-r", "machine/a", "--", *show, agent="A")
    # then
    log.until("granted", actor="machine/c")
    fences = [str(event["fence"]) for event in log.all("granted")[-3:]]
    assert fences == sorted(fences, key=int)
    keys = "machine/a,machine/b,machine/c"
    assert done.out == f"machine/a {keys} {fences[0]}/{','.join(fences)} A run-{fences[0]}\n"
    assert [bus.status(f"machine/{name}")["state"] for name in "abc"] == ["free"] * 3


def test_a_command_that_nothing_covers_is_only_on_record(bus: Bus, home: Home, follow: Follow) -> None:
    bus.ok("up")
    log = follow()
    done = bus("run", "--", "sh", "-c", "echo $BUS_RESOURCE.$BUS_FENCE.${BUS_LAUNCH%%-*}; exit 3", agent="A")
    assert (done.code, done.out) == (3, "..run\n")
    assert log.until("command_finished", agent="A")["code"] == 3
    assert log.all("granted") == []


# --- without a bus ----------------------------------------------------------------------------
def test_one_that_runs_under_nothing_of_its_own_is_inside_what_its_caller_runs_under(bus: Bus, home: Home) -> None:
    inner = (str(BUS), "run", "--", "sh", "-c", "echo $BUS_RESOURCE $BUS_FENCE")
    outer = ("sh", "-c", 'echo $BUS_RESOURCE $BUS_FENCE; "$@"', "-")
    done = bus("run", "-r", "machine/x", "--", *outer, *inner, agent="a")
    first, second = done.out.splitlines()
    assert first == second
    assert first.startswith("machine/x ")


def test_without_a_supervisor_it_runs_only_where_that_is_said(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    bus.ok("down")
    words = ("--", "sh", "-c", "echo ran; exit 6")
    # when
    done = bus("run", *words, agent="A")
    # then
    assert (done.code, done.out) == (125, ""), done
    # when
    done = bus.start("run", "--if-unavailable", "run", *words, agent="A").end()
    # then
    assert (done.code, done.out) == (6, "ran\n"), done
    assert "sh runs all the same, and no bus knows of it" in done.err
    assert len(done.err.splitlines()) == 1


# --- what the command gets --------------------------------------------------------------------
def test_the_command_inherits_no_descriptor_but_what_its_caller_gave_it(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    reading, writing = os.pipe()
    program = (
        "import os; seen = sorted(map(int, os.listdir('/proc/self/fd')))\n"
        "print([fd for fd in seen if os.path.exists(f'/proc/self/fd/{fd}')])"  # the listing's own is closed by now
    )
    words = [str(BUS), "--as", "A", "run", "--resource", KEY, "--", "python3", "-c", program]
    # when
    for given, seen in (((), [0, 1, 2]), ((writing,), [0, 1, 2, writing])):
        done = subprocess.run(
            words, env=bus.environment, pass_fds=given, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=WAIT_S, check=True,
        )  # fmt: skip
        # then
        assert json.loads(done.stdout) == seen
    os.close(writing)
    os.close(reading)


def test_an_interactive_program_has_the_terminal_for_itself(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    program = (
        "import os, sys, termios; assert os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp(); print('name? ', end='')\n"
        "sys.stdout.flush(); print('hello', input()); print(os.get_terminal_size().columns)\n"
        "sys.stdout.flush(); input()"
    )
    # when
    seen = at_terminal(
        bus, "run", "--resource", KEY, "--", "python3", "-c", program, keys=b"ann\n", when="name? ", agent="A",
        then=[("200", b"\x04")],
    )  # fmt: skip
    # then: what was typed came, the size is the terminal's, and the end of input is its own affair
    assert "hello ann\n200\n" in seen.screen
    assert "EOFError" in seen.screen
    assert seen.code == 1
    assert bus.status(KEY)["state"] == "free"


def test_ctrl_c_is_needed_once_and_reaches_a_tree(bus: Bus, home: Home) -> None:
    bus.ok("up")
    shell = "trap 'echo told; exit 9' INT; sh -c 'echo inside; read line' ; exit 1"
    seen = at_terminal(bus, "run", "-r", KEY, "--", "sh", "-c", shell, keys=b"\x03", when="inside", agent="A")
    assert (seen.code, seen.screen.count("told")) == (9, 1), seen
    assert bus.status(KEY)["state"] == "free"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_to_bus_run_reaches_the_tree_and_its_code_is_that_of_timeout(
    bus: Bus, home: Home, signum: signal.Signals
) -> None:
    # given a shell that waits for its child, as `make` does
    bus.ok("up")
    shell = "echo pid $$; sh -c 'echo pid $$; read line < fifo; exit 1'; exit 1"
    os.mkfifo(bus.folder / "fifo")
    run = bus.start("run", "-r", KEY, "--", "sh", "-c", shell, agent="A")
    pids = [int(run.out.until("pid").split()[1]) for _ in range(2)]
    # when
    run.kill(signum)
    # then
    done = run.end()
    assert done.code == 128 + (signal.SIGTERM if signum == signal.SIGHUP else signum), done
    assert all(ends(pid) for pid in pids)
    assert bus.status(KEY)["state"] == "free"


# --- secrets ----------------------------------------------------------------------------------
def test_arguments_appear_in_no_door_and_no_file_but_the_keepers_report(bus: Bus, home: Home, follow: Follow) -> None:
    # given
    home.write(CONTROL)
    bus.ok("up")
    a_policy(bus, "A")
    log = follow()
    held = Held(bus.folder, "held")
    waiting = bus.start("run", "--", *held.words, SECRET, agent="A")
    request = ticket_of(bus, "A", log)
    # when it waits, and runs
    plain = [["tail"], ["status"], ["ps"], ["agents"], ["inbox", "--since", "0"], ["policy"]]
    doors = [*plain, *(["--json", *door] for door in plain)]
    said = [bus(*door, agent=agent) for door in doors for agent in ("A", "boss")]
    bus.ok("grant", request, agent="boss")
    waiting.out.until("inside held")
    said += [bus(*door, agent=agent) for door in doors for agent in ("A", "boss")]
    # then
    assert not [each for each in said if SECRET in each.out + each.err]
    report = [file for file in bus.home.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
    assert [file.parent.name for file in report] == ["launches"]
    assert report[0].stat().st_mode & 0o777 == 0o600
    held.let_go()
    assert waiting.end().code == 7
    # and is gone with it
    assert not [file for file in bus.home.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
