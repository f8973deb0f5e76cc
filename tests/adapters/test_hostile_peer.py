"""What one agent's connection can do to others: nothing. Each test is a hole that was there once."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.adapters.peer import Peer, body
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import BUS, Bus
from tests.polling import WAIT_S

from interlock.adapters.process import identify


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        yield bus


Join = Callable[[str], Peer]


@pytest.fixture
def join(bus: Bus) -> Iterator[Join]:
    """Opens sessions, and closes them at the end."""
    with contextlib.ExitStack() as stack:

        def opened(agent: str) -> Peer:
            made = stack.enter_context(Peer(str(bus.home / "bus.sock")))
            made.hello(agent)
            return made

        yield opened


def holding(join: Join, agent: str, lock: str) -> tuple[Peer, int]:
    mine = join(agent)
    granted = body(mine.ask(to="coordinator", text=f"REQUEST {lock} - x"))
    assert granted["type"] == "GRANTED"
    return mine, int(granted["fence"])


@pytest.mark.parametrize("launch", ["../../precious", "a\0b", "", ".hidden", "a/b", "x" * 129])
def test_a_launch_id_leads_nowhere(join: Join, launch: str) -> None:
    number = abs(hash(launch)) % 10**6
    mine, fence = holding(join, f"lea{number}", f"machine/lead{number}")
    keeper = subprocess.Popen(["sleep", "600"])
    try:
        admit = {"type": "ADMIT", "holds": {f"machine/lead{number}": fence}, "launch": launch,
                 "keeper": msgspec.to_builtins(identify(keeper.pid)), "command": "x"}  # fmt: skip
        assert body(mine.ask(to="supervisor", body=admit))["code"] == "BAD_MESSAGE"
    finally:
        keeper.kill()
        keeper.wait()
    assert body(mine.ask(to="supervisor", body={"type": "PING"}))["type"] == "PONG"


def test_a_keeper_that_cannot_be_seen_is_not_admitted(join: Join) -> None:
    mine, fence = holding(join, "kim", "machine/unseen")
    elsewhere = {"machine": "another", "boot": "b", "pid_namespace": 1, "pid": 4, "start_ticks": 5}
    admit = {"type": "ADMIT", "holds": {"machine/unseen": fence}, "launch": "l1", "keeper": elsewhere}
    assert body(mine.ask(to="supervisor", body={**admit, "command": "x"}))["code"] == "CAPABILITY_DENIED"


def test_anothers_command_is_not_ended_by_saying_so(bus: Bus, join: Join) -> None:
    """The command lives on, and so does the hold under it."""
    running = subprocess.Popen(
        [str(BUS), "--as", "owner", "run", "-r", "machine/own", "--", sys.executable, "-c",
         "print('in', flush=True); import time; time.sleep(600)"],
        env=bus.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "in\n"
        events = [json.loads(line) for line in bus("tail", "--json", "--type", "started").out.splitlines()]
        launch = events[-1]["launch"]["launch"]
        mallory = join("mallory")
        mallory.ask(to="coordinator", text="REQUEST machine/own - steal")
        mallory.ask(to="supervisor", body={"type": "ENDED", "launch": launch})
        assert (
            body(mallory.ask(to="supervisor", body={"type": "CHECK", "resource": "machine/own"}))["type"] == "REFUSED"
        )
        assert running.poll() is None
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(timeout=WAIT_S)
        assert running.stdout is not None
        running.stdout.close()


def test_a_session_that_was_taken_over_ends_nobody(bus: Bus, join: Join) -> None:
    old = join("sam")
    assert body(old.ask(to="coordinator", text="REQUEST machine/taken - x"))["type"] == "GRANTED"
    first, second = subprocess.Popen(["sleep", "600"]), subprocess.Popen(["sleep", "600"])
    try:
        bus.ok("join", "sam", "--pid", str(first.pid))
        old.hello("sam")
        bus.ok("join", "sam", "--pid", str(second.pid), "--takeover")
        assert body(old.ask(to="supervisor", body={"type": "LEAVE"}))["code"] == "TARGET_ENDED"
        agents = {each["agent"]: each for each in json.loads(bus("agents", "--json").out)["agents"]}
        assert (agents["sam"]["presence"], agents["sam"]["incarnation"]) == ("alive", 2)
    finally:
        for process in (first, second):
            process.kill()
            process.wait()


def test_a_nul_in_a_typed_message_is_refused(join: Join) -> None:
    mine = join("nell")
    request = {"type": "REQUEST", "resource": "machine/nul", "worktree": "/tmp/\0x"}
    assert body(mine.ask(to="coordinator", body=request))["code"] == "BAD_MESSAGE"


def test_a_socket_directory_that_others_own_is_not_trusted(tmp_path: Path) -> None:
    """Where the home's path is too long for a socket, the short directory in its place is looked at first."""
    from interlock.adapters.cli.connection import connect
    from interlock.adapters.cli.options import Failure

    short = Path(f"/tmp/interlock-{os.getuid()}")
    existed = short.exists()
    short.mkdir(exist_ok=True, mode=0o700)
    mode = short.stat().st_mode & 0o777
    try:
        short.chmod(0o777)
        with pytest.raises(Failure, match="not a directory of yours alone"):
            connect(str(tmp_path / ("long" * 40)))
    finally:
        short.chmod(mode if existed else 0o700)
