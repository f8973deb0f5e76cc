"""The supervisor killed with -9 in the middle of whatever it does, and started again: nothing is lost or done twice."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import (
    Bus,
    Done,
    Follower,
    Repository,
    Running,
    alive,
    executions,
    fetch,
    kill,
    server_config,
    stranger,
)

LOCK = "machine/lock"
Follow = Callable[[], Follower]


class Scene(NamedTuple):
    """A holds the server from `one`; B and C wait for it, from `two` and `three`; D has an unread message."""

    bus: Bus
    log: Follower
    port: int
    repository: Repository
    one: Path
    two: Path
    three: Path
    dying: Running | None

    def standing(self) -> dict[str, Any]:
        """What must be the same before and after a kill."""
        status = self.bus.status("server-loop")
        return {
            "holders": [(each["agent"], each["request_id"], each["fence"]) for each in status["holders"]],
            "queue": [(each["agent"], each["request_id"], each["position"]) for each in status["queue"]],
            "server": (status["reach"].get("worktree"), status["reach"].get("keeper_pid")),
            "unread": [message["id"] for message in self.bus.inbox("D")],
        }

    def wait_and_fetch(self, agent: str) -> Callable[[], tuple[Done, str]]:
        """`bus wait` of an agent under way, and what it said and what was served the moment it had said so."""
        waiter = self.bus.start("wait", "server-loop", "--timeout", "60s", agent=agent)
        waiter.err.until("waiting: ")

        def end() -> tuple[Done, str]:
            done = waiter.end()
            return done, fetch(self.port)

        return end


@pytest.fixture
def make_scene(bus: Bus, home: Home, port: int, repository: Repository, follow: Follow) -> Callable[..., Scene]:
    def make(*, options: str = "", more: str = "", dying: tuple[str, int, str] | None = None) -> Scene:
        bus.environment["BUS_AUTOSTART"] = "0"  # a supervisor that is gone stays gone until the test starts one
        home.write(server_config(port, options=options, more=more))
        one, two, three = repository.worktrees(3)
        supervisor = bus.up_and_dying(*dying) if dying is not None else None
        if supervisor is None:
            bus.ok("up")
        log = follow()
        bus.ok("join", "D")
        bus.ok("send", "D", "are you there?", agent="A")
        bus.ok(
            "request", "server-loop", "--for", "the login page", "--time", "20m", "--wait", "30s", cwd=one, agent="A"
        )
        assert bus("request", "server-loop", "--for", "the header", cwd=two, agent="B").code == 75
        assert bus("request", "server-loop", "--for", "the footer", cwd=three, agent="C").code == 75
        return Scene(bus, log, port, repository, one, two, three, supervisor)

    return make


def hand_on(scene: Scene, waiter: Callable[[], tuple[Done, str]]) -> None:
    """B is told GRANTED, its page is served at that moment and was started once; then the same for C."""
    done, page = waiter()
    assert done.code == 0, done
    granted = scene.log.until("granted", agent="B")
    assert f"(fence {granted['fence']})" in done.out
    assert page == scene.repository.page(scene.two)
    assert executions(scene.two) == 1
    scene.bus.tell("B", "RELEASE server-loop")
    scene.log.until("granted", agent="C")
    assert fetch(scene.port) == scene.repository.page(scene.three)
    assert executions(scene.three) == 1
    fences = [event["fence"] for event in scene.log.all("granted")]
    assert fences == sorted(set(fences))
    assert [event["agent"] for event in scene.log.all("granted")] == ["A", "B", "C"]
    assert scene.log.is_whole(), scene.log.told()


def test_a_kill_at_rest_changes_nothing(make_scene: Callable[..., Scene]) -> None:
    # given
    scene = make_scene()
    before = scene.standing()
    # when
    scene.bus.kill_supervisor()
    scene.bus.ok("up")
    # then
    assert scene.standing() == before
    assert alive(before["server"][1])
    assert fetch(scene.port) == scene.repository.page(scene.one)
    assert executions(scene.one) == 1
    # and the owner is still the owner, for everybody
    assert scene.bus("check", "server-loop", agent="A").code == 0
    assert scene.bus("check", "server-loop", agent="B").code == 77
    assert scene.bus.tell("A", "EXTEND")["fence"] == before["holders"][0][2]


def test_a_kill_while_the_old_server_is_being_stopped(make_scene: Callable[..., Scene]) -> None:
    # given a server that ignores SIGTERM, and a stop in progress
    scene = make_scene(options="--deaf", more='stop_timeout = "1s"')
    waiter = scene.wait_and_fetch("B")
    scene.bus.tell("A", "RELEASE server-loop")
    scene.log.until("step_started", kind="stop")
    before = scene.standing()
    # when
    scene.bus.kill_supervisor()
    assert fetch(scene.port) == scene.repository.page(scene.one), "the old one still runs: nobody may have been told"
    scene.bus.ok("up")
    # then
    after = scene.standing()
    assert (after["queue"], after["unread"]) == (before["queue"], before["unread"])
    hand_on(scene, waiter)
    assert executions(scene.one) == 1


def test_a_kill_while_a_stranger_holds_the_port(make_scene: Callable[..., Scene]) -> None:
    # given A's server gone, a stranger on its port, and the start for B waiting for that
    scene = make_scene()
    waiter = scene.wait_and_fetch("B")
    server = scene.standing()["server"][1]
    kill(server, signal.SIGTERM)
    scene.log.until("down")
    with stranger(scene.port) as pid:
        scene.bus.tell("A", "RELEASE server-loop")
        blocked = scene.log.until("blocked", where=lambda event: str(pid) in event["who"])
        before = scene.standing()
        # when
        scene.bus.kill_supervisor()
        scene.bus.ok("up")
        # then it waits again, and the stranger lives
        scene.log.until("blocked", after=blocked["seq"], where=lambda event: str(pid) in event["who"])
        after = scene.standing()
        assert after == before
        assert alive(pid)
        assert not [event for event in scene.log.all("granted") if event["agent"] == "B"]
    # and goes on by itself once that has left
    hand_on(scene, waiter)


def test_a_kill_while_the_new_server_builds(make_scene: Callable[..., Scene]) -> None:
    # given a server that takes its time
    scene = make_scene(options="--build-s 0.7")
    waiter = scene.wait_and_fetch("B")
    first = scene.log.until("launch_started")
    scene.bus.tell("A", "RELEASE server-loop")
    second = scene.log.until("launch_started", after=first["seq"])
    # when
    scene.bus.kill_supervisor()
    scene.bus.ok("up")
    # then the very same launch is taken up
    hand_on(scene, waiter)
    done = scene.log.until("step_done", kind="start", after=second["seq"])
    assert done["server"]["launch"] == second["launch"]
    assert done["server"]["keeper"] == second["keeper"]


STOP, START = '"kind":"stop","agent":"B"', '"kind":"start","agent":"B"'
UP, GRANTED, CLAIMED = '"type":"launch_started"', '"type":"granted","agent":"B"', '"type":"claimed","agent":"B"'


@pytest.mark.parametrize(
    ("when", "number", "text"),
    [
        pytest.param("before", 1, STOP, id="before the release is on record", marks=pytest.mark.slow),
        pytest.param("after", 1, STOP, id="the stop is on record", marks=pytest.mark.slow),
        pytest.param("before", 1, START, id="the old server is gone, which is not on record"),
        pytest.param("after", 1, START, id="the start is on record", marks=pytest.mark.slow),
        pytest.param("before", 2, UP, id="the keeper is up, which is not on record", marks=pytest.mark.slow),
        pytest.param("after", 2, UP, id="the keeper is up and has no GO"),
        pytest.param("before", 1, GRANTED, id="ready, which is not on record", marks=pytest.mark.slow),
        pytest.param("after", 1, GRANTED, id="granted and not told"),
        pytest.param("before", 1, CLAIMED, id="told, and that it was noticed is not on record", marks=pytest.mark.slow),
        pytest.param("after", 1, CLAIMED, id="noticed", marks=pytest.mark.slow),
    ],
)
def test_a_kill_at_one_record_of_the_hand_over(
    make_scene: Callable[..., Scene], when: str, number: int, text: str
) -> None:
    # given a supervisor that dies at that record
    scene = make_scene(dying=(when, number, text))
    waiter = scene.wait_and_fetch("B")
    unread = scene.standing()["unread"]
    # when
    scene.bus("release", agent="A")
    assert scene.dying is not None
    assert scene.dying.end().code == -signal.SIGKILL
    scene.bus.ok("up")
    if (when, text) == ("before", STOP):  # the release itself was not written: it is said again
        assert scene.bus.status("server-loop")["holders"][0]["agent"] == "A"
        scene.bus.tell("A", "RELEASE server-loop")
    # then
    assert scene.standing()["unread"] == unread
    hand_on(scene, waiter)
    assert executions(scene.one) == 1


def test_a_kill_while_a_running_server_is_verified(make_scene: Callable[..., Scene]) -> None:
    # given B waits for the worktree whose server runs already
    scene = make_scene()
    scene.bus.ok("cancel", "server-loop", agent="B")
    scene.bus.ok("cancel", "server-loop", agent="C")
    assert scene.bus("request", "server-loop", cwd=scene.one, agent="B").code == 75
    server = scene.standing()["server"]
    scene.bus.ok("down")
    dying = scene.bus.up_and_dying("after", 1, '"kind":"verify"')
    # when
    scene.bus("release", agent="A")
    dying.end()
    scene.bus.ok("up")
    # then
    done = scene.bus("wait", "server-loop", "--timeout", "30s", agent="B")
    assert done.code == 0, done
    assert "running since" in done.out
    assert scene.standing()["server"] == server
    assert executions(scene.one) == 1


def test_waiting_commands_go_on_after_the_supervisor_was_killed(bus: Bus, home: Home, follow: Follow) -> None:
    # given a lock that is held, and three who wait for it, each in its own way
    bus.environment["BUS_AUTOSTART"] = "0"
    bus.ok("up")
    log = follow()
    bus.tell("A", f"REQUEST {LOCK} - hold it")
    bus.tell("W", f"REQUEST {LOCK} - by wait")
    waits = bus.start("wait", LOCK, "--timeout", "60s", agent="W")
    waits.err.until("waiting: ")
    requests = bus.start("request", LOCK, "--wait", "60s", agent="R")
    requests.err.until("waiting: ")
    runs = bus.start("run", "--resource", LOCK, "--", "sh", "-c", "echo fence $BUS_FENCE; exit 9", agent="N")
    runs.err.until("waiting: ")
    # when
    bus.kill_supervisor()
    bus.ok("up")
    # then each has kept its place, and hears of its grant
    assert [each["agent"] for each in bus.status(LOCK)["queue"]] == ["W", "R", "N"]
    bus.tell("A", f"RELEASE {LOCK}")
    assert waits.end().code == 0
    bus.tell("W", f"RELEASE {LOCK}")
    assert requests.end().code == 0
    bus.tell("R", f"RELEASE {LOCK}")
    done = runs.end()
    assert (done.code, done.out) == (9, f"fence {log.until('granted', agent='N')['fence']}\n")
    assert bus.status(LOCK)["state"] == "free"
    assert log.is_whole()


@pytest.mark.parametrize("restarted", ["while it runs", "after its end"])
def test_a_command_under_way_is_not_touched_by_a_kill_of_the_supervisor(
    bus: Bus, home: Home, follow: Follow, restarted: str
) -> None:
    # given
    bus.environment["BUS_AUTOSTART"] = "0"
    bus.ok("up")
    log = follow()
    program = ("run", "--resource", LOCK, "--", "sh", "-c", "echo inside; read line; exit 9")
    run = bus.start(*program, agent="A", stdin=subprocess.PIPE)
    run.out.until("inside")
    assert bus.tell("B", f"REQUEST {LOCK} - next")["type"] == "QUEUED"
    # when
    bus.kill_supervisor()
    if restarted == "while it runs":
        bus.ok("up")
        assert [each["agent"] for each in bus.status(LOCK)["holders"]] == ["A"]
    assert run.process.stdin is not None
    run.process.stdin.write("on\n")
    run.process.stdin.flush()
    assert run.end().code == 9
    if restarted == "after its end":
        bus.ok("up")
    # then
    granted = log.until("granted", agent="B")
    finished = log.until("finished", agent="A")
    assert finished["code"] == 9
    assert finished["seq"] < granted["seq"]


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("before", '"type":"finished"'),
        pytest.param("after", '"type":"started"', marks=pytest.mark.slow),
        pytest.param("after", '"type":"finished"', marks=pytest.mark.slow),
    ],
)
def test_a_run_is_taken_up_by_a_supervisor_started_at_any_of_its_records(
    bus: Bus, home: Home, follow: Follow, when: str, text: str
) -> None:
    # given
    dying = bus.up_and_dying(when, 1, text)
    log = follow()
    # when it dies there, and the command starts another by itself
    run = bus.start("run", "--resource", LOCK, "--", "sh", "-c", "echo once; exit 9", agent="A")
    assert dying.end().code == -signal.SIGKILL
    done = run.end()
    bus.ok("up")
    bus.tell("B", f"REQUEST {LOCK} - next")
    # then it was run once, with its own code, and the resource is free for the next
    assert (done.code, done.out) == (9, "once\n")
    log.until("granted", agent="B")
    assert len(log.all("finished")) == 1


def test_kill_9_of_a_bound_owner_hands_on_at_once(bus: Bus, home: Home, follow: Follow) -> None:
    # given
    bus.ok("up")
    log = follow()
    owner = bus.launch(["sleep", "600"])
    bus.ok("join", "A", "--pid", str(owner.pid))
    bus.tell("A", f"REQUEST {LOCK} - mine")
    assert bus.tell("B", f"REQUEST {LOCK} - next")["type"] == "QUEUED"
    waiter = bus.start("wait", LOCK, "--timeout", "60s", agent="B")
    waiter.err.until("waiting: ")
    # when
    owner.kill(signal.SIGKILL)
    killed = time.monotonic()
    waiter.out.until("GRANTED")
    # then
    print(f"kill -9 of the owner to GRANTED on the waiter's stdout: {(time.monotonic() - killed) * 1000:.0f} ms")
    assert log.until("revoked", agent="A")["seq"] < log.until("granted", agent="B")["seq"]
    assert bus("check", LOCK, agent="A").code == 77
