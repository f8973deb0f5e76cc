"""Servers through the command: down and up, logs, restart, and a server that is dead is never said to be ready."""

import signal
from collections.abc import Callable

import psutil
import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import Bus, Follower, Repository, executions, fetch, server_config
from tests.end_to_end.terminal import at_terminal


def test_down_keeps_servers_and_stop_servers_stops_them(
    bus: Bus, home: Home, port: int, repository: Repository
) -> None:
    # given
    home.write(server_config(port))
    one = repository.worktree("one")
    bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    # when
    bus.ok("down")
    # then
    assert fetch(port) == repository.page(one)
    # when
    bus.ok("up")
    # then
    assert bus.ok("check", "server-loop", agent="A").startswith(f"GRANTED server-loop http://127.0.0.1:{port}/")
    assert executions(one) == 1
    # when
    bus.ok("down", "--stop-servers")
    # then
    assert not [each for each in bus.processes() if "server.py" in " ".join(each.cmdline())]


def test_a_server_that_died_is_down_until_it_is_restarted(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Callable[[], Follower]
) -> None:
    # given
    home.write(server_config(port))
    one = repository.worktree("one")
    log = follow()
    bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    server = next(each for each in bus.processes() if "server.py" in each.cmdline())
    # when
    server.send_signal(signal.SIGKILL)
    log.until("down")
    # then: no verb says that it is ready
    told = bus("status", agent="A")
    assert "DOWN server-loop" in told.err
    assert "bus restart server-loop" in told.err
    assert bus("check", "server-loop", agent="A").code == 77
    for words in (["wait", "server-loop"], ["request", "server-loop"]):
        done = bus(*words, agent="A", cwd=one)
        assert (done.code, "GRANTED" in done.out, "DOWN" in done.out) == (75, False, True), words
    assert "next: bus restart server-loop" in bus.ok("me", agent="A")
    # when
    said = bus.ok("restart", agent="A")
    # then
    assert said.splitlines()[-1].startswith("GRANTED server-loop")
    assert fetch(port) == repository.page(one)
    assert executions(one) == 2


def test_logs_show_what_the_server_prints_and_follow_it(
    bus: Bus, home: Home, port: int, repository: Repository
) -> None:
    # given
    home.write(server_config(port))
    one = repository.worktree("one")
    assert bus("logs", "server-loop").code == 77
    bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    # then
    assert "Step 3/3" in bus.ok("logs", agent="A")
    assert len(bus.ok("logs", "server-loop", "-n", "1").splitlines()) == 1
    assert bus("logs", "server-loop", "--json").json["path"].startswith(str(bus.home))
    # when
    following = bus.start("logs", "server-loop", "-f")
    following.out.until("Step 3/3")
    fetch(port)
    # then
    following.out.until('"GET / HTTP')
    following.kill(signal.SIGTERM)
    following.end()


def test_two_worktrees_are_told_apart_and_one_is_released_first(
    bus: Bus, home: Home, port: int, repository: Repository
) -> None:
    home.write(server_config(port))
    one, two = repository.worktrees(2)
    bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    # then
    done = bus("request", "server-loop", cwd=two, agent="A")
    assert (done.code, "RESOURCE_BUSY" in done.err, "RELEASE server-loop first" in done.err) == (75, True, True)
    for place in ("-", "/nonexistent", "relative"):
        done = bus("send", "coordinator", f"REQUEST server-loop {place} x", agent="B")
        assert (done.code, "absolute directory" in done.err) == (64, True)
    assert bus("send", "coordinator", f"REQUEST server-loop '{one}/../w2' x", agent="B").code == 75
    assert bus.status("server-loop")["queue"][0]["agent"] == "B"


@pytest.mark.slow
def test_recovering_is_for_a_person_at_a_terminal_who_has_looked(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Callable[[], Follower]
) -> None:
    # given: a keeper is killed, so that the end of what it kept cannot be proved
    home.write(server_config(port))
    one, two = repository.worktrees(2)
    log = follow()
    bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    keeper = psutil.Process(bus.status("server-loop")["reach"]["keeper_pid"])
    server = [each for each in keeper.children(recursive=True) if "server.py" in each.cmdline()]
    assert server
    keeper.kill()
    bus("request", "server-loop", cwd=two, agent="B")
    bus("release", "server-loop", agent="A")
    log.until("recovery_required")
    # when
    shown = bus("recover", "server-loop")
    code = shown.out.split("--confirm ")[1].split()[0]
    # then
    assert shown.code == 75
    refused = bus("recover", "server-loop", "--confirm", code)
    assert (refused.code, "CAPABILITY_DENIED" in refused.err, "terminal" in refused.err) == (77, True, True)
    # when
    for each in server:
        each.kill()
    psutil.wait_procs(server, 10)
    code = bus("recover", "server-loop").out.split("--confirm ")[1].split()[0]
    assert "look again" in at_terminal(bus, "recover", "server-loop", "--confirm", "00").screen
    seen = at_terminal(bus, "recover", "server-loop", "--confirm", code)
    # then
    assert (seen.code, seen.screen.strip()) == (0, "RECOVERED server-loop")
    bus.ok("wait", "server-loop", "--timeout", "20s", agent="B")
    assert fetch(port) == repository.page(two)


def test_a_followed_log_goes_on_with_the_next_server_s_over_a_new_supervisor(
    bus: Bus, home: Home, port: int, repository: Repository
) -> None:
    # given
    home.write(server_config(port))
    one, two = repository.worktrees(2)
    bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    following = bus.start("logs", "-f", "server-loop", agent="A")
    following.out.until("Step 3/3")
    # when
    bus.ok("restart", "server-loop", agent="A")
    # then
    following.err.until("server-loop was started anew, its log is ")
    following.out.until("Step 3/3")
    # when: another supervisor, and another owner
    bus.kill_supervisor()
    bus.ok("up")
    bus.ok("release", agent="A")
    bus.ok("request", "server-loop", "--wait", "20s", cwd=two, agent="B")
    # then
    following.err.until("server-loop was started anew, its log is ")
    following.out.until("Step 3/3")
    following.kill(signal.SIGINT)
    assert following.end().code == 130
