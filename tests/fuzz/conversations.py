"""Conversations that nobody should have: many connections at once, each saying what it likes, as it likes.

made from a seed ──▶ sent in pieces, interleaved with others ──▶ every line that must be answered is
"""

import random
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.fuzz.frames import BadAnswer, Wanted, check, make, wanted
from tests.fuzz.values import AGENTS, Garbage, printable

from interlock.adapters.cli.relay import Relay
from interlock.protocol.limits import FRAME_BYTES_MAX

TOGETHER = 8  # connections at once
WAIT_S = 30.0  # for answers that must come
LINES = 25  # of an ordinary conversation
STYLES = ("lines",) * 14 + ("drip", "half closed", "cut off", "never reads", "endless line", "raw")


class Talk(NamedTuple):
    """What one connection says. Args: style: how. lines: what, for a report. wants: what must come back."""

    name: str
    style: str
    data: bytes
    lines: list[bytes]
    wants: list[tuple[Wanted, bytes]]


def talk(seed: str, number: int) -> Talk:
    """Conversation `number` of a seed, always the same one."""
    garbage = Garbage(f"{seed}/talk/{number}")
    style = garbage.random.choice(STYLES)
    if style == "endless line":
        data = b'{"to": "' + b"x" * (FRAME_BYTES_MAX + 5)
        return Talk(f"{number}", style, data, [data], [(Wanted("unread"), data)])
    if style == "raw":
        lines = [garbage.octets().replace(b"\n", b"?") for _ in range(LINES)]
    else:
        count = {"drip": 3, "never reads": 400}.get(style, LINES)
        agent = garbage.random.choice(AGENTS)
        lines = [make(garbage, number * 1_000 + each, agent) for each in range(count)]
    wants = [(want, line) for line in lines if (want := wanted(line)) is not None]
    data = b"".join(line + b"\n" for line in lines)
    if style == "half closed" and lines:
        data = data[:-1]  # the last line is ended by the end of what is said
    return Talk(f"{number}", style, data, lines, [] if style in {"never reads", "cut off"} else wants)


