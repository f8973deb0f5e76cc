"""A raw peer of the socket door: bytes in, frames out, with nothing of the command between."""

import json
import socket
from typing import Any

from tests.polling import WAIT_S

Frame = dict[str, Any]


class Peer:
    """One raw connection. Args: path: of the socket."""

    def __init__(self, path: str, buffer_bytes: int = 0) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.socket.settimeout(WAIT_S)
        self.socket.connect(path)
        self._buffer = b""

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *lines: Frame | bytes) -> None:
        self.socket.sendall(
            b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in lines)
        )

    def receive(self) -> Frame:
        """The next frame; an empty one once the other end has closed."""
        while b"\n" not in self._buffer:
            chunk = self.socket.recv(65536)
            if not chunk:
                return {}
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        frame: Frame = json.loads(line)
        return frame

    def ask(self, **envelope: Any) -> Frame:
        """Send one envelope and take the next frame for its answer."""
        self.send({key.rstrip("_"): value for key, value in envelope.items()})
        return self.receive()

    def hello(self, agent: str, **more: Any) -> Frame:
        self.send({"hello": {"agent": agent, **more}})
        welcome: Frame = self.receive()["welcome"]
        return welcome


def body(frame: Frame) -> Frame:
    found: Frame = frame["body"]
    return found
