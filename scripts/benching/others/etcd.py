"""etcd: a transaction creates the key under the client's lease if nobody has; another deletes it if it is ours.

It is spoken to over gRPC itself, not through its JSON gateway, which would cost it a second server's work. A request is
one HEADERS and one DATA frame of HTTP/2, whose bytes are the same each time but for the stream's number.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from scripts.benching.load import Wrong
from scripts.benching.others.server import OwnServer, find, free_port, read_until, tcp

NAME = "etcd"
INSTALL = "apt-get install etcd-server"
OPERATION = (
    "`Txn`: if the key's create revision is 0, put it under the client's lease; `Txn`: if its value is ours, delete "
    "it. "
    "Its own defaults, which fsync; gRPC over TCP"
)
DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW_MAX = (1 << 31) - 1 - 65535  # for all answers of a connection together: hours of them
LEASE_S = 3600
READY_CLIENT = 9_999  # its number is nobody else's: a client has a lease of its own


def start(folder: Path) -> tuple[OwnServer, str]:
    """The server, not yet started, and its address. Raises NotInstalled."""
    program, port, peers = find("etcd", INSTALL), free_port(), free_port()
    url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    words = [
        program,
        *("--name", "bench", "--data-dir", str(folder / "etcd"), "--log-level", "error", "--logger", "zap"),
        *("--listen-client-urls", url, "--advertise-client-urls", url),
        *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
        *("--initial-cluster", f"bench={peer_url}"),  # alone: no other member has to agree, which is in its favour
    ]
    return OwnServer(words, folder / "etcd.log", lambda: EtcdTalk(str(port), READY_CLIENT)), str(port)


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def message(number: int, body: bytes) -> bytes:
    """A field of a protobuf message that holds bytes or another message."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message, those that hold numbers or bytes."""
    at = 0

    def read() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = body[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(body):
        tag = read()
        if tag & 7 == 0:
            yield tag >> 3, read()
        else:
            length = read()
            yield tag >> 3, body[at : at + length]
            at += length


def _headers(path: str, port: str) -> bytes:
    """HPACK without its tables and without Huffman: the same bytes each time."""

    def text(value: str) -> bytes:
        return bytes([len(value)]) + value.encode()

    return (
        b"\x83\x86\x04" + text(path) + b"\x01" + text(f"127.0.0.1:{port}")
        + b"\x0f\x10" + text("application/grpc") + b"\x00" + text("te") + text("trailers")
    )  # fmt: skip


class EtcdTalk:
    """Args: address: its port. number: of the client."""

    def __init__(self, address: str, client: int) -> None:
        self.sock = tcp(int(address))
        self.pairs = 0
        key, value, lease = b"lock-%d" % client, b"holder-%d" % client, client + 1
        is_free = number(2, 1) + message(3, key) + number(5, 0)  # create revision = 0
        is_ours = number(2, 3) + message(3, key) + message(7, value)
        put = message(2, message(1, key) + message(2, value) + number(3, lease))
        delete = message(3, message(1, key))
        self._path = _headers("/etcdserverpb.KV/Txn", address)
        self._takes = self._request(message(1, is_free) + message(2, put))
        self._gives = self._request(message(1, is_ours) + message(2, delete))
        self._stream = 1
        self._holds = False
        self._heard = b""
        self._answer = b""
        self.sock.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(WINDOW, 0, 0, struct.pack(">I", WINDOW_MAX)))
        self._grant_lease(address, lease)

    def take(self) -> bytes:
        return self._send(self._takes)

    def hear(self, data: bytes) -> bytes:
        self._heard += data
        out = b""
        for kind, flags, stream, body in self._frames():
            if kind in {SETTINGS, PING} and not flags & ACK:
                out += frame(kind, ACK, 0, body if kind == PING else b"")
            elif kind == GOAWAY:
                raise Wrong(f"etcd ends the connection: {body!r}")
            elif kind == DATA:
                self._answer += body
            elif kind == HEADERS and flags & END_STREAM and stream == self._stream:
                out += self._answered()
        return out

    def _answered(self) -> bytes:
        """A whole answer: did its comparison hold?"""
        body, self._answer = self._answer[5:], b""
        if (2, 1) not in list(fields(body)):
            raise Wrong(f"etcd did not succeed: {body!r}")
        self._holds = not self._holds
        self._stream += 2
        if self._holds:
            return self._send(self._gives)
        self.pairs += 1
        return self._send(self._takes)

    def _send(self, body: bytes) -> bytes:
        stream = self._stream
        return frame(HEADERS, END_HEADERS, stream, self._path) + frame(DATA, END_STREAM, stream, body)

    def _request(self, body: bytes) -> bytes:
        return b"\0" + struct.pack(">I", len(body)) + body

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        while len(self._heard) >= 9:
            length = int.from_bytes(self._heard[:3])
            if len(self._heard) < 9 + length:
                return
            kind, flags, stream = struct.unpack(">BBI", self._heard[3:9])
            body, self._heard = self._heard[9 : 9 + length], self._heard[9 + length :]
            yield kind, flags, stream, body

    def _grant_lease(self, address: str, lease: int) -> None:
        """Once, before anything is measured. A lease that is there already (a second try) is as good."""
        body = self._request(number(1, LEASE_S) + number(2, lease))
        headers = _headers("/etcdserverpb.Lease/LeaseGrant", address)
        self.sock.sendall(frame(HEADERS, END_HEADERS, 1, headers) + frame(DATA, END_STREAM, 1, body))
        ended = False
        while not ended:
            self._heard += read_until(self.sock, bool)
            for kind, flags, _, body in self._frames():
                if kind in {SETTINGS, PING} and not flags & ACK:
                    self.sock.sendall(frame(kind, ACK, 0, body if kind == PING else b""))
                ended = ended or (kind == HEADERS and bool(flags & END_STREAM))
        self._stream = 3