class Connection:
    """One of them on its way. Args: door: what it is said to."""

    def __init__(self, talk: Talk, door: Any, at: random.Random) -> None:
        self.talk = talk
        self.socket = door
        self.faults: list[str] = []
        self.is_over = False
        self._at = at
        self._unsent = memoryview(talk.data)
        self._came = b""
        self._ids: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._until_s = time.monotonic() + WAIT_S
        self._has_shut = False

    def say(self) -> None:
        """Send a piece."""
        if not self._unsent:
            self._all_said()
            return
        size = (
            (1 + len(self.talk.data) // 4_000)
            if self.talk.style == "drip"
            else self._at.choice((7, 300, 5_000, 200_000))
        )
        try:
            sent = self.socket.send(self._unsent[:size])
        except BlockingIOError:
            if self.talk.style == "never reads":  # the bus reads no more of it either: as it should
                self.is_over = True
            return
        except OSError:
            self._unsent = self._unsent[:0]
            return
        self._unsent = self._unsent[sent:]
        self._until_s = time.monotonic() + WAIT_S

    def hear(self) -> None:
        """Take what has come."""
        try:
            data = self.socket.recv(262_144)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        self._until_s = time.monotonic() + WAIT_S
        *frames, self._came = (self._came + data).split(b"\n")
        for frame in frames:
            self._take(frame)

    def reads(self) -> bool:
        return self.talk.style != "never reads"

    def has_more(self) -> bool:
        """There is something left to say."""
        return bool(self._unsent)

    def missing(self) -> list[tuple[Wanted, bytes]]:
        """What must still come."""
        given = Counter(self._kinds)
        anonymous = sum(count for id_, count in self._ids.items() if id_ not in self._named())
        missing = []
        for want, line in self.talk.wants:
            if want.id:
                if not self._ids[want.id]:
                    missing.append((want, line))
            elif want.how == "reply":
                anonymous -= 1
                if anonymous < 0:
                    missing.append((want, line))
            else:
                given[want.how] -= 1
                if given[want.how] < 0:
                    missing.append((want, line))
        return missing

    def look(self) -> None:
        """Is it over?"""
        if self.is_over or self._unsent:
            if time.monotonic() > self._until_s and not self.is_over:
                self._end()
            return
        if self.talk.style == "half closed" and self.socket.fileno() >= 0:  # the bus ends it
            if time.monotonic() > self._until_s:
                self._end()
        elif not self.talk.wants or not self.missing() or time.monotonic() > self._until_s:
            self._end()

    def _named(self) -> set[str]:
        return {want.id for want, _ in self.talk.wants if want.id}

    def _all_said(self) -> None:
        if self.talk.style == "cut off":
            self._end()
        elif self.talk.style == "half closed" and not self._has_shut:
            self._has_shut = True
            self.socket.shutdown(socket.SHUT_WR)

    def _take(self, frame: bytes) -> None:
        try:
            kind, answers = check(frame)
        except BadAnswer as error:
            self.faults.append(f"{error} - to one of {self._culprits(frame)}")
            return
        self._kinds[kind] += 1
        if kind == "reply":
            self._ids[answers] += 1

    def _culprits(self, frame: bytes) -> str:
        close = [line for want, line in self.talk.wants if want.id and want.id.encode() in frame]
        return ", ".join(printable(line) for line in close[:1] or self.talk.lines[:2])

    def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.socket.close()
            for want, line in self.missing()[:1]:
                self.faults.append(f"not answered ({want.how} {want.id!r}): {printable(line)}")


class Files:
    """A stream over files, as `Connection` wants a socket. Args: relay: the client's end of it."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._is_open = True

    def setblocking(self, blocks: bool) -> None:
        pass

    def fileno(self) -> int:
        return -1  # nothing tells when there is something to read

    def send(self, data: memoryview) -> int:
        self._relay.sendall(bytes(data))
        return len(data)

    def recv(self, size: int) -> bytes:
        data = self._relay.read(size)
        if data is None:
            raise BlockingIOError
        return data

    def shutdown(self, how: int) -> None:
        """It has no half of its own: what has no newline yet gets one."""
        self._relay.sendall(b"\n")

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._relay.close()


def sweep(open_door: Callable[[], Any], seed: str, first: int, talks: int) -> Iterator[tuple[int, list[str]]]:
    """Have so many conversations, some at once. Yields, for each that is over, its inputs and its faults."""
    at, number = random.Random(f"{seed}/order"), first
    under_way: list[Connection] = []
    with selectors.DefaultSelector() as selector:
        while number < first + talks or under_way:
            while len(under_way) < TOGETHER and number < first + talks:
                door = open_door()
                door.setblocking(False)
                made = Connection(talk(seed, number), door, at)
                under_way.append(made)
                if made.reads() and door.fileno() >= 0:
                    selector.register(door, selectors.EVENT_READ, made)
                number += 1
            at.shuffle(under_way)
            for each in under_way:
                each.say()
            busy = any(each.has_more() for each in under_way)
            for key, _ in selector.select(0 if busy else 0.01):
                if not key.data.is_over:
                    key.data.hear()
            for each in list(under_way):
                if each.reads() and not each.is_over and each.socket.fileno() < 0:
                    each.hear()
                each.look()
                if each.is_over:
                    _unregister(selector, each)
                    each.socket.close()
                    under_way.remove(each)
                    about = f"conversation {each.talk.name} ({each.talk.style})"
                    yield len(each.talk.lines), [f"{about}: {fault}" for fault in each.faults]


def _unregister(selector: selectors.BaseSelector, connection: Connection) -> None:
    """Its descriptor may be closed by now: it is found by what it was registered with."""
    for key in list(selector.get_map().values()):
        if key.data is connection:
            selector.unregister(key.fileobj)
