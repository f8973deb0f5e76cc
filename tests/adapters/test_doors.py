"""Every way in speaks the same contract: the same messages get the same answers, by socket, by files and by relay."""

import itertools
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from tests.adapters.folder_user import FolderUser, joined
from tests.adapters.peer import Peer
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import WAIT_S, Bus
from tests.polling import until

from interlock.adapters.cli.relay import Relay, connect

Frame = dict[str, Any]


class Door(Protocol):
    """One agent's way to the bus."""

    agent: str

    def ask(self, **envelope: Any) -> Frame: ...

    def hears(self, kind: str) -> Frame: ...

    def close(self) -> None: ...


class SocketDoor:
    """Args: agent: says hello as that, with a token where one is given."""

    def __init__(self, bus: Bus, agent: str, token: str = "") -> None:
        self._peer = self.peer(bus, agent)
        self.agent = agent
        self.welcome = self._peer.hello(agent, **({"token": token} if token else {}))
        self.ask(to="supervisor", body={"type": "WAIT", "resource": "*", "follow": True})

    def peer(self, bus: Bus, agent: str) -> Peer:
        return Peer(str(bus.home / "bus.sock"))

    def ask(self, **envelope: Any) -> Frame:
        message_id = envelope.setdefault("id", secrets.token_hex(8))
        self._peer.send(envelope)
        while frame := self._peer.receive():
            unread = "reply_to" not in frame and frame["body"]["type"] == "REFUSED"  # of a line that was not even read
            if unread or frame.get("reply_to") == message_id:
                return frame
        raise AssertionError("the session is over")

    def close(self) -> None:
        self._peer.socket.close()

    def hears(self, kind: str) -> Frame:
        while (frame := self._peer.receive())["body"]["type"] != kind:
            assert frame
        return frame


class RelayDoor(SocketDoor):
    """The same lines, over files. Args: folder: whose relay/."""

    def peer(self, bus: Bus, agent: str) -> Peer:
        return RelayPeer(connect(str(bus.home), agent))


class RelayPeer(Peer):
    def __init__(self, relay: Relay) -> None:
        relay.settimeout(WAIT_S)
        self.socket = cast("socket.socket", relay)  # it looks like one
        self._buffer = b""


class LineDoor(SocketDoor):
    """The socket without a hello: each line names its sender, and carries its token."""

    def __init__(self, bus: Bus, agent: str, token: str = "") -> None:
        self._peer = self.peer(bus, agent)
        self.agent = agent
        self._own: dict[str, Any] = {"from": agent, **({"token": token} if token else {})}

    def ask(self, **envelope: Any) -> Frame:
        return super().ask(**{**self._own, **envelope})


class FileDoor:
    """JSON files in an agent's own out/. Args: token: in each of them."""

    def __init__(self, bus: Bus, agent: str, token: str = "") -> None:
        self.agent = agent
        self._token = token
        self._user = self.user(bus, agent)

    def user(self, bus: Bus, agent: str) -> FolderUser:
        return joined(bus, agent)

    def close(self) -> None:
        pass

    def ask(self, **envelope: Any) -> Frame:
        name = secrets.token_hex(6)
        self._user.post(json.dumps(envelope | ({"token": self._token} if self._token else {})), name)
        frame: Frame = self._user.answer(name)
        return frame

    def hears(self, kind: str) -> Frame:
        path = self._user.letter(kind.replace(" ", "_").rstrip("?"))
        frame: Frame = json.loads(path.read_text())
        path.rename(self._user.folder / "cur" / path.name)
        return frame


class TextDoor(FileDoor):
    """Plain text with headers, in the coordinator's folder."""

    def __init__(self, bus: Bus, agent: str, token: str = "") -> None:
        super().__init__(bus, agent, token)
        self._desk = bus.home / "inboxes" / "coordinator" / "new"

    def ask(self, **envelope: Any) -> Frame:
        name = secrets.token_hex(6)
        headers = {"From": self._user.name, "To": envelope["to"], "Id": envelope.get("id", ""),
                   "Reply-To": envelope.get("reply_to", ""), "Token": self._token}  # fmt: skip
        lines = "".join(f"{key}: {value}\n" for key, value in headers.items() if value)
        self._user.post(f"{lines}\n{envelope['text']}\n", name, into=self._desk)
        frame: Frame = self._user.answer(name)
        return frame


_numbers = itertools.count(1)
DOORS = [SocketDoor, RelayDoor, FileDoor, TextDoor]
Open = Callable[[str], Door]


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus('[bus]\npoll_every = "1s"\n[resources.flat]\n') as bus:
        yield bus


