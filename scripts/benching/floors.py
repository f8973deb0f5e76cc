"""The floors: what nobody can go below. A server that does nothing but make durable, and the parts of that alone.

sync   one pwrite and one fdatasync of 256 bytes, in this process
echo   a line over a Unix socket and back, the same loop as the supervisor's, nothing written
both   a line, one fdatasync of 256 bytes, and back; lines that came in together share one: a group commit
bare   `python -c pass`, the whole process
"""

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, cast

from scripts.benching.launching import Helper, answer

LINE = b"x" * 120 + b"\n"
BLOCK = b"x" * 256
FILE_BYTES = 1 << 20


class SyncedFile:
    """A file of fixed length that is written over: no block is allocated, as in a log that is used again."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(self._fd, b"\0" * FILE_BYTES, 0)
        os.fsync(self._fd)
        self._at = 0

    def write(self) -> None:
        os.pwrite(self._fd, BLOCK, self._at)
        self._at = (self._at + len(BLOCK)) % FILE_BYTES
        (os.fdatasync if sys.platform == "linux" else os.fsync)(self._fd)


class Echo(asyncio.Protocol):
    """Answers each line, after `before` was called for all that came in together."""

    waiting: ClassVar[list[tuple[asyncio.Transport, bytes]]] = []  # of all connections, for the next fdatasync

    def __init__(self, file: SyncedFile | None) -> None:
        self._file = file

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._file is None:
            self._transport.write(data)
            return
        if not self.waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self.waiting.append((self._transport, data))

    def _flush(self) -> None:
        assert self._file is not None
        self._file.write()
        for transport, data in self.waiting:
            transport.write(data)
        self.waiting.clear()


def serve_floor(folder: str) -> int:
    """The helper's side: `echo.sock` and `both.sock` in that folder, until its input ends."""
    import uvloop

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        file = SyncedFile(f"{folder}/served.dat")
        servers = [  # kept: one that nobody has is closed as it is collected
            await loop.create_unix_server(lambda: Echo(None), f"{folder}/echo.sock"),
            await loop.create_unix_server(lambda: Echo(file), f"{folder}/both.sock"),
        ]
        answer(ready=True)
        ended = asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), ended.set)
        await ended.wait()
        for server in servers:
            server.close()

    uvloop.run(serve())
    return 0


class Floors:
    """The floor's server and a client of it. Args: folder: of the scratch, on the file system that is measured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Self:
        self._helper = Helper("floor", str(self.folder)).__enter__()
        self.pid = self._helper.pid
        self._sockets = {name: self._connect(name) for name in ("echo", "both")}
        self._file = SyncedFile(str(self.folder / "alone.dat"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sock in self._sockets.values():
            sock.close()
        self._helper.__exit__(kind, error, trace)

    def sync_ms(self) -> float:
        begun = time.perf_counter()
        self._file.write()
        return (time.perf_counter() - begun) * 1000

    def echo_ms(self) -> float:
        return self._exchange_ms("echo")

    def both_ms(self) -> float:
        return self._exchange_ms("both")

    def bare_ms(self) -> float:
        return process_ms([sys.executable, "-c", "pass"])

    def _exchange_ms(self, name: str) -> float:
        sock = self._sockets[name]
        begun = time.perf_counter()
        sock.send(LINE)
        data = sock.recv(4096)
        while len(data) < len(LINE):
            data += sock.recv(4096)
        return (time.perf_counter() - begun) * 1000

    def _connect(self, name: str) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(self.folder / f"{name}.sock"))
        return sock


def process_ms(words: list[str], environment: dict[str, str] | None = None) -> float:
    """A whole process, from its start to its end. Raises CalledProcessError."""
    begun = time.perf_counter()
    subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - begun) * 1000
