"""A client whose requests and answers are the same bytes each time: a server that gives no numbers."""

import socket

from scripts.benching.floors import LINE
from scripts.benching.load import Wrong


class FixedTalk:
    """Args: sock: ready for `take`. taken, given: the whole answers, byte for byte."""

    def __init__(self, sock: socket.socket, take: bytes, taken: bytes, give: bytes, given: bytes) -> None:
        self.sock = sock
        self.pairs = 0
        self._take, self._taken, self._give, self._given = take, taken, give, given
        self._holds = False
        self._heard = b""

    def take(self) -> bytes:
        return self._take

    def hear(self, data: bytes) -> bytes:
        expected = self._given if self._holds else self._taken
        self._heard += data
        if self._heard != expected:
            if not expected.startswith(self._heard):
                raise Wrong(repr(self._heard[:200]))
            return b""
        self._heard = b""
        self._holds = not self._holds
        if self._holds:
            return self._give
        self.pairs += 1
        return self._take


class FloorTalk(FixedTalk):
    """Two lines to the floor's server and back, each durable. Args: path: of its socket."""

    def __init__(self, path: str) -> None:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        super().__init__(sock, LINE, LINE, LINE, LINE)
