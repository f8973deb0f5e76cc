"""The hand-over of a real server between real worktrees, and all that can be in its way."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import (
    Bus,
    Client,
    Follower,
    Repository,
    alive,
    executions,
    fetch,
    kill,
    server_config,
    stranger,
)

Follow = Callable[[], Follower]


def ask(bus: Bus, agent: str, worktree: Path) -> str:
    return str(bus.tell(agent, f"REQUEST server-loop {worktree} the tests")["type"])


def servers(bus: Bus, port: int) -> list[psutil.Process]:
    """Processes of the little web server on that port, wherever they have got to."""
    return [each for each in bus.processes() if {"server.py", str(port)} <= set(each.cmdline())]


def test_a_server_goes_from_one_worktree_to_the_next(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given
    home.write(server_config(port))
    one, two = repository.worktrees(2)
    bus.ok("up")
    log = follow()
    # when
    first = bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    # then
    assert first.splitlines()[-1].startswith(f"GRANTED server-loop http://127.0.0.1:{port}/ from {one}")
    assert fetch(port) == repository.page(one)
    # when
    queued = bus("request", "server-loop", cwd=two, agent="B")
    # then
    assert (queued.code, queued.out.partition(" - ")[0]) == (75, "QUEUED server-loop position 1")
    # when
    bus.ok("release", agent="A")
    log.until("granted", agent="B")
    # then
    assert fetch(port) == repository.page(two)
    assert (executions(one), executions(two)) == (1, 1)
    assert log.is_whole()


def test_a_tree_that_ignores_sigterm_forks_and_leaves_its_session_is_stopped_and_nobody_else(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given a badly behaved server, and a bystander that looks just like it
    home.write(server_config(port, options="--deaf --escape", more='stop_timeout = "300ms"'))
    one, two = repository.worktrees(2)
    bus.ok("up")
    log = follow()
    ask(bus, "A", one)
    log.until("granted", agent="A")
    mine = servers(bus, port)
    bystander = subprocess.Popen(
        ["python3", "-c", "import time; print('up', flush=True); time.sleep(600)", "server.py", str(port), "--deaf"],
        cwd="/", stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert bystander.stdout is not None
        bystander.stdout.readline()
        assert mine
        ask(bus, "B", two)
        # when
        bus.tell("A", "RELEASE server-loop")
        granted = log.until("granted", agent="B")
        # then the old tree was proved gone before
        assert not any(alive(each.pid) for each in mine)
        stopped = log.until("step_done", kind="stop")
        assert stopped["seq"] < granted["seq"]
        assert "reaped its whole tree" in stopped["evidence"]
        assert fetch(port) == repository.page(two)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.communicate()


def test_a_stranger_on_the_port_is_waited_for_named_and_left_alone(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given
    home.write(server_config(port))
    (one,) = repository.worktrees(1)
    bus.ok("up")
    log = follow()
    with stranger(port) as pid:
        # when
        ask(bus, "A", one)
        log.until("blocked", where=lambda event: event["who"] != "")
        waiter = bus.start("wait", "server-loop", "--timeout", "60s", agent="A")
        # then the waiter and the status say who it is, since when, and what to do
        line = waiter.err.until(f"(pid {pid}, since 20")
        assert f"port {port} is held by " in line
        assert "end that process yourself, the hand-over then goes on by itself" in line
        shown = bus.ok("status", "server-loop")
        assert f"pid {pid}" in shown
        assert "end that process" in shown
        assert f"(pid {pid}, since 20" in bus.status("server-loop")["why"]
        assert alive(pid)
        assert not log.all("granted")
    # when it has left, then the hand-over goes on by itself
    assert waiter.end().code == 0
    assert fetch(port) == repository.page(one)


def test_a_start_that_fails_is_revoked_with_the_last_lines_and_the_next_is_served(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given a worktree whose server cannot start, and one behind it whose can
    home.write(server_config(port))
    broken, good = repository.worktrees(2)
    os.mkfifo(broken / "gate")
    (broken / "server.py").write_text("print('building')\nopen('gate').read()\nexit('no such module: left-pad')\n")
    bus.ok("up")
    log = follow()
    ask(bus, "A", broken)
    ask(bus, "B", good)
    waiter = bus.start("wait", "server-loop", "--timeout", "30s", agent="A")
    waiter.err.until("waiting: ")
    # when
    (broken / "gate").write_text("on")
    done = waiter.end()
    # then
    failed = log.until("prepare_failed", agent="A")
    assert done.code == 77
    assert done.out.startswith("REVOKED server-loop PREPARE_FAILED")
    assert "ended with code 1 before the server was ready" in done.out
    assert "no such module: left-pad" in done.out
    assert failed["log"] in done.out
    assert "no such module: left-pad" in Path(failed["log"]).read_text()
    # and whoever asks later hears the same
    later = bus("wait", "server-loop", agent="A")
    assert (later.code, later.out.partition(":")[0].startswith("REVOKED server-loop")) == (77, True), later
    # and the next is served
    log.until("granted", agent="B")
    assert fetch(port) == repository.page(good)


def test_a_start_that_is_never_ready_is_given_up_and_its_tree_is_gone(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given
    home.write(server_config(port, options="--build-s 600", more='start_timeout = "500ms"\nstop_timeout = "2s"'))
    (one,) = repository.worktrees(1)
    bus.ok("up")
    log = follow()
    # when
    ask(bus, "A", one)
    failed = log.until("prepare_failed", agent="A")
    # then
    assert "not ready within" in failed["why"]
    assert "'Step 3/3' has not been printed" in failed["why"]
    assert servers(bus, port) == []
    assert bus.status("server-loop")["state"] == "free"


def test_the_same_worktree_again_restarts_nothing_and_says_since_when_it_runs(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given
    home.write(server_config(port))
    (one,) = repository.worktrees(1)
    bus.ok("up")
    log = follow()
    ask(bus, "A", one)
    log.until("granted", agent="A")
    before = bus.status("server-loop")["reach"]
    bus.tell("A", "RELEASE server-loop")
    # when
    out = bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="B")
    # then
    after = bus.status("server-loop")["reach"]
    assert (after["keeper_pid"], after["running_since"]) == (before["keeper_pid"], before["running_since"])
    assert executions(one) == 1
    assert ", running since " in out
    assert before["commit"] in out
    assert repository.page(one).split()[-1].startswith(before["commit"])


def test_a_server_that_dies_while_held_is_down_and_restart_brings_it_back_under_the_same_fence(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given
    home.write(server_config(port))
    (one,) = repository.worktrees(1)
    bus.ok("up")
    log = follow()
    ask(bus, "A", one)
    fence = log.until("granted", agent="A")["fence"]
    [server] = [each for each in servers(bus, port) if each.name().startswith("python")]
    # when
    kill(server.pid)
    down = log.until("down", agent="A")
    # then it is still A's, and A is told
    assert "ended by signal 9" in down["why"]
    checked = bus("check", "server-loop", agent="A")
    assert checked.code == 77
    assert "DOWN server-loop" in checked.err
    assert "bus restart server-loop" in checked.err
    assert [(each["agent"], each["fence"]) for each in bus.status("server-loop")["holders"]] == [("A", fence)]
    # when
    bus.ok("restart", agent="A")
    log.until("step_done", after=down["seq"], kind="start")
    # then
    assert bus("check", "server-loop", agent="A").code == 0
    assert [each["fence"] for each in bus.status("server-loop")["holders"]] == [fence]
    assert fetch(port) == repository.page(one)
    assert executions(one) == 2
    assert len(log.all("granted")) == 1


def test_a_worktree_that_has_vanished_when_its_turn_comes_costs_its_owner_the_turn_and_nobody_else(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given
    home.write(server_config(port))
    one, gone, three = repository.worktrees(3)
    bus.ok("up")
    log = follow()
    ask(bus, "A", one)
    log.until("granted", agent="A")
    ask(bus, "B", gone)
    ask(bus, "C", three)
    # when
    shutil.rmtree(gone)
    bus.tell("A", "RELEASE server-loop")
    # then
    assert f"the worktree {gone} is gone" in log.until("prepare_failed", agent="B")["why"]
    log.until("granted", agent="C")
    assert fetch(port) == repository.page(three)


def test_a_request_withdrawn_while_its_server_builds_leaves_nothing_of_it(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given a server that builds for long
    home.write(server_config(port, options="--build-s 600"))
    one, two = repository.worktrees(2)
    bus.ok("up")
    log = follow()
    ask(bus, "A", one)
    log.until("launch_started")
    # when
    assert bus.tell("A", "CANCEL server-loop")["type"] == "CANCELLED"
    log.until("step_undone")
    # then
    assert servers(bus, port) == []
    assert bus.status("server-loop")["state"] == "free"
    assert log.all("granted") == []
    # and the next is prepared at once
    ask(bus, "B", two)
    assert log.until("launch_started", after=log.until("step_undone")["seq"])
    # when the bus is taken down with its servers, while that one still builds
    bus.ok("down", "--stop-servers")
    # then nothing of it is left, and B has kept its place
    assert servers(bus, port) == []
    home.write(server_config(port))
    bus.ok("up")
    assert bus.status("server-loop")["holders"][0]["agent"] == "B"


def test_servers_go_on_over_bus_down_and_are_taken_along_when_told(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given
    home.write(server_config(port))
    (one,) = repository.worktrees(1)
    bus.ok("up")
    ask(bus, "A", one)
    follow().until("granted", agent="A")
    server = bus.status("server-loop")["reach"]["keeper_pid"]
    # when
    bus.ok("down")
    # then
    assert fetch(port) == repository.page(one)
    # when
    bus.ok("up")
    assert bus.status("server-loop")["reach"]["keeper_pid"] == server
    bus.ok("down", "--stop-servers")
    # then
    assert not alive(server)
    assert servers(bus, port) == []
    # and the owner still has it, and hears that it is down
    bus.ok("up")
    with Client(bus, "A") as client:
        assert [each["type"] for each in client.ask("supervisor", body={"type": "INBOX"})["messages"]][-1] == "DOWN"
    os.kill(bus.supervisor(), signal.SIGTERM)
