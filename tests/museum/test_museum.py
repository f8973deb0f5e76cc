"""The bug museum: one test for each public bug of this kind, named for what went wrong there, run on the real thing."""

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial

import psutil
import pytest
from tests.adapters.peer import Peer, body
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end import conftest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import (
    BUS,
    WAIT_S,
    Bus,
    Done,
    Follower,
    Repository,
    fetch,
    free_port,
    server_config,
    stranger,
    together,
)

own_bus = conftest.bus  # one of a test's own; `bus` is shared by those that need no other


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus("[resources.flat]\n") as bus:
        yield bus


@pytest.fixture
def peer(bus: Bus) -> Iterator[Peer]:
    with Peer(str(bus.home / "bus.sock")) as peer:
        yield peer


def positions(bus: Bus, key: str) -> list[str]:
    return [each["agent"] for each in bus.status(key)["queue"]]


# --- leases, staleness, identity ----------------------------------------------------------
def test_the_old_holders_release_deleted_the_successors_lock(bus: Bus) -> None:
    """https://github.com/griffinmartin/opencode-claude-auth/pull/267, https://github.com/dashpay/platform/pull/4476"""
    fence = bus("request", "machine/d27", "--json", agent="d27").json["body"]["fence"]
    bus.ok("release", "machine/d27", agent="d27")
    bus.ok("request", "machine/d27", agent="d27-next")
    for words in (["release", "machine/d27"], ["release", "machine/d27", "--fence", str(fence)]):
        assert bus(*words, agent="d27").code == 77
    bus.ok("check", "machine/d27", agent="d27-next")


def test_a_lock_was_given_to_every_racer(bus: Bus) -> None:
    """https://github.com/gastownhall/beads/issues/4657, https://github.com/RamaAditya49/titen/issues/24"""
    asked: list[Callable[[], Done]] = [
        partial(bus, "request", "machine/d34", agent=f"d34-{number}") for number in range(8)
    ]
    answers = together(asked)
    assert [each.code for each in answers].count(0) == 1
    assert sorted(int(each.out.split()[3]) for each in answers if each.code) == list(range(1, 8))


def test_a_done_message_of_a_former_agent_of_that_name_ended_the_new_one(bus: Bus, peer: Peer) -> None:
    """https://github.com/gastownhall/gastown/issues/909"""
    sleeper = bus.launch(["sleep", "600"])
    bus.ok("join", "d35", "--pid", str(sleeper.pid))
    old = peer.hello("d35")["incarnation"]
    bus.ok("join", "d35", "--pid", str(os.getpid()), "--takeover")
    bus.ok("request", "machine/d35", agent="d35")
    said = body(peer.ask(to="coordinator", text="RELEASE machine/d35"))
    assert (said["code"], f"incarnation {old} " in said["why"]) == ("TARGET_ENDED", True)
    bus.ok("check", "machine/d35", agent="d35")


def test_a_pid_in_a_lock_file_that_somebody_else_has_now_forbade_every_start(own_bus: Bus) -> None:
    """https://github.com/anthropics/claude-code/issues/72898, https://github.com/getpaseo/paseo/issues/1304"""
    own_bus.home.mkdir(mode=0o700)
    facts = {"pid": os.getpid(), "start_ticks": 1, "boot": "x", "socket": "/nowhere"}
    (own_bus.home / "bus.lock").write_text(json.dumps(facts))
    own_bus.ok("status")
    assert psutil.pid_exists(os.getpid())


def test_a_killed_daemon_left_a_file_that_kept_the_next_one_out(own_bus: Bus) -> None:
    """https://github.com/2witstudios/PurePoint/issues/7"""
    own_bus.ok("request", "machine/x", agent="A")
    own_bus.kill_supervisor()
    own_bus.ok("check", "machine/x", agent="A")


def test_a_dead_workers_lock_was_never_noticed(bus: Bus) -> None:
    """https://github.com/gastownhall/gastown/issues/3584, https://github.com/cirello-io/dynamolock/issues/778"""
    sleeper = bus.launch(["sleep", "600"])
    bus.ok("join", "d36", "--pid", str(sleeper.pid))
    bus.ok("request", "machine/d36", agent="d36")
    waiting = bus.start("request", "machine/d36", "--wait", "20s", agent="d36-next")
    waiting.err.until("waiting: ")
    sleeper.kill()
    sleeper.end()
    assert waiting.end().code == 0


