"""A connection that is read until something is said; for rows in which few messages pass."""

import socket

from scripts.benching.bus_talk import REFUSED
from scripts.benching.load import Wrong

SILENCE_S_MAX = 60.0


class Reader:
    """Args: sock: connected, its hello is said."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(SILENCE_S_MAX)
        self._rest = b""

    def say(self, line: bytes) -> None:
        self.sock.sendall(line)

    def until(self, marker: bytes) -> bytes:
        """The first line with that in it. Raises Wrong: a refusal, a closed connection, or silence."""
        while True:
            line, found, rest = self._rest.partition(b"\n")
            if found:
                self._rest = rest
                if marker in line:
                    return line
                if REFUSED in line:
                    raise Wrong(line.decode())
                continue
            try:
                more = self.sock.recv(65536)
            except TimeoutError:
                raise Wrong(f"{marker!r} was not said within {SILENCE_S_MAX:.0f} s") from None
            if not more:
                raise Wrong("the bus closed the connection")
            self._rest += more
