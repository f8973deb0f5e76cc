"""A command at a real terminal (a pty): what it prints there, and keys typed at the right moment."""

import contextlib
import fcntl
import os
import pty
import select
import selectors
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.end_to_end.playground import BUS, WAIT_S, Bus

PROGRAM = """import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])"""


class Seen(NamedTuple):
    """How a command ended, and what stood on the terminal."""

    code: int
    screen: str


class Terminal:
    """A command under way at a terminal. Args: rows, columns: how large the window is."""

    def __init__(
        self, bus: Bus, *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, agent: str = "",
        rows: int = 40, columns: int = 200,
    ) -> None:  # fmt: skip
        self._master, slave = pty.openpty()
        self.resize(rows, columns)
        environment = bus.environment_of(agent, {"TERM": "xterm-256color", **(env or {})})
        self.process = subprocess.Popen(
            ["python3", "-c", PROGRAM, str(BUS), *words], cwd=cwd or bus.folder, env=environment,
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.written = b""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)
        os.close(self._master)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def until(self, says: str, after: int = 0) -> int:
        """Read on until this is written, past so many bytes of all; where it ends."""
        end = time.monotonic() + WAIT_S
        while (at := self.written.find(says.encode(), after)) < 0:
            assert self._read(end - time.monotonic()), f"no {says!r} in {self.written[-2000:]!r}"
        return at + len(says.encode())

    def end(self) -> Seen:
        """Read on to its end."""
        end = time.monotonic() + WAIT_S
        while self._read(end - time.monotonic()):
            pass
        return Seen(self.process.wait(WAIT_S), self.written.decode(errors="replace").replace("\r\n", "\n"))

    def _read(self, within_s: float) -> bool:
        """Take what is written next; False where nothing comes any more."""
        with contextlib.suppress(OSError):  # a pty says EIO once nobody has it open any more
            if select.select([self._master], [], [], max(0.0, within_s))[0]:
                chunk = os.read(self._master, 65536)
                self.written += chunk
                return bool(chunk)
        return False


def at_terminal(
    bus: Bus, *words: str, keys: bytes = b"", when: str = "", env: Mapping[str, str] | None = None,
    cwd: Path | None = None, agent: str = "", then: Sequence[tuple[str, bytes]] = (),
) -> Seen:  # fmt: skip
    """Run `bus` as a terminal's program. Args: keys: typed once `when` stands on the screen. then: and what follows."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x28\x00\xc8\x00\x00\x00\x00\x00")  # 40 rows of 200 columns
    environment = bus.environment_of(agent, {"TERM": "xterm-256color", **(env or {})})
    process = subprocess.Popen(
        ["python3", "-c", PROGRAM, str(BUS), *words], cwd=cwd or bus.folder, env=environment,
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    to_type = [*([(when, keys)] if keys else []), *then]
    screen, end = b"", time.monotonic() + WAIT_S
    with selectors.DefaultSelector() as selector:
        selector.register(master, selectors.EVENT_READ)
        with contextlib.suppress(OSError):  # a pty says EIO once nobody has it open any more
            while selector.select(max(0.0, end - time.monotonic())):
                chunk = os.read(master, 65536)
                if not chunk:
                    break
                screen += chunk
                if to_type and to_type[0][0].encode() in screen:
                    os.write(master, to_type.pop(0)[1])
    if time.monotonic() >= end:
        process.kill()
    process.wait(WAIT_S)
    os.close(master)
    return Seen(process.returncode, screen.decode(errors="replace").replace("\r\n", "\n"))