def test_a_release_under_another_case_of_the_name_said_zero_released(bus: Bus) -> None:
    """https://github.com/Dicklesworthstone/mcp_agent_mail_rust/issues/169"""
    bus.ok("request", "machine/b37", agent="Foo37")
    for name in ("foo37", "FOO37"):
        done = bus("release", "machine/b37", agent=name)
        assert (done.code, "NAME_CONFLICT" in done.err) == (77, True)
    bus.ok("release", "machine/b37", agent="Foo37")


def test_a_lost_hold_was_released_with_success(own_bus: Bus, follow_own: Callable[[], Follower]) -> None:
    """https://github.com/OffbandMesh/meshcore-firmware/issues/373"""
    own_bus.home.mkdir(mode=0o700)
    (own_bus.home / "bus.toml").write_text('[bus]\npoll_every = "200ms"\n')
    log = follow_own()
    own_bus.ok("request", "machine/x", agent="A")
    own_bus("request", "machine/x", agent="B")
    log.until("granted", agent="B")
    done = own_bus("release", "machine/x", agent="A")
    assert (done.code, "NOT_HOLDER" in done.err, "no answer to 2 polls" in done.err) == (77, True, True)


@pytest.fixture
def follow_own(own_bus: Bus) -> Callable[[], Follower]:
    return lambda: Follower(own_bus)


# --- queue and fairness -------------------------------------------------------------------
def test_who_asked_again_lost_its_place(bus: Bus) -> None:
    """https://github.com/objectstack-ai/objectstack/issues/9661, gitlab-org/gitlab issue 481413"""
    bus.ok("request", "machine/d39", agent="d39")
    for agent in ("d39-a", "d39-b"):
        bus("request", "machine/d39", agent=agent)
    for number in range(5):
        assert bus("request", "machine/d39", "--for", f"still {number}", agent="d39-a").out.split()[3] == "1"
    assert positions(bus, "machine/d39") == ["d39-a", "d39-b"]


def test_the_oldest_waiter_was_passed_over_and_the_second_dropped(bus: Bus) -> None:
    """https://github.com/pmcfadin/cqlite/issues/3924, https://github.com/webpack/enhanced-resolve/pull/673"""
    waiting = [f"d40-{number}" for number in range(4)]
    bus.ok("request", "machine/d40", agent="d40")
    for agent in waiting:
        bus("request", "machine/d40", agent=agent)
    owner = "d40"
    for agent in waiting:
        bus.ok("release", "machine/d40", agent=owner)
        assert bus.status("machine/d40")["holders"][0]["agent"] == agent
        owner = agent


def test_a_queue_for_one_thing_held_up_another(bus: Bus) -> None:
    """https://github.com/atrinik/atrinik/issues/398"""
    bus.ok("request", "machine/d42", agent="d42")
    bus("request", "machine/d42", agent="d42-b")
    assert bus.ok("request", "machine/d42-other", agent="d42-b").startswith("GRANTED")


def test_a_holder_in_a_tight_loop_starved_the_waiter(bus: Bus, peer: Peer) -> None:
    """https://github.com/vectorize-io/hindsight/pull/4157"""
    with Peer(str(bus.home / "bus.sock")) as other:
        peer.hello("b31")
        other.hello("b31-b")
        peer.ask(to="coordinator", text="REQUEST machine/b31 -")
        other.ask(to="coordinator", text="REQUEST machine/b31 -")
        for holder, waiter in [(peer, other), (other, peer)] * 10:
            holder.send(
                {"to": "coordinator", "text": "RELEASE machine/b31"},
                {"to": "coordinator", "text": "REQUEST machine/b31 -"},
            )
            assert [body(holder.receive())["type"] for _ in range(2)] == ["RELEASED", "QUEUED"]
            assert (
                body(waiter.ask(to="supervisor", body={"type": "CHECK", "resource": "machine/b31"}))["type"]
                == "GRANTED"
            )


