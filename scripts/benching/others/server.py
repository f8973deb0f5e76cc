"""A server of other people: found, started in a folder of its own, and ended whatever happens. Nothing is installed."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

START_S_MAX = 20.0
END_S_MAX = 10.0


class NotInstalled(Exception):
    """The text says how to install it."""


class OwnServer:
    """Args: words: its command line. log: a file for what it says. user: whom it runs as, where not as us."""

    def __init__(self, words: Sequence[str], log: Path, is_up: Callable[[], object], user: str | None = None) -> None:
        self._words, self._log, self._is_up, self._user = words, log, is_up, user

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._log.parent, user=self._user,
                start_new_session=True,  # Ctrl-C is ours to hear
            )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            for pid in self.pids()[1:]:  # it cannot end them any more
                psutil.Process(pid).kill()
            self._process.kill()
            self._process.wait()

    def pids(self) -> list[int]:
        """Its process and all that came of it."""
        return [self._process.pid, *(each.pid for each in psutil.Process(self._process.pid).children(recursive=True))]

    def _wait(self) -> None:
        until = time.monotonic() + START_S_MAX
        while True:
            try:
                self._is_up()
                return
            except (OSError, ValueError) as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    said = self._log.read_text(errors="replace").strip().splitlines()[-1:]
                    raise RuntimeError(f"{self._words[0]} did not come up ({error}): {said}") from None
            time.sleep(0.05)


def find(program: str, install: str, folders: Sequence[Path] = ()) -> str:
    """The program's path: of these folders, of PATH, or beside this Python. Raises NotInstalled."""
    places = os.pathsep.join([*map(str, folders), os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
    found = shutil.which(program, path=places)
    if found is None:
        raise NotInstalled(install)
    return found


def free_port() -> int:
    """One that is free on 127.0.0.1 now."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def tcp(port: int) -> socket.socket:
    """A connection over loopback that waits for nothing before it sends."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_until(sock: socket.socket, is_whole: Callable[[bytes], bool]) -> bytes:
    """What comes until it is whole. Raises OSError where the other end closes."""
    data = b""
    while not is_whole(data):
        more = sock.recv(65536)
        if not more:
            raise ConnectionError(f"closed after {data[:200]!r}")
        data += more
    return data
