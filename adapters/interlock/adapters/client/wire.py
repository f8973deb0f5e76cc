"""A wire: one connection with a supervisor, lines out, frames in. It ends when the other end does, and tells so.

`open_socket` is where another way to the supervisor would be plugged in: whatever gives a connected stream socket.
"""

import os
import socket
from collections import deque

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


class Wire:
    """One connection. `receive` may be cancelled at any moment: nothing that came is lost."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = (
            connected  # not anyio's stream: a read cancelled as its data comes makes that one log a traceback
        )
        self._rest = b""
        self._lines: deque[bytes] = deque()

    async def send(self, value: object) -> None:
        """One line. Raises Gone. One task at a time."""
        left = memoryview(value if isinstance(value, bytes) else line_of(value))
        try:
            while left:
                try:
                    left = left[self._socket.send(left) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._socket)
        except (OSError, anyio.ClosedResourceError):
            raise Gone from None

    async def receive(self) -> Frame:
        """The next frame. Raises Gone. One task at a time."""
        while not self._lines:
            *lines, self._rest = (self._rest + await self._chunk()).split(b"\n")
            self._lines.extend(line for line in lines if line)
        try:
            return _frames.decode(self._lines.popleft())
        except msgspec.MsgspecError:
            raise Gone("what listens there is no bus") from None

    def close(self) -> None:
        """Close it, whatever its state; who waits for it hears so."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
        self._socket.close()

    async def _chunk(self) -> bytes:
        while True:
            await anyio.lowlevel.checkpoint()  # others have their turn, however much there is to read
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


def line_of(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def open_socket(root: str) -> socket.socket:
    """A connected socket. Args: root: of the home. Raises FileNotFoundError where nobody listens, else Failure."""
    from interlock.adapters.cli.connection import connect

    return connect(root)


async def open_wire(home: str, *, start: bool) -> Wire:
    """Connect, and start a supervisor where none runs and one may be started.

    Args:
        home: as `--home`: "" for BUS_HOME, or the user's own.
        start: whether that is wanted now.

    Raises:
        BusUnavailable: with the reason, and what to do.
    """
    from interlock.adapters.cli.options import Failure

    root = home_root(home)
    try:
        try:
            connected = await anyio.to_thread.run_sync(open_socket, root)
        except FileNotFoundError:
            if not start:
                raise BusUnavailable(f"no supervisor runs for {root}: bus up") from None
            await anyio.to_thread.run_sync(_start, home, abandon_on_cancel=True)
            connected = await anyio.to_thread.run_sync(open_socket, root)
    except FileNotFoundError:
        raise Away(f"the supervisor for {root} is gone again: see its log, or bus up --foreground") from None
    except Failure as failure:
        raise BusUnavailable(str(failure)) from None
    return Wire(connected)


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