def test_a_lost_reply_to_a_release_left_it_held_for_one_side(bus: Bus, peer: Peer) -> None:
    """https://github.com/apache/curator/issues/1193"""
    peer.hello("b11")
    peer.ask(to="coordinator", text="REQUEST machine/b11 -")
    for _ in range(3):
        assert body(peer.ask(to="coordinator", id="b11-1", text="RELEASE machine/b11"))["type"] == "RELEASED"
    assert bus.status("machine/b11")["state"] == "free"


# --- messages and inboxes -----------------------------------------------------------------
def test_a_full_inbox_took_messages_and_never_showed_them(bus: Bus, peer: Peer) -> None:
    """https://github.com/anthropics/claude-code/issues/63684, https://github.com/gastownhall/gascity/issues/73"""
    peer.hello("d49")
    peer.ask(to="coordinator", text="STATUS")
    # within the burst of one sender to one inbox; then it is said
    answers = [body(peer.ask(to="d49", text=f"message {number}")) for number in range(130)]
    taken = sum(each["type"] == "SENT" for each in answers)
    assert 100 <= taken < 130
    assert {each["code"] for each in answers if each["type"] == "REFUSED"} == {"RATE_LIMITED"}
    seen: list[str] = []
    while page := bus.ok("inbox", "--json", agent="d49").splitlines():
        seen += [json.loads(line)["text"] for line in page]
    assert len(seen) == len(set(seen)) == taken


def test_a_message_was_marked_read_that_nobody_had_seen(bus: Bus) -> None:
    """https://github.com/anthropics/claude-code/issues/50779"""
    bus.ok("join", "d50")
    message = bus("send", "d50", "hi", "--json", agent="d50").json["body"]["id"]
    for words, state in (([], "queued"), (["inbox", "--peek"], "delivered"), (["inbox"], "acked")):
        if words:
            assert message in bus.ok(*words, agent="d50")
        assert bus("receipt", message, "--json").json["state"] == state


def test_a_message_to_nobody_succeeded_and_made_a_ghost_inbox(bus: Bus) -> None:
    """https://github.com/anthropics/claude-code/issues/68410"""
    bus.ok("join", "Reviewer")
    before = {each["agent"] for each in bus("agents", "--json").json["agents"]} | {"d52"}
    for name in ("Reviewr", "reviewer", "team-lead"):
        assert bus("send", name, "hi", agent="d52").code == 64
    assert {each["agent"] for each in bus("agents", "--json").json["agents"]} == before


def test_read_mail_went_on_nagging(bus: Bus) -> None:
    """https://github.com/Dicklesworthstone/mcp_agent_mail/issues/274, https://github.com/yonidavidson/agentcomm/issues/160"""
    bus.ok("join", "d56")
    message = bus("send", "d56", "hi", "--json", agent="d56").json["body"]["id"]
    bus.ok("ack", message, agent="d56")
    assert (bus.ok("inbox", agent="d56"), bus("me", "--json", agent="d56").json["unread"]) == ("", 0)


def test_json_was_cut_in_the_middle_of_an_object(bus: Bus, peer: Peer) -> None:
    """https://github.com/boshu2/agentops/issues/42"""
    for number in range(100):
        text = f"REQUEST machine/d64 - {'é' * 1000}"
        peer.ask(to="coordinator", text=text, **{"from": f"d64-{number}"})
    assert len(bus.status("machine/d64")["queue"]) == 99
    for line in bus.ok("tail", "--json", "--since", "0").splitlines():
        json.loads(line)


@pytest.mark.parametrize("name", ["a:b", "CON/x", "x/../y", "../x", "a" * 65, "😀", "a\nb", ".", "-x"])
def test_a_name_became_a_path(bus: Bus, name: str) -> None:
    """https://github.com/wowyuarm/dsh-agent-team/issues/7, https://github.com/anthropics/claude-code/issues/13722"""
    before = {path.name for path in bus.home.iterdir()}
    assert bus("join", "--", name).code == 64
    assert bus("me", "--as", name).code == 64
    assert bus("request", f"machine/{name}", agent="d73").code == 64
    assert {path.name for path in bus.home.iterdir()} == before


