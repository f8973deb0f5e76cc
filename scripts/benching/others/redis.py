"""Redis: SET with NX and a token; a script that compares the token and deletes gives it back. Appends are fsynced."""

import socket
from pathlib import Path

from scripts.benching.fixed_talk import FixedTalk
from scripts.benching.others.server import OwnServer, find, read_until

NAME = "Redis"
INSTALL = "apt-get install redis-server"
OPERATION = (
    "`SET lock-N token NX PX 60000`; `EVALSHA` of a script that deletes the key if it holds the token. "
    "`appendonly yes`, `appendfsync always`; a Unix socket, RESP"
)
RELEASE = b"if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"


def start(folder: Path) -> tuple[OwnServer, str]:
    """The server, not yet started, and its address. Raises NotInstalled."""
    program, path = find("redis-server", INSTALL), str(folder / "redis.sock")
    words = [
        program,
        *("--port", "0", "--unixsocket", path, "--dir", str(folder), "--daemonize", "no"),
        *("--appendonly", "yes", "--appendfsync", "always"),  # durable before it answers: what the bus promises too
        *("--save", ""),  # no snapshots beside the log: they would only cost
        *("--auto-aof-rewrite-percentage", "0"),  # no rewriting of the log in the middle of a round
    ]
    return OwnServer(words, folder / "redis.log", lambda: RedisTalk(path, 0)), path


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class RedisTalk(FixedTalk):
    """Args: address: of the Unix socket. number: of the client."""

    def __init__(self, address: str, number: int) -> None:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(10)
        sock.connect(address)
        sock.sendall(command(b"SCRIPT", b"LOAD", RELEASE))
        loaded = read_until(sock, lambda data: data.endswith(b"\r\n") and data.count(b"\r\n") == 2)
        digest, key, token = loaded.split(b"\r\n")[1], b"lock-%d" % number, b"token-%d" % number
        super().__init__(
            sock, command(b"SET", key, token, b"NX", b"PX", b"60000"), b"+OK\r\n",
            command(b"EVALSHA", digest, b"1", key, token), b":1\r\n",
        )  # fmt: skip
