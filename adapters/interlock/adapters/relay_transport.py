"""The relay transport: two files as the transport of a session, so that no line of the protocol is written twice."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import NamedTuple

from interlock.adapters.record_lock import holder
from interlock.protocol.limits import RELAY_BYTES_MAX

CHUNK_BYTES = 65_536
CHUNKS_A_TURN = 4  # then others have their turn
BEHIND_BYTES = 65_536  # so far behind a reader is slow, and is looked at for what it has read


class Ends(NamedTuple):
    """Open descriptors: what the client says, what it is told, how far it has read. pid: the client's, or 0."""

    up: int
    down: int
    read: int
    pid: int


class RelayTransport(asyncio.Transport):
    """One stream. Args: ended: called once, after its files are closed. slow: called when its reader falls behind."""

    def __init__(
        self, ends: Ends, protocol: asyncio.Protocol, ended: Callable[[], None], slow: Callable[[], None]
    ) -> None:
        super().__init__()
        self._ends = ends
        self._protocol = protocol
        self._ended = ended
        self._slow = slow
        self._heard = 0  # bytes of `up`
        self._said = 0  # bytes of `down`
        self._taken = 0  # of those, what the client has read, as far as was looked
        self._paused = False
        self._at_end = False
        self._closing = False

    def start(self) -> None:
        """Say that the session is taken up, by an empty line, and begin."""
        os.write(self._ends.down, b"\n")
        self._protocol.connection_made(self)
        self.poll()

    def poll(self) -> None:
        """Take what the client has said since, and see whether it lives."""
        if self._closing:
            return
        gone = holder(self._ends.up) is None  # looked at first: what it said before is all there
        for _ in range(CHUNKS_A_TURN):
            if self._closing or self._paused:
                break
            chunk = os.pread(self._ends.up, CHUNK_BYTES, self._heard)
            if not chunk:
                if gone and not self._at_end:
                    self._at_end = True
                    self._protocol.eof_received()
                break
            self._heard += len(chunk)
            self._protocol.data_received(chunk)
        else:
            asyncio.get_running_loop().call_soon(self.poll)
        if not self._closing and self._heard > RELAY_BYTES_MAX:
            self.abort()
        elif not self._closing and self.is_slow():
            self._look_what_is_taken()

    def is_slow(self) -> bool:
        """Its reader has not taken all that it was told, as far as was looked."""
        return self._said - self._taken > BEHIND_BYTES

    # --- asyncio.Transport --------------------------------------------------------------------
    def write(self, data: "bytes | bytearray | memoryview[int]") -> None:
        if self._closing:
            return
        if self._said + len(data) > RELAY_BYTES_MAX:
            self.abort()  # the client opens another stream, and goes on from its cursor
            return
        try:
            rest = bytes(data)
            while rest:
                rest = rest[os.write(self._ends.down, rest) :]
        except OSError:  # no room, or a limit: what it was told is not whole
            self.abort()
            return
        self._said += len(data)
        if self.is_slow():
            self._look_what_is_taken()
            self._slow()

    def get_write_buffer_size(self) -> int:
        return self._said - self._taken if self.is_slow() else 0

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            asyncio.get_running_loop().call_soon(self.poll)

    def is_reading(self) -> bool:
        return not self._paused

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._end)

    def abort(self) -> None:
        self.close()

    def _end(self) -> None:
        for fd in self._ends[:3]:
            os.close(fd)
        self._ended()
        self._protocol.connection_lost(None)

    def _look_what_is_taken(self) -> None:
        before = self._taken
        with contextlib.suppress(ValueError, OSError):
            self._taken = min(max(int(os.pread(self._ends.read, 20, 0) or b"0"), before), self._said)
        if self._taken > before:
            self._protocol.resume_writing()
