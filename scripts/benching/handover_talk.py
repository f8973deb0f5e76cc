"""A client of the bus that wants the one lock that all want: it waits, is told, gives back, and queues again."""

import re
from collections import Counter

from scripts.benching.bus_talk import asks, connect
from scripts.benching.load import Wrong

RESOURCE = "machine/one"
FOLLOW = b'{"to":"supervisor","body":{"type":"WAIT","resource":"%s","follow":true}}\n' % RESOURCE.encode()
KIND = re.compile(rb'"body":\{"type":"([A-Z ?]+)"')
FENCE = re.compile(rb'"fence":(\d+)')


class Turns:
    """What all of them know together: nobody is granted while another has it, and every fence is greater."""

    def __init__(self, tally: Counter[str]) -> None:
        self.tally = tally
        self.holder = ""
        self.fence = 0

    def granted(self, agent: str, fence: int) -> None:
        if self.holder or fence <= self.fence:
            raise Wrong(f"{agent} was granted under fence {fence}, while {self.holder!r} has it under {self.fence}")
        self.holder, self.fence = agent, fence

    def given_back(self) -> None:
        self.holder = ""


class HandoverTalk:
    """Args: path: of the socket. agent: who waits. turns: shared by all."""

    def __init__(self, path: str, agent: str, turns: Turns) -> None:
        self.sock = connect(path, agent)
        self.pairs = 0
        self._agent = agent
        self._turns = turns
        self._request, self._release = asks(f"REQUEST {RESOURCE} - bench"), asks(f"RELEASE {RESOURCE}")
        self._fence = 0
        self._holds = False
        self._follows = False
        self._heard = b""

    def take(self) -> bytes:
        return self._request

    def hear(self, data: bytes) -> bytes:
        *lines, self._heard = (self._heard + data).split(b"\n")
        return b"".join(self._line(line) for line in lines)

    def _line(self, line: bytes) -> bytes:
        found = KIND.search(line)
        kind = found[1] if found else b""
        pushed = b'"reply_to"' not in line
        if pushed:
            self._turns.tally[f"{kind.decode()} pushed"] += 1
        if kind == b"GRANTED":
            return self._granted(line)
        if kind == b"RELEASED":
            return b"" if pushed else self._released()
        if kind != b"QUEUED":
            raise Wrong(line.decode())
        if self._follows:
            return b""
        self._follows = True  # WAIT is answered with what is on record: not before REQUEST is
        return FOLLOW

    def _granted(self, line: bytes) -> bytes:
        fence = int((FENCE.search(line) or [b"", b"0"])[1])
        if fence == self._fence:  # told twice: as the answer and as what WAIT found
            return b""
        self._turns.granted(self._agent, fence)
        self._turns.tally["grants"] += 1
        self._fence, self._holds = fence, True
        self._turns.given_back()  # from the moment RELEASE is under way another may have it
        return self._release

    def _released(self) -> bytes:
        if not self._holds:
            raise Wrong(f"{self._agent} was told RELEASED and had nothing")
        self._holds = False
        self.pairs += 1
        return self._request
