"""The socket door, spoken to with raw bytes: what is said is answered, what is broken ends nobody else's session."""

import contextlib
import json
import os
import resource
import socket
import sys
from collections.abc import Iterator

import psutil
import pytest
from tests.adapters.peer import Frame, Peer, body
from tests.adapters.shared_bus import shared_bus
from tests.coordinator import bus as coordinator
from tests.end_to_end.playground import Bus

from interlock.adapters.stream_session import Doorkeeper
from interlock.protocol.resource_ticket import Ticket


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        yield bus


@pytest.fixture
def peer(bus: Bus) -> Iterator[Peer]:
    with Peer(str(bus.home / "bus.sock")) as peer:
        yield peer


@pytest.fixture
def other(bus: Bus) -> Iterator[Peer]:
    """Somebody else, who must not notice anything."""
    with Peer(str(bus.home / "bus.sock")) as other:
        yield other


def is_well(other: Peer) -> bool:
    return bool(body(other.ask(to="supervisor", id="ping", body={"type": "PING"}))["type"] == "PONG")


def test_a_session_says_hello_and_every_envelope_is_that_agents(peer: Peer) -> None:
    # when
    welcome = peer.hello("hello-a")
    # then
    assert (welcome["agent"], welcome.get("incarnation", 0)) == ("hello-a", 0)
    # when
    answer = peer.ask(to="coordinator", id="h1", text="REQUEST machine/hello - try it, 20m")
    # then
    assert answer["reply_to"] == "h1"
    assert answer["from"] == "coordinator"
    assert answer["to"] == "hello-a"
    assert body(answer)["type"] == "GRANTED"
    assert answer["text"].startswith("GRANTED machine/hello")
    # when
    refused = body(peer.ask(to="coordinator", id="h2", **{"from": "hello-b"}, text="STATUS"))
    # then
    assert refused["code"] == "CAPABILITY_DENIED"


def test_without_hello_each_line_names_its_own_sender(peer: Peer) -> None:
    # when
    peer.send(
        {"id": "n1", "from": "lines-a", "to": "coordinator", "text": "REQUEST machine/lines -"},
        {"id": "n2", "from": "lines-b", "to": "coordinator", "text": "request machine/lines -"},
    )
    # then
    answers = {frame["reply_to"]: frame for frame in (peer.receive(), peer.receive())}
    assert answers["n1"]["body"]["type"] == "GRANTED"
    assert (answers["n2"]["body"]["type"], answers["n2"]["body"]["position"]) == ("QUEUED", 1)
    assert answers["n2"]["body"]["holder"] == "lines-a"


def test_a_line_without_any_sender_is_told_how_to_name_one(peer: Peer) -> None:
    refused = body(peer.ask(to="coordinator", id="s1", text="STATUS"))
    assert refused["code"] == "BAD_MESSAGE"
    assert "from" in refused["why"]


@pytest.mark.parametrize("name", ["coordinator", "supervisor", "timer", "journal", "all", "Coordinator", "ALL"])
def test_nobody_speaks_as_the_bus(peer: Peer, name: str) -> None:
    refused = body(peer.ask(to="coordinator", id=f"r-{name}", **{"from": name}, text="STATUS"))
    assert refused["code"] == "CAPABILITY_DENIED"


def test_send_message_style_and_a_body_do_the_same_as_text(peer: Peer, other: Peer) -> None:
    peer.hello("style-a")
    other.hello("style-b")
    # when
    one = peer.ask(to="coordinator", id="y1", message="REQUEST machine/y1 - look, 5m", summary="asking")
    two = other.ask(
        to="coordinator", id="y2",
        body={"type": "REQUEST", "resource": "machine/y2", "worktree": "-", "purpose": "look, 5m"},
    )  # fmt: skip
    # then
    assert (body(one)["type"], body(two)["type"]) == ("GRANTED", "GRANTED")
    assert 299_000 <= body(one)["for_ms"] <= 300_000
    assert 299_000 <= body(two)["for_ms"] <= 300_000


