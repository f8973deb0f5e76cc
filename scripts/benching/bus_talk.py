"""A client of the bus: REQUEST, GRANTED, RELEASE, RELEASED, as the lines of the socket."""

import socket

from scripts.benching.load import Wrong


def connect(path: str, agent: str) -> socket.socket:
    """A connection that speaks for an agent, from its hello on."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    sock.sendall(b'{"hello":{"agent":"%s","how":"bench"}}\n' % agent.encode())
    welcome = read_line(sock)
    if b'"welcome"' not in welcome:
        raise Wrong(welcome.decode())
    return sock


def read_line(sock: socket.socket) -> bytes:
    """One line, where no more than one is under way."""
    data = b""
    while not data.endswith(b"\n"):
        more = sock.recv(65536)
        if not more:
            raise Wrong("the bus closed the connection")
        data += more
    return data


def says(kind: str, resource: str) -> bytes:
    """What stands in a frame of that kind about that resource."""
    return f'"body":{{"type":"{kind}","resource":"{resource}"'.encode()


def asks(text: str) -> bytes:
    """A message to the coordinator, as a line."""
    return b'{"to":"coordinator","text":"%s"}\n' % text.encode()


REFUSED = b'"body":{"type":"REFUSED"'


class BusTalk:
    """Args: path: of the socket. agent: who takes. resource: what is taken, a full key."""

    def __init__(self, path: str, agent: str, resource: str) -> None:
        self.sock = connect(path, agent)
        self.pairs = 0
        self._request, self._release = asks(f"REQUEST {resource} - bench"), asks(f"RELEASE {resource}")
        self._granted, self._released = says("GRANTED", resource), says("RELEASED", resource)
        self._holds = False
        self._heard = b""
        self.sock.sendall(self._request)  # joins, and makes the resource known: that is not what is measured
        self.hear(read_line(self.sock))
        self.sock.sendall(self._release)
        self.hear(read_line(self.sock))
        self.pairs = 0

    def take(self) -> bytes:
        return self._request

    def give(self) -> bytes:
        return self._release

    def hear(self, data: bytes) -> bytes:
        if self._heard:
            data = self._heard + data
        if data[-1] != 10:
            self._heard = data
            return b""
        self._heard = b""
        if (self._released if self._holds else self._granted) not in data or data.count(b"\n") != 1:
            raise Wrong(data.decode())
        self._holds = not self._holds
        if self._holds:
            return self._release
        self.pairs += 1
        return self._request
