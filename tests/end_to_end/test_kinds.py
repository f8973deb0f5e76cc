"""Every kind of resource on a real machine: pools of servers, preparing, commands, and what a person takes back."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import (
    WAIT_S,
    Bus,
    Follower,
    Repository,
    ends,
    executions,
    fetch,
    free_port,
    kill,
    server_config,
)
from tests.end_to_end.terminal import at_terminal
from tests.polling import until

Follow = Callable[[], Follower]


def two_ports() -> tuple[int, int]:
    first = free_port()
    second = free_port()
    while second == first:
        second = free_port()
    return first, second


def pool_config(units: tuple[int, ...]) -> str:
    names = ", ".join(f'"{unit}"' for unit in units)
    return (
        f"[resources.preview]\nunits = [{names}]\n"
        'start = "echo $$ $BUS_UNIT $LEVEL $BUS_RESOURCE_URL >> started; exec python3 server.py {unit}"\n'
        'url = "http://127.0.0.1:{unit}/"\nhealth = "http://127.0.0.1:{unit}/healthz/live"\nports = ["{unit}"]\n'
        'env = { LEVEL = "debug-{unit}" }\n'
    )


def board_config(more: str = "", step: str = "./step") -> str:
    lines = [f'{name} = "{step} {name}"' for name in ("stop", "prepare", "verify")]
    return "\n".join(["[resources.board]", 'kind = "command"', *lines, more, ""])


def step_script(worktree: Path, *, body: str = "") -> Path:
    """A step that writes down that it ran, of whom, and what it was told; `body` runs first."""
    script = worktree / "step"
    text = f'#!/bin/sh\n{body}\necho "$1 $(basename "$PWD") ${{BUS_AGENT}} ${{BUS_FENCE-none}}" >> ../steps\n'
    script.write_text(text)
    script.chmod(0o755)
    return worktree.parent / "steps"


def test_two_servers_of_a_pool_run_side_by_side_and_the_third_gets_the_first_that_is_free(
    bus: Bus, home: Home, repository: Repository, follow: Follow
) -> None:
    # given
    one, two, three = repository.worktrees(3)
    ports = two_ports()
    home.write(pool_config(ports))
    bus.ok("up")
    log = follow()
    # when
    first = bus.ok("request", "preview", "--wait", "30s", cwd=one, agent="A")
    second = bus.ok("request", "preview", "--wait", "30s", cwd=two, agent="B")
    # then each has its own unit, port, environment and page
    for out, port, worktree in ((first, ports[0], one), (second, ports[1], two)):
        words = f"GRANTED preview http://127.0.0.1:{port}/ unit {port} from {worktree}"
        assert out.splitlines()[-1].startswith(words)
        assert fetch(port) == repository.page(worktree)
        told = (worktree / "started").read_text().split()[1:]
        assert told == [str(port), f"debug-{port}", f"http://127.0.0.1:{port}/"]
    # and each is shown with its own
    shown = bus.ok("status", "preview")
    assert f"preview unit {ports[1]} runs from {two}" in shown
    assert f"A on {ports[0]} since" in shown
    assert f"unit {ports[1]} http://127.0.0.1:{ports[1]}/" in bus.ok("me", agent="B")
    assert f"http://127.0.0.1:{ports[0]}/ unit {ports[0]} from" in bus.ok("check", "preview", agent="A")
    assert "Step 3/3: serving" in bus.ok("logs", agent="B")
    ambiguous = bus("logs", "preview")
    assert (ambiguous.code, f"--unit {ports[0]} or --unit {ports[1]}" in ambiguous.err) == (64, True), ambiguous
    assert bus.ok("logs", "preview", "--unit", str(ports[0])) == bus.ok("logs", "preview", agent="A")
    ran = bus.ok("run", "-r", "preview", "--", "sh", "-c", "echo $BUS_UNIT $BUS_RESOURCE_URL", cwd=two, agent="B")
    assert ran == f"{ports[1]} http://127.0.0.1:{ports[1]}/\n"
    # when a third waits, and the second gives back
    assert bus("request", "preview", cwd=three, agent="C").code == 75
    bus.ok("restart", agent="A")
    assert fetch(ports[0]) == repository.page(one)
    bus.ok("release", agent="B")
    granted = log.until("granted", agent="C")
    # then it gets that unit, and the first is as it was
    assert granted["unit"] == str(ports[1])
    assert fetch(ports[1]) == repository.page(three)
    assert fetch(ports[0]) == repository.page(one)


def test_a_preparing_that_fails_costs_its_owner_the_turn_and_the_next_is_prepared_and_served(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given one whose preparing fails and leaves something behind, and one that is well
    bad, good = repository.worktrees(2)
    (bad / "prepare.sh").write_text("sleep 600 & echo $! > child; echo the lockfile is broken; exit 3\n")
    (good / "prepare.sh").write_text("echo prepared $BUS_AGENT $BUS_RESOURCE_URL > made\n")
    home.write(server_config(port, more='prepare = "sh prepare.sh"'))
    bus.ok("up")
    log = follow()
    # when
    bus.tell("A", f"REQUEST server-loop {bad} the tests")
    bus.tell("B", f"REQUEST server-loop {good} the tests")
    # then
    failed = log.until("prepare_failed", agent="A")
    assert failed["why"] == "prepare ended with code 3"
    assert ends(int((bad / "child").read_text()))
    revoked = bus.inbox("A")[-1]
    assert revoked["type"] == "REVOKED"
    assert revoked["text"].startswith("REVOKED server-loop PREPARE_FAILED: prepare ended with code 3")
    assert "| the lockfile is broken" in revoked["text"]
    assert f"log: {failed['log']}" in revoked["text"]
    # and the next is prepared in its own worktree, then served
    log.until("granted", agent="B")
    assert (good / "made").read_text() == f"prepared B http://127.0.0.1:{port}/\n"
    assert fetch(port) == repository.page(good)
    assert executions(bad) == 0


def test_commands_are_run_at_a_hand_over_and_only_the_look_in_the_same_worktree(
    bus: Bus, home: Home, repository: Repository, follow: Follow
) -> None:
    # given
    home.write(board_config('env = { BOARD = "tty-7" }', step="test $BOARD = tty-7 && ./step"))
    one, two = repository.worktrees(2)
    steps = step_script(one)
    step_script(two)
    bus.ok("up")
    log = follow()
    # when one has it twice, then another
    out = bus.ok("request", "board", "--wait", "20s", cwd=one, agent="A")
    assert out.splitlines()[-1].startswith(f"GRANTED board from {one} (fence ")
    bus.ok("release", agent="A")
    assert f"board is prepared from {one}" in bus.ok("status", "board")
    bus.ok("request", "board", "--wait", "20s", cwd=one, agent="A")
    bus.ok("release", agent="A")
    bus.ok("request", "board", "--wait", "20s", cwd=two, agent="B")
    # then the stop ran in the last owner's worktree, for the last owner; and no step has a fence
    told = ["prepare w1 A", "verify w1 A", "verify w1 A", "stop w1 A", "prepare w2 B", "verify w2 B"]
    assert steps.read_text().splitlines() == [f"{each} none" for each in told]
    assert log.all("step_undone") == []
    # when its look says no, after RESTART
    step_script(two, body='test "$1" != verify || { echo no answer from the board; exit 9; }')
    down = "did not come up again: verify ended with code 9"
    assert f"DOWN board {down}" in bus("restart", "board", agent="B").out
    # then it is down, still B's, and says why
    assert f"it is down: {down} - its owner says: bus restart board" in bus.ok("status", "board")
    assert "no answer from the board" in bus.ok("logs", "board", agent="B")
    assert bus("check", "board", agent="B").code == 77
    # when the bus goes down with what it has made
    step_script(two)
    bus.ok("down", "--stop-servers")
    # then what B had made is stopped too
    assert steps.read_text().splitlines()[-1] == "stop w2 B none"
    bus.ok("up")
    assert bus.status("board")["holders"][0]["agent"] == "B"


def test_a_step_outlives_the_supervisor_and_is_waited_for_read_or_left_to_a_person(
    bus: Bus, home: Home, repository: Repository, follow: Follow
) -> None:
    # given preparing that waits for a word
    home.write(board_config())
    one, two, three = repository.worktrees(3)
    for worktree in (one, two, three):
        os.mkfifo(worktree / "gate")
        os.mkfifo(worktree / "here")
        gate = 'test "$1" != prepare || { echo > here; cat gate > /dev/null; }'
        steps = step_script(worktree, body=gate)
    bus.ok("up")
    log = follow()
    bus.tell("A", f"REQUEST board {one} flash")
    waits_at_the_gate(one)
    # when the supervisor dies in it, and another takes it up, then its keeper is waited for
    bus.kill_supervisor()
    bus.ok("up")
    (one / "gate").write_text("go on")
    granted = log.until("granted", agent="A")
    assert ran(steps) == ["prepare", "verify"]
    # when it ends while there is no supervisor, then what it left is read
    bus.tell("A", "RELEASE board")
    bus.tell("B", f"REQUEST board {two} flash")
    keeper = keeper_of(log, "prepare", after=granted["seq"])
    waits_at_the_gate(two)
    bus.kill_supervisor()
    (two / "gate").write_text("go on")
    assert ends(keeper)
    bus.ok("up")
    granted = log.until("granted", agent="B")
    assert ran(steps)[2:] == ["stop", "prepare", "verify"]
    # when its keeper is killed, then nobody knows, nothing is run again, and a person looks
    bus.tell("B", "RELEASE board")
    bus.tell("C", f"REQUEST board {three} flash")
    keeper = keeper_of(log, "prepare", after=granted["seq"])
    waits_at_the_gate(three)
    kill_all_of(keeper)
    doubt = log.until("recovery_required", after=granted["seq"])
    assert "prepare was interrupted, and nobody knows how it ended" in doubt["why"]
    assert bus.status("board")["queue"][0]["agent"] == "C"
    # when it may be repeated, then it is
    home.write(board_config("repeatable = true"))
    bus.tell("C", "CANCEL board")
    code = bus("recover", "board").out.split()[-1]
    assert at_terminal(bus, "recover", "board", "--confirm", code).code == 0
    defined = log.until("defined", after=doubt["seq"])
    bus.tell("C", f"REQUEST board {three} flash")
    keeper = keeper_of(log, "prepare", after=defined["seq"])
    waits_at_the_gate(three)
    kill_all_of(keeper)
    waits_at_the_gate(three)
    (three / "gate").write_text("go on")
    log.until("granted", agent="C")
    assert ran(steps)[5:] == ["stop", "prepare", "verify"]


def test_a_person_takes_a_server_back_and_its_owner_has_a_moment_to_save_what_it_needs(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Follow
) -> None:
    # given
    home.write(server_config(port, bus='revoke_grace = "5s"'))
    one, two = repository.worktrees(2)
    bus.ok("up")
    log = follow()
    bus.tell("A", f"REQUEST server-loop {one} the tests")
    log.until("granted", agent="A")
    bus.tell("B", f"REQUEST server-loop {two} the tests")
    # when no person says so, or none says why, then nothing happens
    refused = bus("revoke", "server-loop", "--because", "mine")
    assert (refused.code, "for a person at a terminal" in refused.err) == (77, True), refused
    assert at_terminal(bus, "revoke", "server-loop", "--because", " ").code == 64
    # when a person does, and the supervisor dies in the moment of grace
    done = at_terminal(bus, "revoke", "server-loop", "--because", "the demo begins")
    # then its owner is told by whom and why, and the server lives
    assert (done.code, "REVOKED server-loop from A" in done.screen) == (0, True), done
    revoked = log.until("revoked", agent="A")
    assert "the demo begins" in revoked["why"]
    assert fetch(port) == repository.page(one)
    assert (
        "the last owner was revoked, and has a moment" in bus("wait", "server-loop", "--timeout", "0s", agent="B").out
    )
    bus.kill_supervisor()
    bus.ok("up")
    checked = bus("check", "server-loop", agent="A")
    assert (checked.code, "the demo begins" in checked.err) == (77, True), checked
    # and is stopped after it
    drained = log.until("drained", after=revoked["seq"])
    assert log.until("step_started", kind="stop")["seq"] > drained["seq"]
    log.until("granted", agent="B")
    assert fetch(port) == repository.page(two)


def waits_at_the_gate(worktree: Path) -> None:
    """Returns once a step of that worktree is under way."""
    subprocess.run(["cat", "here"], cwd=worktree, check=True, timeout=WAIT_S)


def keeper_of(log: Follower, kind: str, *, after: int) -> int:
    """The keeper of the first step of that kind after a number."""
    step = log.until("step_started", after=after, kind=kind)["step"]
    return int(log.until("launch_started", after=after, step=step)["keeper"]["pid"])


def kill_all_of(keeper: int) -> None:
    """What an impatient person does: kill -9, the keeper first. The step has come to its gate, and starts no more."""
    until(lambda: any(each.name() == "cat" for each in psutil.Process(keeper).children(recursive=True)))
    tree = [each.pid for each in psutil.Process(keeper).children(recursive=True)]
    for pid in (keeper, *tree):
        kill(pid)


def ran(steps: Path) -> list[str]:
    return [line.split()[0] for line in steps.read_text().splitlines()]
