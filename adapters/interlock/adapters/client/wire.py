"""A wire: one connection with a supervisor, lines out, frames in. It ends when the other end does, and tells so.

Wire ──▶ SocketStream            a connected Unix socket
     └─▶ RelayStream             files in an inbox folder, where a sandbox refuses the socket (relay_stream.py)
"""

import os
import socket
from collections import deque
from typing import Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from interlock.adapters.client.errors import BusUnavailable
from interlock.adapters.homes import home_root
from interlock.protocol.control import Answer, Welcome
from interlock.protocol.messages import FromBus

CHUNK_BYTES = 65_536
ANSWER_S = 10.0  # the bus answers within 2 s or says why not; what takes longer is no answer
SILENT = "the supervisor does not answer (stopped, or overloaded): see bus status, or its log"
Body = FromBus | Answer


class Frame(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """One line from the supervisor. `body` is read by `body_of`."""

    id: str = ""
    sender: str = ""
    at: str = ""
    body: msgspec.Raw = msgspec.Raw(b"")
    reply_to: str = ""
    text: str = ""
    notes: tuple[str, ...] = ()
    welcome: Welcome | None = None


class Away(BusUnavailable):
    """It was there a moment ago: whoever is started next can be asked."""


class Gone(Exception):
    """The other end closed the connection, or broke off."""


_frames = msgspec.json.Decoder(Frame)
_bodies = msgspec.json.Decoder(Body)


def body_of(frame: Frame) -> Body | None:
    """What a frame says; None where a newer supervisor says what this program does not know."""
    try:
        return _bodies.decode(frame.body)
    except msgspec.MsgspecError:
        return None


class Stream(Protocol):
    """Bytes to a supervisor and back. Both waits may be cancelled at any moment."""

    async def write(self, data: bytes) -> None:
        """Raises Gone. One task at a time."""

    async def read(self) -> bytes:
        """Some bytes. Raises Gone. One task at a time."""

    def close(self) -> None:
        """Close it, whatever its state; who waits for it hears so."""


class SocketStream:
    """Implements Stream. Not anyio's: a read that is cancelled as its data comes makes that one log a traceback."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected

    async def write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                try:
                    left = left[self._socket.send(left) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._socket)
        except (OSError, anyio.ClosedResourceError):
            raise Gone from None

    async def read(self) -> bytes:
        while True:
            try:
                chunk = self._socket.recv(CHUNK_BYTES)
            except BlockingIOError:
                try:
                    await anyio.wait_readable(self._socket)
                except (OSError, anyio.ClosedResourceError):
                    raise Gone from None
            except OSError:
                raise Gone from None
            else:
                if not chunk:
                    raise Gone
                return chunk

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
        self._socket.close()


class Wire:
    """One connection. `receive` may be cancelled at any moment: nothing that came is lost."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rest = b""
        self._lines: deque[bytes] = deque()

    async def send(self, value: object) -> None:
        """One line. Raises Gone. One task at a time."""
        await self._stream.write(value if isinstance(value, bytes) else line_of(value))

    async def receive(self) -> Frame:
        """The next frame. Raises Gone. One task at a time."""
        while not self._lines:
            await anyio.lowlevel.checkpoint()  # others have their turn, however much there is to read
            *lines, self._rest = (self._rest + await self._stream.read()).split(b"\n")
            self._lines.extend(line for line in lines if line)
        try:
            return _frames.decode(self._lines.popleft())
        except msgspec.MsgspecError:
            raise Gone("what listens there is no bus") from None

    def close(self) -> None:
        """Close it, whatever its state; who waits for it hears so."""
        self._stream.close()


def line_of(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def open_socket(root: str) -> socket.socket:
    """A connected socket. Args: root: of the home. Raises FileNotFoundError where nobody listens, else Failure."""
    from interlock.adapters.cli.connection import connect

    return connect(root)


async def open_wire(home: str, agent: str, *, start: bool) -> Wire:
    """Connect, and start a supervisor where none runs and one may be started.

    Args:
        home: as `--home`: "" for BUS_HOME, or the user's own.
        agent: the name that was given, or "": where only folders can be used, which one may be tried.
        start: whether that is wanted now.

    Raises:
        BusUnavailable: with the reason, and what to do.
    """
    from interlock.adapters.cli.options import Failure

    root = home_root(home)
    try:
        return Wire(await _open_stream(home, root, agent, start=start))
    except FileNotFoundError:
        raise Away(f"the supervisor for {root} is gone again: see its log, or bus up --foreground") from None
    except Failure as failure:
        raise BusUnavailable(str(failure)) from None


async def _open_stream(home: str, root: str, agent: str, *, start: bool) -> Stream:
    """By the socket, else through the folders, as the commands do. Raises FileNotFoundError, Failure."""
    from interlock.adapters.cli.connection import SocketRefused
    from interlock.adapters.cli.relay import shows_no_socket
    from interlock.adapters.client.relay_stream import open_relay

    try:
        return SocketStream(await anyio.to_thread.run_sync(open_socket, root))
    except SocketRefused:
        return await open_relay(root, agent)
    except FileNotFoundError:
        if shows_no_socket(root):
            return await open_relay(root, agent)
        if not start:
            raise BusUnavailable(f"no supervisor runs for {root}: bus up") from None
    await anyio.to_thread.run_sync(_start, home, abandon_on_cancel=True)
    return SocketStream(await anyio.to_thread.run_sync(open_socket, root))


def _start(home: str) -> None:
    from interlock.adapters.cli.starting import autostart
    from interlock.adapters.paths import find_home

    autostart(find_home(home))


def here() -> str:
    """The current directory; "" where it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""