# --- start, stop, sockets -----------------------------------------------------------------
def test_starting_what_runs_was_an_error_and_two_starts_made_two(own_bus: Bus) -> None:
    """https://github.com/thedotmack/claude-mem/issues/1346, https://github.com/tiian/flom/issues/6"""
    pids = together([lambda: own_bus("up", "--json").json["pid"] for _ in range(5)])
    assert len(set(pids)) == 1


def test_a_dead_daemons_socket_gave_two_daemons(own_bus: Bus) -> None:
    """https://github.com/tiian/flom/issues/6: unlink-then-bind"""
    own_bus.ok("up")
    own_bus.kill_supervisor()
    pids = together([lambda: own_bus("up", "--json").json["pid"] for _ in range(5)])
    assert len(set(pids)) == 1


def test_the_socket_was_open_to_others_for_a_moment(own_bus: Bus) -> None:
    """https://github.com/marmot-protocol/mdk/issues/345, https://github.com/Growth-Circle/cadis/issues/677"""
    subprocess.run(
        ["sh", "-c", 'umask 0; exec "$0" up', str(BUS)], env=own_bus.environment, cwd=own_bus.folder, check=True,
        capture_output=True, timeout=WAIT_S,
    )  # fmt: skip
    for path in (own_bus.home, *own_bus.home.rglob("*")):
        assert not path.stat().st_mode & 0o077, path


def test_a_slow_reader_made_everybody_wait(bus: Bus) -> None:
    """labgrid-project/labgrid PR 547, https://github.com/python/cpython/issues/116279"""
    with Peer(str(bus.home / "bus.sock"), buffer_bytes=4096) as deaf:
        deaf.send({"to": "supervisor", "body": {"type": "TAIL", "since": 0, "follow": True}})
        assert bus("request", "machine/b30", agent="b30").code == 0


def test_waiting_for_the_output_of_a_grandchild_hung(bus: Bus) -> None:
    """https://github.com/python/cpython/pull/151983: the leader has ended, a grandchild holds the pipe"""
    done = threading.Event()

    def run() -> None:
        bus.ok("run", "--resource", "machine/b50", "--", "sh", "-c", "exit 0", agent="b50")
        done.set()

    threading.Thread(target=run, daemon=True).start()
    assert done.wait(WAIT_S)


# --- servers ------------------------------------------------------------------------------
def test_a_port_that_a_stranger_holds_was_freed_by_force(own_bus: Bus, follow_own: Callable[[], Follower]) -> None:
    """https://github.com/anthropics/claude-code/issues/90070, https://github.com/BloopAI/vibe-kanban/issues/2934"""
    port = free_port()
    Home(own_bus.home).write(server_config(port))
    one = Repository(own_bus).worktree("one")
    with stranger(port) as pid:
        assert own_bus("request", "server-loop", cwd=one, agent="A").code == 75
        log = follow_own()
        log.until("blocked")
        shown = own_bus.ok("status", "server-loop")
        assert str(pid) in shown
        assert psutil.pid_exists(pid)
    own_bus.ok("wait", "server-loop", "--timeout", "20s", agent="A")
    assert fetch(port).startswith(f"worktree {one}")


# --- the command --------------------------------------------------------------------------
def test_a_pipe_into_head_ended_in_a_traceback(bus: Bus) -> None:
    """https://github.com/Backblaze/B2_Command_Line_Tool/issues/1071"""
    for unbuffered in ("", "1"):
        done = subprocess.run(
            ["bash", "-c", '"$0" tail --since 0 | head -1; echo ${PIPESTATUS[0]}', str(BUS)], text=True, check=True,
            capture_output=True, cwd=bus.folder, timeout=WAIT_S,
            env=bus.environment_of("", {"PYTHONUNBUFFERED": unbuffered}),
        )  # fmt: skip
        assert done.stderr == ""
        assert done.stdout.splitlines()[-1] in {"141", "0"}  # 0 where all of it fitted into the pipe
