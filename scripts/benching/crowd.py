"""The crowd: thousands of agents in a process of its own, each with a connection, all in the queue of one resource.

grow N    until so many are connected and queued          hand N    so many hand-overs, each timed
"""

import selectors
import socket
import sys
import time
from dataclasses import dataclass, field

from scripts.benching.bus_talk import asks
from scripts.benching.handover_talk import FENCE, FOLLOW, KIND, RESOURCE
from scripts.benching.launching import answer
from scripts.benching.load import SILENCE_S_MAX, Wrong

AT_ONCE = 200  # joined together
LINES_TO_JOIN = 3  # a welcome, the answer to REQUEST, the answer to WAIT
REQUEST, RELEASE = asks(f"REQUEST {RESOURCE} - bench"), asks(f"RELEASE {RESOURCE}")


@dataclass(eq=False)
class Member:
    """One agent. Args: heard: its answers so far."""

    sock: socket.socket
    number: int
    heard: int = 0
    rest: bytes = b""
    lines: list[bytes] = field(default_factory=list)


class Crowd:
    """Args: path: of the bus's socket."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._selector = selectors.DefaultSelector()
        self._members: list[Member] = []
        self._holder: Member | None = None
        self._fence = 0

    def grow(self, size: int) -> tuple[int, float]:
        """Have so many, all but one of them waiting; returns how many are new, and the seconds that took."""
        begun, before = time.perf_counter(), len(self._members)
        while len(self._members) < size:
            new = [self._join(len(self._members) + n) for n in range(min(AT_ONCE, size - len(self._members)))]
            self._members += new
            waiting = set(new)
            while waiting:
                for member, line in self._heard():
                    member.heard += 1
                    if member.heard == LINES_TO_JOIN - 1:
                        member.sock.send(FOLLOW)  # it is answered with what is on record: not before REQUEST is
                    if b'"GRANTED"' in line:
                        self._granted(member, line)
                    if member.heard >= LINES_TO_JOIN:
                        waiting.discard(member)
        return len(self._members) - before, time.perf_counter() - begun

    def hand(self, times: int) -> list[float]:
        """RELEASE → the next one's GRANTED, in ms; who gave it back queues again, behind all others."""
        took = []
        for _ in range(times):
            before, self._holder = self._holder, None
            assert before is not None, "grow comes first"
            begun = time.perf_counter()
            before.sock.send(RELEASE)
            released = False
            while self._holder is None or not released:
                for member, line in self._heard():
                    if b'"GRANTED"' in line:
                        took.append((time.perf_counter() - begun) * 1000)
                        self._granted(member, line)
                    elif member is before and b'"RELEASED"' in line and b'"reply_to"' in line:
                        released = True
            before.sock.send(REQUEST)
            queued = False
            while not queued:
                queued = any(
                    member is before and b'"QUEUED"' in line and b'"reply_to"' in line
                    for member, line in list(self._heard())
                )
        return took

    def _join(self, number: int) -> Member:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(self._path)
        sock.sendall(b'{"hello":{"agent":"crowd%d","how":"bench"}}\n' % number + REQUEST)
        sock.setblocking(False)
        member = Member(sock, number)
        self._selector.register(sock, selectors.EVENT_READ, member)
        return member

    def _heard(self) -> list[tuple[Member, bytes]]:
        """What has come in since, line by line. Raises Wrong: a refusal, a closed connection, or silence."""
        ready = self._selector.select(SILENCE_S_MAX)
        if not ready:
            raise Wrong(f"nothing was heard for {SILENCE_S_MAX:.0f} s")
        lines = []
        for key, _ in ready:
            member: Member = key.data
            data = member.sock.recv(65536)
            if not data:
                raise Wrong(f"the bus closed the connection of agent {member.number}")
            *whole, member.rest = (member.rest + data).split(b"\n")
            for line in whole:
                found = KIND.search(line)
                if b'"welcome"' not in line and (found is None or found[1] not in {b"GRANTED", b"QUEUED", b"RELEASED"}):
                    raise Wrong(line.decode())
                lines.append((member, line))
        return lines

    def _granted(self, member: Member, line: bytes) -> None:
        fence = int((FENCE.search(line) or [b"", b"0"])[1])
        if fence == self._fence and member is self._holder:
            return  # the answer to WAIT says it again
        if fence <= self._fence or self._holder is not None:
            raise Wrong(f"agent {member.number} was granted under fence {fence} while another has it")
        self._holder, self._fence = member, fence


def serve_crowd(path: str) -> int:
    """The helper's side: lines `grow N` and `hand N`, until its input ends."""
    crowd = Crowd(path)
    answer(ready=True)
    try:
        for line in sys.stdin:
            verb, number = line.split()
            if verb == "grow":
                new, seconds = crowd.grow(int(number))
                answer(new=new, seconds=seconds)
            else:
                answer(took_ms=crowd.hand(int(number)))
    except (Wrong, OSError) as error:
        answer(failed=f"{type(error).__name__}: {error}")
        return 1
    return 0
