"""Folders that anybody writes to: files of every kind, names of every kind, exchanged while they are read.

Each that is a file the bus may look at must be answered or rejected: what stays after a while is a fault.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.parsers import POST, envelope
from tests.fuzz.parsers import line as text_line
from tests.fuzz.values import AGENTS, Garbage

from interlock.protocol.limits import POST_BYTES_MAX

WAIT_S = 60.0
SPARSE_BYTES = 8 * 1024**3
OUTSIDE = b"REQUEST machine/outside - nobody said this\n"
SINGLE = "".join(map(chr, range(1, 256))).replace("/", "")


class Post:
    """What lies in one folder. Args: folder: posts are put there. beside: made here first. seed: of everything."""

    def __init__(self, folder: Path, beside: Path, seed: str) -> None:
        self.folder = os.fsencode(folder)
        self.beside = os.fsencode(beside)
        self.garbage = Garbage(seed)
        self.posted = 0
        self.outside = self.beside + b"/outside"  # links lead there: nobody may read it in, or write to it
        _write(self.outside, OUTSIDE)

    def touched(self) -> bool:
        """Somebody has written through a link."""
        with open(self.outside, "rb") as file:
            return file.read() != OUTSIDE

    def name(self) -> bytes:
        """A file's name: anything the file system takes that no editor hides."""
        pick = self.garbage.random
        kind, mark = pick.randrange(8), f"{self.posted}".encode()
        if kind == 0:
            return mark + b"\n" + pick.choice((b"b", b"\xff\xfe", b"\x1b[2J"))
        if kind == 1:
            return mark + self.garbage.octets().translate(None, b"/\0")[:200]
        if kind == 2:
            return (mark + b"x" * 255)[:255]
        if kind == 3:
            return mark + pick.choice(AGENTS).encode() + b"--" + mark
        if kind == 4:
            return pick.choice(AGENTS).encode() + b"--" + mark
        return mark + b"".join(pick.choice((b"-", b".", b"--", b" ", b"%", b"$(x)", b"'", b"a")) for _ in range(3))

    def content(self) -> bytes:
        """A message, spoilt or not."""
        pick = self.garbage.random
        kind = pick.randrange(7)
        if kind == 0:
            return envelope(self.garbage)
        if kind == 1:
            return self.garbage.spoilt(POST)
        if kind == 2:
            return b"From: " + pick.choice(AGENTS).encode() + b"\n\n" + text_line(self.garbage) + b"\n"
        if kind == 3:
            return self.garbage.octets()
        if kind == 4:
            return b"\xef\xbb\xbf" * pick.randrange(3) + b"\n" * pick.choice((0, 1, 90_000)) + text_line(self.garbage)
        if kind == 5:
            return (
                json.dumps({"from": pick.choice(AGENTS), "text": self.garbage.text()}).encode() + self.garbage.octets()
            )
        return b"x" * pick.choice((0, POST_BYTES_MAX - 1, POST_BYTES_MAX, POST_BYTES_MAX + 1))

    def put(self) -> None:
        """One entry more."""
        self.posted += 1
        pick = self.garbage.random
        place, beside = self.folder + b"/" + self.name(), self.beside + b"/" + b"f%d" % self.posted
        kind = pick.choice(("file",) * 30 + tuple(ODD))
        with contextlib.suppress(OSError):  # a name that is too long here, a device that only root makes
            if kind == "file":
                _write(beside, self.content())
            else:
                ODD[kind](beside, self)
            os.rename(beside, place)
            if self.garbage.chance(0.05):  # exchanged while it is read
                _write(beside, self.content())
                os.rename(beside, place)
            elif self.garbage.chance(0.03):
                _cut_short(place, pick.choice((0, 7)))
            elif self.garbage.chance(0.02):
                os.unlink(place)

    def left(self) -> list[bytes]:
        """What has been neither taken in nor rejected."""
        return [name for name in os.listdir(self.folder) if not name.startswith(b".")]

    def drained(self) -> list[bytes]:
        """Wait until nothing is left. What is, all the same."""
        until_s = time.monotonic() + WAIT_S
        while (left := self.left()) and time.monotonic() < until_s:
            time.sleep(0.05)  # polls: a folder user has nothing else to wait for
        return left


def _write(path: bytes, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def _cut_short(path: bytes, size: int) -> None:
    """Never through a link: what it leads to is not ours."""
    file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.ftruncate(file, size)
    finally:
        os.close(file)


def _link(path: bytes, post: Post) -> None:
    os.symlink(post.garbage.random.choice((post.outside, b".", b"/no/such", b"/dev/zero", path)), path)


def _hard_link(path: bytes, post: Post) -> None:
    twin = path + b".twin"
    _write(twin, post.content())
    os.link(twin, path)


def _sparse(path: bytes, _: Post) -> None:
    _write(path, b"{")
    os.truncate(path, SPARSE_BYTES)


def _device(path: bytes, _: Post) -> None:
    os.mknod(path, 0o020600, os.makedev(1, 5))


def _full_directory(path: bytes, post: Post) -> None:
    os.mkdir(path)
    _write(path + b"/inner", post.content())


def _shut(path: bytes, post: Post) -> None:
    _write(path, post.content())
    os.chmod(path, 0)


def _socket(path: bytes, _: Post) -> None:
    os.mknod(path, 0o140600)


ODD: dict[str, Callable[[bytes, Post], None]] = {
    "link": _link,
    "hard link": _hard_link,
    "fifo": lambda path, _: os.mkfifo(path),
    "directory": lambda path, _: os.mkdir(path),
    "full directory": _full_directory,
    "sparse": _sparse,
    "device": _device,
    "socket": _socket,
    "shut": _shut,
}