def test_pipelined_lines_of_one_resource_are_answered_in_order(peer: Peer) -> None:
    peer.hello("pipe-a")
    # when
    peer.send(
        *(
            {
                "id": f"p{number}",
                "to": "coordinator",
                "text": f"{verb} machine/pipe" + (" -" if verb == "REQUEST" else ""),
            }
            for number, verb in enumerate(["REQUEST", "RELEASE"] * 50)
        )
    )
    # then
    answers = [peer.receive() for _ in range(100)]
    assert [frame["reply_to"] for frame in answers] == [f"p{number}" for number in range(100)]
    assert [body(frame)["type"] for frame in answers] == ["GRANTED", "RELEASED"] * 50
    fences = [body(frame)["fence"] for frame in answers[::2]]
    assert fences == sorted(set(fences))


def test_one_byte_at_a_time_is_the_same_message(peer: Peer) -> None:
    line = json.dumps({"id": "b1", "from": "byte-a", "to": "coordinator", "text": "REQUEST machine/byte - é😀, 1m"})
    # when
    for byte in line.encode() + b"\n":
        peer.socket.send(bytes([byte]))
    # then
    assert body(peer.receive())["type"] == "GRANTED"


@pytest.mark.parametrize(
    "line",
    [
        b"hello there\n",
        b"\x00\x01\x02\n",
        b"\xff\xfe{}\n",
        b"{\n",
        b"[]\n",
        b"null\n",
        b'"text"\n',
        b"{}}\n",
        b'{"to":"coordinator","from":"g","text":"\xff"}\n',
        b'{"to":"coordinator","from":"g","text":"\\ud800"}\n',
        b'{"to":1,"from":"g","text":"STATUS"}\n',
        b'{"to":"coordinator","from":"g","text":["STATUS"]}\n',
        b'{"to":"coordinator","from":"g","args":"STATUS"}\n',
        b'{"to":"coordinator","from":"g"}\n',
        b'{"from":"g","text":"STATUS"}\n',
        b'{"to":"coordinator","from":"g","body":{"type":"NOSUCH"}}\n',
        b'{"to":"coordinator","from":"g","body":{"type":"REQUEST"}}\n',
        b'{"to":"coordinator","from":"g","body":{"type":"RELEASE","resource":"machine/g","fence":"x"}}\n',
        b'{"to":"coordinator","from":"g","body":{"type":"RELEASE","resource":"machine/g","fence":1e400}}\n',
        b'{"to":"coordinator","from":"g","body":{"type":"RELEASE","resource":"m","fence":' + b"9" * 5000 + b"}}\n",
        b'{"to":"coordinator","from":"g","body":{"type":"REQUEST","resource":"machine/g","time_ms":-1}}\n',
        b'{"to":"coordinator","from":"g","body":{"type":"REQUEST","resource":"machine/g","time_ms":1e18}}\n',
        b'{"to":"coordinator","from":"g","text":"","incarnation":99999999999999999999999}\n',
        b'{"to":"coordinator","from":"g","text":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'{"to":"supervisor","from":"g","body":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}\n",
        b'{"to":"supervisor","from":"g","body":{"type":"NOSUCH"}}\n',
        b'{"to":"supervisor","from":"g","body":{"type":"TAIL","since":1e99}}\n',
        b'{"to":"supervisor","from":"g","text":"STATUS"}\n',
        b'{"to":"coordinator","from":"g","text":"REQUEST \'machine/g"}\n',
        b'{"to":"coordinator","from":"g","text":"REQUEST machine/../g -"}\n',
        b'{"to":"coordinator","from":"g","text":"REQUEST machine/g\\u0000 -"}\n',
        b'{"to":"coordinator","from":"a/b","text":"STATUS"}\n',
        b'{"to":"coordinator","from":"g","id":"a b","text":"STATUS"}\n',
        b'{"to":"nobody-of-this-name","from":"g","text":"hi"}\n',
        b'{"hello":{"agent":5}}\n',
        b'{"hello":[]}\n',
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_and_the_session_goes_on(peer: Peer, other: Peer, line: bytes) -> None:
    # when
    peer.send(line)
    # then
    assert body(peer.receive())["type"] == "REFUSED"
    assert is_well(peer)
    assert is_well(other)


def test_a_refusal_names_the_id_it_was_asked_with_even_a_bad_one(peer: Peer) -> None:
    """Or the asker waits for an answer that never comes."""
    refused = peer.ask(to="coordinator", id="no id at all", **{"from": "ids"}, text="STATUS")
    assert refused["reply_to"] == "no id at all"
    assert body(refused)["code"] == "BAD_MESSAGE"


def test_empty_lines_are_nothing(peer: Peer) -> None:
    peer.send(b"\n \n\r\n")
    assert is_well(peer)


def test_a_last_line_without_its_newline_counts_when_the_peer_half_closes(peer: Peer) -> None:
    # when
    peer.send(b'{"id":"x1","from":"half","to":"coordinator","text":"REQUEST machine/half -"}')
    peer.socket.shutdown(socket.SHUT_WR)
    # then
    assert body(peer.receive())["type"] == "GRANTED"
    assert peer.receive() == {}


def test_a_line_over_the_limit_ends_its_session_and_nobody_elses(peer: Peer, other: Peer) -> None:
    # when
    peer.send(b'{"to":"coordinator","text":"' + b"a" * (1024 * 1024) + b'"}')
    # then
    assert body(peer.receive())["code"] == "MESSAGE_TOO_LARGE"
    assert peer.receive() == {}
    assert is_well(other)


@pytest.mark.parametrize(("more", "taken"), [(-1, True), (0, True), (1, False)])
def test_the_limit_of_a_message_is_in_bytes_and_said_with_both_numbers(peer: Peer, more: int, taken: bool) -> None:
    # given
    peer.hello(f"size{more}")
    peer.ask(to="coordinator", text="STATUS")
    text = "😀" * ((65_536 + more) // 4) + "x" * ((65_536 + more) % 4)
    assert len(text.encode()) == 65_536 + more
    # when
    answer = peer.ask(to=f"size{more}", text=text)
    # then
    assert (body(answer)["type"] == "SENT") is taken
    if not taken:
        assert body(answer)["code"] == "MESSAGE_TOO_LARGE"
        assert "65537 bytes" in body(answer)["why"]
        assert "at most 65536" in body(answer)["why"]


def test_valid_frames_in_the_wrong_state_change_nothing(peer: Peer) -> None:
    peer.hello("wrong")
    said = {
        "RELEASE machine/wrong": "NOT_HOLDER",
        "EXTEND machine/wrong": "NOT_HOLDER",
        "CANCEL machine/wrong": "NOT_QUEUED",
        "RESTART machine/wrong": "NOT_HOLDER",
        "RELEASE machine/wrong fence=7": "STALE_FENCE",
        "GRANT 0197-x": "CAPABILITY_DENIED",
        "HANDOVER machine/wrong wrong": "NOT_HOLDER",
        "HANDOVER machine/wrong nobody-of-that-name": "UNKNOWN_TARGET",
    }
    for text, code in said.items():
        assert body(peer.ask(to="coordinator", text=text))["code"] == code, text
    for question, code in {
        "ADMIT": "CAPABILITY_DENIED",
        "CHECK": "NOT_HOLDER",
        "WAIT": "NOT_QUEUED",
    }.items():
        keeper = {"machine": "m", "boot": "b", "pid_namespace": 1, "pid": 1, "start_ticks": 1}
        asked: Frame = {"type": question, "resource": "machine/wrong"}
        if question == "ADMIT":
            asked |= {"holds": {"machine/wrong": 3}, "launch": "x", "keeper": keeper, "command": "x"}
        assert body(peer.ask(to="supervisor", body=asked))["code"] == code, question


def test_a_message_of_an_older_incarnation_changes_nothing(bus: Bus, peer: Peer) -> None:
    # given
    sleeper = bus.launch(["sleep", "600"])
    assert bus("join", "reborn", "--pid", str(sleeper.pid)).code == 0
    assert bus("request", "machine/reborn", agent="reborn").code == 0
    old = peer.hello("reborn")["incarnation"]
    assert bus("join", "reborn", "--pid", str(os.getpid()), "--takeover").code == 0
    assert bus("request", "machine/reborn", agent="reborn").code == 0
    # when
    by_session = body(peer.ask(to="coordinator", text="RELEASE machine/reborn"))
    # then
    assert by_session["code"] == "TARGET_ENDED"
    assert f"incarnation {old}" in by_session["why"]
    # when
    with Peer(str(bus.home / "bus.sock")) as fresh:
        line = {"to": "coordinator", "from": "reborn", "incarnation": old, "text": "RELEASE machine/reborn"}
        by_line = body(fresh.ask(**line))
    # then
    assert by_line["code"] == "TARGET_ENDED"
    assert bus("check", "machine/reborn", agent="reborn").code == 0


def test_an_event_log_is_read_by_a_cursor_without_gap_or_repeat(peer: Peer) -> None:
    peer.hello("cursor")
    for number in range(30):
        peer.ask(to="coordinator", text=f"REQUEST machine/cursor{number} -")
    # when
    peer.send({"to": "supervisor", "id": "t", "body": {"type": "TAIL", "since": 0}})
    numbers: list[int] = []
    while True:
        said = body(peer.receive())
        numbers += [event["seq"] for event in said["events"]]
        if said.get("end"):
            break
    # then
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_cursor_beyond_the_end_of_the_log_is_at_its_end(peer: Peer) -> None:
    said = body(peer.ask(to="supervisor", id="far", body={"type": "TAIL", "since": 10**26}))
    assert (said["events"], said["end"]) == ([], True)


def test_a_session_reads_the_log_once_at_a_time(peer: Peer) -> None:
    """Or a peer that only asks could make the bus begin without end."""
    follow = {"to": "supervisor", "body": {"type": "TAIL", "since": 10**9, "follow": True}}
    peer.send({**follow, "id": "f1"}, {**follow, "id": "f2"})
    refused = peer.receive()
    assert (refused["reply_to"], body(refused)["code"]) == ("f2", "RESOURCE_BUSY")


def test_who_never_reads_is_let_go_and_nobody_else_pays(bus: Bus, other: Peer) -> None:
    # given
    supervisor = psutil.Process(bus.supervisor())
    other.hello("reader")
    other.ask(to="coordinator", text="STATUS")
    before = supervisor.memory_info().rss
    with Peer(str(bus.home / "bus.sock"), buffer_bytes=4096) as deaf:
        deaf.hello("deaf")
        ask = json.dumps({"to": "supervisor", "body": {"type": "TAIL", "since": 0}}).encode() + b"\n"
        # when
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(100_000):
                deaf.send(ask * 100)
            pytest.fail("it was never let go")
        # then
        assert is_well(other)
        assert supervisor.memory_info().rss - before < 64 * 1024 * 1024


def test_500_connections_at_once_are_all_served(bus: Bus, other: Peer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2048), hard))
    peers: list[Peer] = []
    try:
        # when
        peers = [Peer(str(bus.home / "bus.sock")) for _ in range(500)]
        for number, peer in enumerate(peers):
            peer.send(
                {"id": f"c{number}", "from": f"c{number}", "to": "coordinator", "text": "REQUEST machine/crowd -"}
            )
        answers = [body(peer.receive()) for peer in peers]
        # then
        assert [each["type"] for each in answers].count("GRANTED") == 1
        assert sorted(each["position"] for each in answers if each["type"] == "QUEUED") == list(range(1, 500))
        assert is_well(other)
    finally:
        for peer in peers:
            peer.socket.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="only there the limits of another process can be changed")