@pytest.fixture(params=DOORS, ids=[each.__name__ for each in DOORS])
def door(request: pytest.FixtureRequest, bus: Bus) -> Iterator[Open]:
    """Opens a door of one kind for an agent; each test has names of its own."""
    mark = f"{request.param.__name__.removesuffix('Door').lower()}-{next(_numbers)}"
    opened: list[Door] = []

    def open_one(name: str) -> Door:
        opened.append(request.param(bus, f"{mark}-{name}"))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def test_request_queue_grant_and_release_are_the_same_everywhere(door: Open) -> None:
    # given
    key = f"machine/hand{next(_numbers)}"
    one, two = door("one"), door("two")
    # when
    granted = one.ask(to="coordinator", text=f"REQUEST {key} - the first, 5m")
    queued = two.ask(to="coordinator", text=f"request {key} - the second")
    # then
    assert (granted["body"]["type"], granted.get("exit", 0)) == ("GRANTED", 0)
    assert granted["text"].startswith(f"GRANTED {key} (fence {granted['body']['fence']}, yours as you said for 5m)")
    assert (queued["body"]["type"], queued["exit"], queued["body"]["position"]) == ("QUEUED", 75, 1)
    # when
    assert two.ask(to="coordinator", text=f"RELEASE {key} fence=1")["body"]["code"] == "STALE_FENCE"
    released = one.ask(to="coordinator", text=f"RELEASE {key}")
    # then
    assert released["text"] == f"RELEASED {key}"
    assert one.ask(to="coordinator", text=f"EXTEND {key} more")["body"]["type"] == "REFUSED"


def test_news_come_through_the_door_that_its_agent_uses(door: Open) -> None:
    # given
    key = f"machine/news{next(_numbers)}"
    one, two = door("holder"), door("waiter")
    one.ask(to="coordinator", text=f"REQUEST {key} -")
    two.ask(to="coordinator", text=f"REQUEST {key} -")
    # when
    poll = one.hears("STILL USING?")
    one.ask(to="coordinator", text=f"RELEASE {key}")
    granted = two.hears("GRANTED")
    # then
    assert poll["text"].startswith(f"STILL USING? {key} - 1 agent waits")
    assert granted["body"]["key"] == key
    assert "reply_to" not in granted
    two.ask(to="coordinator", text=f"RELEASE {key}")


def test_the_same_id_is_done_once_and_answered_with_what_is_true_now(door: Open) -> None:
    # given
    mark = secrets.token_hex(4)
    one = door("again")
    ask = {"to": "coordinator", "id": f"id-{mark}", "text": f"REQUEST machine/again-{mark} -"}
    first, second = one.ask(**ask), one.ask(**ask)
    # then
    assert first["reply_to"] == second["reply_to"] == f"id-{mark}"
    assert first["body"]["fence"] == second["body"]["fence"]
    # when
    other = one.ask(**{**ask, "text": "RELEASE machine/x"})
    one.ask(to="coordinator", text=f"RELEASE machine/again-{mark}")
    # then
    assert other["body"]["code"] == "ID_CONFLICT"
    assert one.ask(**ask)["body"]["code"] == "TARGET_ENDED"


def test_agents_write_to_each_other_byte_for_byte(door: Open) -> None:
    one, two = door("pen"), door("pal")
    two.ask(to="coordinator", text="STATUS")
    to = one.agent.replace("-pen", "-pal")
    text = 'it\'s "quoted" é😀\n\nTo: nobody\n\tRELEASE x; $(true)'
    # when
    sent = one.ask(to=to, text=text, reply_to="m-1")
    # then
    assert (sent["body"]["type"], sent["body"]["to"]) == ("SENT", to)
    heard = two.hears("TEXT")
    assert (heard["text"], heard["body"]["text"], heard["id"]) == (text, text, sent["body"]["id"])


