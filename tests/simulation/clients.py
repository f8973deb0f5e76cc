"""Simulated agents and `bus run` wrappers: they speak over wires that delay and break, and send the same id again."""

import asyncio
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.protocol.identity import Identity

if TYPE_CHECKING:
    from tests.simulation.story import Story


class Wire(asyncio.Transport):
    """The supervisor's end of one connection, as its session sees it. What is on its way when it breaks is lost."""

    def __init__(self, delay_s: Callable[[], float], hear: Callable[[bytes], None]) -> None:
        super().__init__()
        self.broken = False
        self.broken_s = 0.0
        self._delay_s = delay_s
        self._hear = hear
        self._session: asyncio.Protocol | None = None
        self._there_s = self._back_s = 0.0

    def lead_to(self, session: asyncio.Protocol) -> None:
        self._session = session
        session.connection_made(self)

    def say(self, line: bytes) -> None:
        """From the client."""
        loop = asyncio.get_running_loop()
        self._there_s = max(self._there_s, loop.time() + self._delay_s())
        loop.call_at(self._there_s, self._arrive, line)

    def pause(self, until_s: float) -> None:
        """Its process is stopped until then: it says and hears nothing, and all of it at once when it goes on."""
        self._there_s = max(self._there_s, until_s)
        self._back_s = max(self._back_s, until_s)

    def cut(self) -> None:
        if not self.broken:
            self.broken, self.broken_s = True, asyncio.get_running_loop().time()
            if self._session is not None:
                asyncio.get_running_loop().call_soon(self._session.connection_lost, None)

    # --- what the session asks of its transport ------------------------------------------------
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.broken:
            loop = asyncio.get_running_loop()
            self._back_s = max(self._back_s, loop.time() + self._delay_s())
            loop.call_at(self._back_s, self._return, bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.broken

    def close(self) -> None:
        self.cut()

    def abort(self) -> None:
        self.cut()

    def _arrive(self, line: bytes) -> None:
        if not self.broken and self._session is not None:
            self._session.data_received(line)

    def _return(self, item: bytes) -> None:
        if not self.broken:
            self._hear(item)


class Agent:
    """One agent: its process or its session, if it binds one, its connection, and what it has asked and not been told.

    It is also the caller at the other end of its door (coordinator.effects.Caller).
    """

    follows = True

    def __init__(self, story: "Story", name: str, *, bound: bool, session: str = "") -> None:
        self.story = story
        self.name = name
        self.bound = bound
        self.session = session
        self.process: Identity | None = story.machine.spawn() if bound else None
        self.wire: Wire | None = None
        self.joined: Wire | None = None  # the last one over which it is known to have joined its session
        self.pending: dict[str, dict[str, Any]] = {}
        self.said: list[dict[str, Any]] = []
        self.silent = False
        self._numbers = itertools.count(1)
        self._buffer = b""

    # --- caller -----------------------------------------------------------------------------
    def ancestors(self) -> list[Identity]:
        return [self.process] if self.process is not None else []

    def binding(self, hosts: frozenset[str]) -> tuple[Identity, str] | None:
        return (self.process, f"claude (pid {self.process.pid})") if self.process is not None else None

    def itself(self) -> tuple[Identity, str] | None:
        return (self.process, f"python (pid {self.process.pid})") if self.process is not None else None

    def bind_to(self, pid: int) -> tuple[Identity, str] | None:
        return None

    def worktree(self, directory: str) -> str:
        return ""

    # --- the wire ---------------------------------------------------------------------------
    def connect(self) -> None:
        """Open a connection, say who one is, and ask again for whatever was not answered."""
        if (self.wire is not None and not self.wire.broken) or self.silent:
            return
        self._buffer = b""
        self.wire = self.story.connect(self)
        if self.wire is None:
            return
        self._line({"hello": {"agent": self.name}})
        if self.session:
            for id_ in [each for each, said in self.pending.items() if "session" in said.get("body", {})]:
                del self.pending[id_]
            join = {"type": "JOIN", "agent": self.name, "session": self.session}
            self.post(join, "supervisor")  # an answer that does not come is asked for at the next connection
        if self.follows:
            self._line({"to": "supervisor", "body": {"type": "WAIT", "resource": "*", "follow": True}})
        for envelope in list(self.pending.values()):
            self._line(envelope)

    def post(self, text: str | dict[str, Any], to: str = "coordinator", id_: str = "") -> str:
        """Send one message; unanswered, it is sent again over the next connection."""
        id_ = id_ or f"{self.name}-{next(self._numbers)}"
        envelope = {"to": to, "id": id_, **({"text": text} if isinstance(text, str) else {"body": text})}
        self.pending[id_] = envelope
        if "REQUEST" in str(text):
            self.story.truth.requests.add(id_)
        if to != "supervisor":
            self.said.append(envelope)
        self.story.log(f"{self.name} says {text!r} to {to} as {id_}")
        self.again(envelope)
        return id_

    def again(self, envelope: dict[str, Any]) -> None:
        self.connect()
        self._line(envelope)

    def _line(self, value: object) -> None:
        if self.wire is not None and not self.wire.broken:
            self.wire.say(msgspec.json.encode(value) + b"\n")

    def hear(self, data: bytes) -> None:
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            frame = msgspec.json.decode(line)
            if "body" in frame:
                self.heard(frame)

    def heard(self, frame: dict[str, Any]) -> None:
        body = frame["body"]
        self.story.log(f"{self.name} hears {frame.get('text') or body.get('type')} ({frame.get('reply_to', 'news')})")
        self.story.promises.told(self.name, body)
        if self.session and body.get("type") == "JOINED":
            self.joined = self.wire
        envelope = self.pending.pop(frame.get("reply_to", ""), None)
        if envelope is None:
            return
        if body.get("code") == "JOURNAL_UNAVAILABLE":
            self.story.truth.troubles.append(self.story.now_s())
            if self.story.chance.random() < 0.5:
                self.pending[envelope["id"]] = envelope
                asyncio.get_running_loop().call_later(1, self._once_more, envelope)
        elif body.get("type") != "REFUSED" and envelope["to"] != "supervisor":
            self.story.truth.answered.setdefault(self.name, []).append(self.story.now_s())

    def _once_more(self, envelope: dict[str, Any]) -> None:
        if envelope["id"] in self.pending:
            self.again(envelope)

    def die(self) -> None:
        """Its process ends, its connection with it; it asks for nothing again."""
        self.pending.clear()
        if self.wire is not None:
            self.wire.cut()
        if self.process is not None:
            self.story.truth.ended.add(self.name)
            self.story.machine.kill(self.process)
            self.process = None

    def rise(self) -> None:
        if self.bound and self.process is None:
            self.process = self.story.machine.spawn()


class Run(Agent):
    """One `bus run`: asks, starts its command under the fence it is granted, says when that has ended, and leaves."""

    follows = False

    def __init__(self, story: "Story", agent: str, number: int, key: str) -> None:
        super().__init__(story, agent, bound=False)
        self.process = story.machine.spawn()  # the wrapper: nothing binds to it, but its ticket lives with it
        self.key = key
        self.id = f"run-{number}"
        self.launch = f"run-{number}-cmd"
        self.state = "asking"
        self.post({"type": "REQUEST", "resource": key, "worktree": "/w/1", "purpose": "test", "run": True}, id_=self.id)

    def binding(self, hosts: frozenset[str]) -> tuple[Identity, str] | None:
        return None

    def connect(self) -> None:
        """Whoever comes back asks what has become of its ticket."""
        away = self.wire is None or self.wire.broken
        if away and self.state == "asking" and self.id not in self.pending and self.said:
            self.pending[self.id] = self.said[0]
        super().connect()

    def heard(self, frame: dict[str, Any]) -> None:
        super().heard(frame)
        body = frame["body"]
        if body.get("request_id", "") != self.id and frame.get("reply_to") not in {
            self.id,
            f"{self.id}-go",
            f"{self.id}-end",
        }:
            return
        match body.get("type"):
            case "GRANTED" if self.state == "asking" and self.story.chance.random() < 0.1:
                asyncio.get_running_loop().call_later(self.story.chance.uniform(8, 14), self._begin, body)  # it dawdles
            case "GRANTED" if self.state == "asking":
                self._begin(body)
            case "ADMITTED" if self.state == "granted":
                self._go()
            case "REFUSED" if body["code"] != "JOURNAL_UNAVAILABLE":
                self.finish()
            case "REFUSED" if frame["reply_to"] not in self.pending:
                self.finish()
            case "REVOKED":
                self.finish()
            case "RELEASED" if self.state == "ended":
                self.finish()

    def _begin(self, body: dict[str, Any]) -> None:
        if self.state != "asking":
            return
        self.state = "granted"
        tree = self.story.machine.keep(self.launch, "command", self.key, body.get("unit", ""), "/w/1", body["fence"])
        keeper = msgspec.to_builtins(tree.keeper)
        admit = {
            "type": "ADMIT",
            "holds": {self.key: body["fence"]},
            "launch": self.launch,
            "keeper": keeper,
            "command": "make",
        }
        self.post(admit, "supervisor", f"{self.id}-go")

    def _go(self) -> None:
        """On record: the command begins, under its keeper, and ends whatever becomes of wrapper and supervisor."""
        self.state = "running"
        tree = self.story.machine.trees[self.launch]
        self.story.machine.go(tree)
        ends_s = self.story.chance.choice([0.5, 5, 40])
        asyncio.get_running_loop().call_later(ends_s, self._ended)

    def _ended(self) -> None:
        tree = self.story.machine.trees[self.launch]
        if tree.keeper_lives:
            self.story.log(f"  the command {self.launch} ends")
            self.story.machine.end(tree)
        if self.process in self.story.machine.alive and self.state == "running":
            self.state = "ended"
            body = {"type": "ENDED", "launch": self.launch}
            self.post(body, "supervisor", f"{self.id}-end")

    def finish(self) -> None:
        """The wrapper ends; a keeper that was never told GO leaves with it."""
        self.state = "over"
        self.pending.clear()
        if self.wire is not None:
            self.wire.cut()
        tree = self.story.machine.trees.get(self.launch)
        if tree is not None and tree.keeper_lives and not tree.went:
            self.story.machine.end(tree)
        if self.process is not None:
            self.story.machine.kill(self.process)

    def die(self) -> None:
        self.finish()