def test_without_a_descriptor_to_spare_the_connected_are_served_and_later_everybody(bus: Bus, other: Peer) -> None:
    """https://github.com/python/cpython/issues/151615: a full table of files closed the door, or spun."""
    # given
    supervisor = psutil.Process(bus.supervisor())
    before, path, peers = supervisor.rlimit(psutil.RLIMIT_NOFILE), str(bus.home / "bus.sock"), list[Peer]()
    assert is_well(other)
    try:
        # when
        supervisor.rlimit(psutil.RLIMIT_NOFILE, (supervisor.num_fds() + 3, before[1]))
        with contextlib.suppress(OSError):
            peers += [Peer(path) for _ in range(40)]
        # then
        assert all(is_well(other) for _ in range(20))
        used_s = sum(supervisor.cpu_times()[:2])
        with contextlib.suppress(TimeoutError):  # a moment in which it could spin
            other.socket.settimeout(0.5)
            other.receive()
        assert sum(supervisor.cpu_times()[:2]) - used_s < 0.1
    finally:
        supervisor.rlimit(psutil.RLIMIT_NOFILE, before)
        other.socket.settimeout(20)
        for peer in peers:
            peer.socket.close()
    assert is_well(other)
    assert bus("status").code == 0


@pytest.mark.parametrize(("watched", "attended", "room"), [(0, 0, 44), (20, 0, 24), (0, 20, 24), (290, 0, 16)])
def test_connections_leave_room_for_what_must_go_on(
    monkeypatch: pytest.MonkeyPatch, watched: int, attended: int, room: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (300, 300))
    at_work = coordinator.Bus()
    keeper = Doorkeeper(at_work.supervisor, at_work.router, at_work.desk, lambda session: None)
    for number in range(watched):
        at_work.supervisor.attendance.watch(coordinator.process(number + 1))
    for number in range(attended):  # each `bus run` that waits is a process that is watched too
        ticket = Ticket(
            f"r{number}", "x", 1, number, "-", "", "r", 0, run=True, process=coordinator.process(number + 1)
        )
        at_work.supervisor.watching.ticket("machine/r", ticket)
    for _ in range(room):
        assert keeper.has_room()
        at_work.client("x")
    assert not keeper.has_room()