@pytest.mark.parametrize(
    ("to", "text", "code"),
    [
        ("coordinator", "HELLO there", "BAD_MESSAGE"),
        ("coordinator", "REQUEST", "BAD_MESSAGE"),
        ("coordinator", "REQUEST flatt -", "UNKNOWN_RESOURCE"),
        ("coordinator", "RELEASE machine/never-asked", "NOT_HOLDER"),
        ("coordinator", "CANCEL machine/never-asked", "NOT_QUEUED"),
        ("coordinator", "GRANT 0197-x", "CAPABILITY_DENIED"),
        ("coordinator", "REQUEST machine/../x -", "BAD_MESSAGE"),
        ("no-such-agent", "hi", "UNKNOWN_TARGET"),
        ("coordinator", "STATUS " + "x" * 70_000, "MESSAGE_TOO_LARGE"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_is_refused_is_refused_with_the_same_code(door: Open, to: str, text: str, code: str) -> None:
    refused = door("wrong").ask(to=to, text=text)
    assert (refused["body"]["type"], refused["body"]["code"]) == ("REFUSED", code)


def test_a_session_through_ones_own_folder_is_ones_own_whatever_it_says(bus: Bus) -> None:
    # given: a container's view, with one folder only
    joined(bus, "boxed")
    view = bus.folder / "view" / "inboxes"
    view.mkdir(parents=True)
    (view / "boxed").symlink_to(bus.home / "inboxes" / "boxed")
    # when
    peer = RelayPeer(connect(str(view.parent), ""))
    welcome = peer.hello("")
    # then
    assert (welcome["agent"], welcome["how"]) == ("boxed", "owner of the inbox folder")
    # when
    refused = peer.ask(to="coordinator", id="x", **{"from": "other"}, text="STATUS")["body"]
    joining = peer.ask(to="supervisor", id="j", body={"type": "JOIN", "agent": "other"})["body"]
    taking = peer.ask(to="supervisor", id="t", body={"type": "JOIN", "agent": "boxed", "takeover": True})["body"]
    # then
    assert [each["code"] for each in (refused, joining, taking)] == ["CAPABILITY_DENIED"] * 3
    other = RelayPeer(connect(str(view.parent), "other"))
    assert other.hello("other")["code"] == "CAPABILITY_DENIED"
    peer.socket.close()
    other.socket.close()


def _is(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def test_a_relay_that_is_over_leaves_nothing_behind(bus: Bus) -> None:
    relays = bus.home / "inboxes" / "coordinator" / "relay"
    relay = connect(str(bus.home), "")
    mine = next(up.parent for up in relays.glob("*/up") if _is(up, relay._up))  # those of other tests go meanwhile
    # when
    relay.close()
    # then
    until(lambda: not mine.exists())


@pytest.mark.parametrize("broken", ["up", "down", "read"])
@pytest.mark.parametrize("how", ["link", "fifo", "hard link", "missing", "directory"])
def test_a_relay_of_other_things_than_files_is_never_taken_up_and_leads_nowhere(
    bus: Bus, broken: str, how: str
) -> None:
    # given
    relays = bus.home / "inboxes" / "coordinator" / "relay"
    outside = bus.folder / f"outside-{broken}-{how}"
    outside.write_text("untouched")
    made = relays / f".new-{secrets.token_hex(4)}"
    made.mkdir(mode=0o700)
    for name in ("up", "down", "read"):
        path = made / name
        if name != broken:
            path.touch(mode=0o600)
        elif how == "link":
            path.symlink_to(outside)
        elif how == "fifo":
            os.mkfifo(path)
        elif how == "hard link":
            os.link(outside, path)
        elif how == "directory":
            path.mkdir()
    held = os.open(made / "up", os.O_RDONLY | os.O_NONBLOCK) if broken != "up" else -1
    # when
    placed = relays / secrets.token_hex(8)
    made.rename(placed)
    connect(str(bus.home), "").close()  # it has looked
    # then
    assert outside.read_text() == "untouched"
    assert not (placed / "down").is_file() or (placed / "down").stat().st_size == 0
    if held >= 0:
        os.close(held)


def test_files_that_are_no_streams_are_cleared_from_relay_and_others_serve_on(bus: Bus) -> None:
    relays = bus.home / "inboxes" / "coordinator" / "relay"
    target = bus.folder / "precious"
    target.mkdir()
    (target / "up").write_text("keep")
    (relays / "junk").write_text("x")
    (relays / "0123456789abcdef").symlink_to(target)
    # when
    relay = connect(str(bus.home), "")
    relay.close()
    # then
    assert (target / "up").read_text() == "keep"
    assert not (relays / "junk").exists()
    assert not os.path.lexists(relays / "0123456789abcdef")


def test_a_supervisor_that_goes_ends_the_stream_and_the_next_one_takes_up_another(bus: Bus) -> None:
    relay = connect(str(bus.home), "")
    relay.settimeout(WAIT_S)
    # when
    bus.kill_supervisor()
    # then
    assert relay.recv(100) == b""
    relay.close()
    bus.ok("up")
    again = RelayPeer(connect(str(bus.home), ""))
    assert again.hello("after")["agent"] == "after"
    assert FolderUser(bus, "coordinator").folder.exists()
    again.socket.close()
