"""Servers in windows (`terminal = "tmux"`): a person attaches, looks, closes the window; names run nothing."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import WAIT_S, Bus, Follower, Repository, ends, executions, fetch, server_config
from tests.end_to_end.terminal import at_terminal

from interlock.adapters.terminals import tmux_problem

pytestmark = pytest.mark.skipif(bool(tmux_problem()), reason=tmux_problem() or "tmux is there")
RAN = f"ran-{os.getpid()}"


def in_a_window(port: int, options: str = "") -> str:
    return server_config(port, options=options, more='terminal = "tmux"')


def windows(bus: Bus) -> list[psutil.Process]:
    return [each for each in bus.processes() if each.name().startswith("tmux")]


def tmux(bus: Bus, *words: str) -> str:
    """Ask the one private tmux there is, by the command that `bus attach` names."""
    command = json.loads(bus.ok("attach", "server-loop", "--json"))["command"]
    return subprocess.run(
        [*command[:-1], *words], text=True, capture_output=True, check=True, timeout=WAIT_S, env=bus.environment
    ).stdout


def test_a_person_attaches_sees_the_server_and_closes_the_window_and_names_run_nothing(
    bus: Bus, port: int, repository: Repository, follow: Callable[[], Follower]
) -> None:
    # given: a home and a worktree whose names are programs, were anybody to execute them
    odd = f"""a 'b" #(touch {RAN}) $(touch {RAN}) `touch {RAN}` #{{q:x}} %H ;touch {RAN};"""
    bus.home = bus.folder / f"h'$(touch {RAN})#(touch {RAN})"
    bus.environment["BUS_HOME"] = str(bus.home)
    Home(bus.home).write(in_a_window(port))
    worktree = repository.worktree("odd", folder=f"{odd}\n#(touch {RAN})")
    log = follow()
    # when
    bus.ok("request", "server-loop", "--for", odd, "--wait", "20s", cwd=worktree, agent="A")
    assert executions(worktree) == 1
    # then: what it prints goes to the log as well, without the terminal's own line ends
    assert "Step 3/3: serving\n" in bus.ok("logs", "server-loop")
    # when
    tmux(bus, "set-option", "-g", "assume-paste-time", "0")  # we type faster than people do
    seen = at_terminal(bus, "attach", "server-loop", keys=b"\x02&", when="Step 3/3", then=[("(y/n)", b"y")])
    # then
    assert "closing this window ends the server" in seen.screen
    down = log.until("down")
    assert "its window was closed" in down["why"]
    assert down["gone"] is True
    assert "DOWN server-loop" in bus("status", agent="A").err
    assert not windows(bus)
    places = {worktree, bus.folder, bus.home, bus.home / "tmux", Path("/"), Path.cwd(), repository.main}
    assert not [place / RAN for place in places if (place / RAN).exists()]
    # when
    assert "GRANTED server-loop http" in bus.ok("restart", agent="A")
    # then: another window, and no trace of the first
    assert fetch(port).startswith("worktree ")
    assert len(windows(bus)) == 1
    assert Path(json.loads(bus.ok("attach", "--json", agent="A"))["command"][2]).is_socket()


def test_a_window_outlives_the_supervisor_inherits_nothing_and_is_handed_over_with_proof(
    bus: Bus, home: Home, port: int, repository: Repository
) -> None:
    # given
    home.write(in_a_window(port, "--deaf --escape").replace('"Step 3/3"\n', '"Step 3/3"\nstop_timeout = "300ms"\n'))
    one, two = repository.worktrees(2)
    bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    (window,) = windows(bus)
    keeper = bus.status("server-loop")["reach"]["keeper_pid"]
    # then
    for pid in (window.pid, keeper):
        held = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")}
        assert not [each for each in held if each.endswith(("bus.lock", "bus.db", "bus.db-wal"))], held
        names = set(psutil.Process(pid).environ())
        assert not {name for name in names if name.startswith(("BUS_", "GIT_"))}, names
    # when
    bus.kill_supervisor()
    # then
    assert fetch(port) == repository.page(one)
    bus.ok("check", "server-loop", agent="A")
    # when
    bus.ok("release", "server-loop", agent="A")
    bus.ok("request", "server-loop", "--wait", "30s", cwd=two, agent="B")
    # then
    assert fetch(port) == repository.page(two)
    assert ends(keeper)
    assert ends(window.pid)
    # when: somebody kills tmux itself
    (window,) = windows(bus)
    window.kill()
    # then
    waited = bus.start("tail", "-f", "--json", "--type", "down")
    assert "its window was closed" in json.loads(waited.out.until("down"))["why"]


def test_attach_says_what_it_needs(bus: Bus, home: Home, port: int, repository: Repository) -> None:
    # given
    home.write(in_a_window(port) + server_config(port + 1, name="plain").replace("[bus]\n", ""))
    one = repository.worktree("one")
    bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    bus.ok("request", "plain", "--wait", "20s", cwd=one, agent="A")
    # then
    done = bus("attach", "server-loop")
    assert (done.code, "tmux -S" in done.err) == (64, True)
    done = bus("attach", "plain")
    assert (done.code, 'terminal = "tmux"' in done.err) == (69, True)
    command = bus.ok("attach", "server-loop", "--print")
    assert command.startswith(f"tmux -S {bus.home}/tmux/")
    # when: what stands on the screen, by that command
    assert "Step 3/3" in tmux(bus, "capture-pane", "-p")