def test_an_inbox_takes_4096_unread_and_refuses_the_newcomer(peer: Peer, other: Peer) -> None:
    # given
    other.hello("crammed")
    other.ask(to="coordinator", text="STATUS")
    # when: each sender within its own burst
    answers = []
    for sender in range(42):
        peer.send(*({"from": f"crammer{sender}", "to": "crammed", "text": f"{n}"} for n in range(98)))
        answers += [body(peer.receive()) for _ in range(98)]
    # then
    refused = [each for each in answers if each["type"] == "REFUSED"]
    assert len(answers) - len(refused) == 4096
    assert {each["code"] for each in refused} == {"QUEUE_FULL"}
    assert "4096" in refused[0]["why"]
    assert body(other.ask(to="coordinator", text="REQUEST machine/crammed -"))["type"] == "GRANTED"


def test_a_peer_that_breaks_off_in_the_middle_of_a_line_changes_nothing(bus: Bus, other: Peer) -> None:
    with Peer(str(bus.home / "bus.sock")) as peer:
        peer.send(b'{"id":"z1","from":"cut","to":"coordinator","text":"REQUEST mach')
    assert is_well(other)
    agents = bus("agents", "--json").json["agents"]
    assert "cut" not in [each["agent"] for each in agents]


def test_the_socket_and_its_home_are_nobody_elses(bus: Bus) -> None:
    assert (bus.home / "bus.sock").stat().st_mode & 0o777 == 0o600
    assert bus.home.stat().st_mode & 0o777 == 0o700
