"""What people found who used it for the first time: sentences that were not true, next steps that failed."""

import signal
from collections.abc import Callable

import psutil
import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import BUS, Bus, Follower, Repository, server_config

Follow = Callable[[], Follower]


def test_a_run_inside_a_run_goes_under_the_same_hold(bus: Bus) -> None:
    inner = ["run", "-r", "machine/x", "--wait", "5s", "--", "sh", "-c", "echo in; bus check machine/x"]
    bin_folder = bus.environment.get("PATH", "")
    done = bus("run", "-r", "machine/x", "--", str(BUS), *inner, agent="A", env={"PATH": f"{BUS.parent}:{bin_folder}"})
    assert (done.code, done.out.splitlines()[0]) == (0, "in"), done.err
    assert done.out.splitlines()[1].startswith("GRANTED machine/x")
    assert bus.status("machine/x")["state"] == "free"


def test_a_run_that_came_to_its_end_has_lost_nothing(bus: Bus) -> None:
    bus("run", "-r", "machine/x", "--", "true", agent="A")
    assert "was lost" not in bus.ok("me", agent="A")
    assert bus("wait", "machine/x", agent="A").code == 77
    assert "REVOKED" not in bus("wait", "machine/x", agent="A").out


def test_a_run_whose_server_does_not_start_shows_its_last_lines_and_log(
    bus: Bus, home: Home, port: int, repository: Repository
) -> None:
    home.write(server_config(port).replace("exec python3", "echo out of luck; exit 3; exec python3"))
    done = bus("run", "-r", "server-loop", "--", "true", cwd=repository.worktrees(1)[0], agent="A")
    assert done.code == 125
    assert "PREPARE_FAILED" in done.err
    assert "| out of luck" in done.err
    assert "log: " in done.err


def test_a_server_is_told_which_bus_it_belongs_to(bus: Bus, home: Home, port: int, repository: Repository) -> None:
    home.write(server_config(port).replace("exec python3", "echo home=$BUS_HOME; exec python3"))
    bus.ok("request", "server-loop", "--wait", "20s", cwd=repository.worktrees(1)[0], agent="A")
    assert f"home={bus.home}" in bus.ok("logs", "server-loop", agent="A")


def test_status_says_that_a_held_server_is_down_and_what_to_do(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    home.write(server_config(port))
    bus.ok("request", "server-loop", "--wait", "20s", cwd=repository.worktrees(1)[0], agent="A")
    log = follow()
    keeper = psutil.Process(bus.status("server-loop")["reach"]["keeper_pid"])
    for child in keeper.children(recursive=True):
        child.send_signal(signal.SIGKILL)
    log.until("down")
    shown = bus.ok("status", agent="B")
    assert "held, down" in shown
    assert "bus restart server-loop" in shown
    assert bus.status("server-loop")["down"] is True
    assert "next: bus restart server-loop" in bus.ok("me", agent="A")


def test_the_command_that_mends_a_doubt_is_the_one_that_is_printed(bus: Bus, follow: Follow) -> None:
    """Also of a resource that is not declared; and whoever ran the command is told why it is over."""
    bus.ok("up")
    log = follow()
    run = bus.start("run", "-r", "machine/q", "--", "sh", "-c", "echo in; exec sleep 600", agent="A")
    run.out.until("in")
    keeper = psutil.Process(log.until("started")["launch"]["keeper"]["pid"])
    [sleeper] = keeper.children()
    keeper.send_signal(signal.SIGKILL)
    log.until("recovery_required")
    sleeper.send_signal(signal.SIGKILL)  # it holds our pipe
    done = run.end()
    assert done.code == 125
    assert "keeper" in done.err
    [advice] = [line for line in bus.ok("status", agent="B").splitlines() if "bus recover" in line]
    words = advice.partition("bus ")[2].split()
    assert bus(*words, agent="B").code == 75


@pytest.mark.parametrize("words", [["request", ""], ["join", "x", "--pid", "1"], ["--as", "y", "join", "x"]])
def test_what_cannot_be_meant_is_refused(bus: Bus, words: list[str]) -> None:
    assert bus(*words, env={"BUS_AGENT": ""} if "--as" in words else {"BUS_AGENT": "z"}).code == 64
