"""PostgreSQL: a durable row; INSERT ... ON CONFLICT DO NOTHING takes it, DELETE where it is ours gives it back."""

import os
import pwd
import shutil
import socket
import struct
import subprocess
from pathlib import Path

from scripts.benching.fixed_talk import FixedTalk
from scripts.benching.others.server import NotInstalled, OwnServer, find, read_until

NAME = "PostgreSQL"
INSTALL = "apt-get install postgresql"
OPERATION = (
    "`INSERT INTO lock … ON CONFLICT DO NOTHING`; `DELETE FROM lock WHERE name = … AND holder = …`; prepared, one "
    "connection a client, each its own transaction. `fsync` and `synchronous_commit` on; a Unix socket"
)
TAKE = b"INSERT INTO lock VALUES ($1, $2) ON CONFLICT DO NOTHING"
GIVE = b"DELETE FROM lock WHERE name = $1 AND holder = $2"
USER = "bench"  # within the database
SUPERUSER_RUNS_AS = ("postgres", "nobody")  # it refuses to run as root


def start(folder: Path) -> tuple[OwnServer, str]:
    """The server, not yet started, and its address. Raises NotInstalled."""
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: float(each.parent.name), reverse=True)
    program = find("postgres", INSTALL, newest)
    own = folder / "postgres"
    own.mkdir()
    user = None
    if os.geteuid() == 0:
        user = next((name for name in SUPERUSER_RUNS_AS if _is_known(name)), None)
        if user is None:
            raise NotInstalled(f"{INSTALL}; it does not run as root, and there is no user postgres or nobody")
        shutil.chown(own, user)
        for above in (folder, folder.parent):  # the scratch folders: this user comes through them to its own
            above.chmod(0o711)
    made = subprocess.run(
        [str(Path(program).with_name("initdb")), "-D", str(own / "data"), "-U", USER, "-A", "trust", "-E", "UTF8"],
        user=user, cwd=own, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr.strip()}")
    options = {
        "listen_addresses": "",  # the Unix socket only: its fastest door
        "unix_socket_directories": str(own),
        "fsync": "on",
        "synchronous_commit": "on",  # durable before it answers
        "max_connections": "300",  # one each
    }
    words = [
        program,
        "-D",
        str(own / "data"),
        *(word for name in options for word in ("-c", f"{name}={options[name]}")),
    ]
    path = str(own / ".s.PGSQL.5432")
    log = own / "postgres.log"
    return OwnServer(words, log, lambda: create_table(path), user), path


def _is_known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">I", len(body) + 4) + body


def _is_ready(data: bytes) -> bool:
    if data[:1] == b"E":
        raise ConnectionError(data.decode(errors="replace"))
    return data.endswith(b"Z\0\0\0\5I")


def connect(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(path)
    start_up = struct.pack(">I", 196608) + b"user\0%s\0database\0postgres\0\0" % USER.encode()
    sock.sendall(struct.pack(">I", len(start_up) + 4) + start_up)
    read_until(sock, _is_ready)
    return sock


def create_table(path: str) -> None:
    with connect(path) as sock:
        sock.sendall(message(b"Q", b"CREATE TABLE IF NOT EXISTS lock (name text PRIMARY KEY, holder text NOT NULL)\0"))
        read_until(sock, _is_ready)


class PostgresTalk(FixedTalk):
    """Args: address: of the Unix socket. number: of the client."""

    def __init__(self, address: str, number: int) -> None:
        sock = connect(address)
        for name, text in ((b"take", TAKE), (b"give", GIVE)):
            sock.sendall(message(b"P", name + b"\0" + text + b"\0\0\0") + message(b"S", b""))
            read_until(sock, _is_ready)
        values = (b"lock-%d" % number, b"holder-%d" % number)
        super().__init__(
            sock,
            _execute(b"take", *values),
            _executed(b"INSERT 0 1"),
            _execute(b"give", *values),
            _executed(b"DELETE 1"),
        )


def _execute(statement: bytes, *values: bytes) -> bytes:
    given = b"".join(struct.pack(">I", len(value)) + value for value in values)
    bind = b"\0" + statement + b"\0" + struct.pack(">HH", 0, len(values)) + given + struct.pack(">H", 0)
    return message(b"B", bind) + message(b"E", b"\0\0\0\0\0") + message(b"S", b"")


def _executed(tag: bytes) -> bytes:
    return message(b"2", b"") + message(b"C", tag + b"\0") + message(b"Z", b"I")
