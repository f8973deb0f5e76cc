"""A session over a byte stream: lines in, lines out. Every stream door (socket now, others later) goes through here.

It is an asyncio protocol, fed by its transport, because that costs half of what a pair of reading and writing tasks
does, and a session is what every message passes (ADR 9). A peer's fault ends its session and nobody else's.
"""

import asyncio
import resource
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

import structlog

from interlock.coordinator.desk import Desk
from interlock.coordinator.effects import Caller
from interlock.coordinator.router import Router
from interlock.coordinator.session import Session
from interlock.coordinator.supervisor import Supervisor
from interlock.protocol.codes import Code
from interlock.protocol.envelope import BadEnvelope, Hello, decode_line
from interlock.protocol.limits import FRAME_BYTES_MAX
from interlock.protocol.messages import Refused

log = structlog.get_logger("session")
FILES_KEPT = 256  # for the journal, logs, keepers and their commands: connections may not use them up
SESSIONS_MIN = 16  # even then: without a single connection nobody could do anything about it
LINES_WAITING_MAX = 1_000  # then the other end is not read from until some are done


class Doorkeeper:
    """What the sessions of all stream doors share. Args: on_connect: called first for each session."""

    def __init__(
        self, supervisor: Supervisor, router: Router, desk: Desk, on_connect: Callable[[Session], None]
    ) -> None:
        self.supervisor = supervisor
        self.router = router
        self.desk = desk
        self.on_connect = on_connect
        self._files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def has_room(self) -> bool:
        """One more connection can be: it leaves what others need. Each process that is watched has an open file too."""
        sessions_max = self._files_max - FILES_KEPT - self.supervisor.watched()
        return len(self.supervisor.sessions) < max(SESSIONS_MIN, sessions_max)


class StreamSession(asyncio.Protocol):
    """One connection.

    Args:
        admit: says who is at the other end, or None: then it is closed at once.
        owner, claimed: as the session has them.
    """

    def __init__(
        self, keeper: Doorkeeper, admit: Callable[[asyncio.Transport], Caller | None], *, owner: str = "",
        claimed: bool = False,
    ) -> None:  # fmt: skip
        self._keeper = keeper
        self._admit = admit
        self._owner = owner
        self._claimed = claimed
        self._buffer = bytearray()
        self._lines: deque[bytes] = deque()
        self._busy = False  # a line is being answered that others must wait for
        self._ended = False  # the other end sends nothing more
        self._paused = False

    # --- what the transport says --------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are, but for their class
        caller = self._admit(self._transport)
        if caller is None or not self._keeper.has_room():
            self._transport.abort()
            return
        self._session = Session(caller, self, owner=self._owner, claimed=self._claimed)
        self._keeper.supervisor.sessions.add(self._session)
        self._keeper.on_connect(self._session)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            self._lines.append(bytes(self._buffer[:end]))
            del self._buffer[: end + 1]
        if len(self._buffer) > FRAME_BYTES_MAX:
            why = f"a line of more than {FRAME_BYTES_MAX} bytes: the session ends"
            self._refuse(Refused(Code.MESSAGE_TOO_LARGE, why))
            self._session.close()
        self._work()

    def eof_received(self) -> bool:
        """What was asked is still answered; then the connection is closed."""
        self._ended = True
        if self._buffer:
            self._lines.append(bytes(self._buffer))
            self._buffer.clear()
        self._work()
        self.idle()
        return True

    def resume_writing(self) -> None:
        self._session.taken()

    def connection_lost(self, error: Exception | None) -> None:
        if hasattr(self, "_session"):
            self._session.close()
            self._keeper.supervisor.forget(self._session)
            self._session.left()
        self._buffer.clear()  # not when the garbage is collected: that is seldom, and they can be large
        self._lines.clear()

    # --- lines --------------------------------------------------------------------------------
    def _work(self) -> None:
        """Take line after line, in order; one that takes a moment holds up the others of this session only."""
        while self._lines and not self._busy and not self._session.closed.is_set():
            line = self._lines.popleft()
            if line.strip():
                work = self._hear(line)
                if work is not None:
                    self._busy = True
                    self._keeper.supervisor.spawn(self._finish, work)
        too_many = len(self._lines) > LINES_WAITING_MAX
        if too_many and not self._paused:
            self._transport.pause_reading()
        elif self._paused and not too_many and not self._transport.is_closing():
            self._transport.resume_reading()
        self._paused = too_many

    def _hear(self, line: bytes) -> Awaitable[None] | None:
        try:
            said = decode_line(line)
        except BadEnvelope as error:
            self._refuse(error.refusal)
            return None
        try:
            if isinstance(said, Hello):
                self._session.push({"welcome": self._keeper.desk.welcome(self._session, said)})
                return None
            return self._keeper.router.hear(self._session, said)
        except Exception as error:  # our own fault: it ends this session, and is in the log
            log.error("session_failed", exc_info=error)
            self._session.close()
            return None

    async def _finish(self, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            self._busy = False
            self._work()
            self.idle()

    def _refuse(self, refusal: Refused) -> None:
        self._keeper.supervisor.say(self._session, "", refusal)

    # --- what the session says: coordinator.session.Door --------------------------------------
    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def backlog(self) -> int:
        return self._transport.get_write_buffer_size()

    def idle(self) -> None:
        """Where the other end sends nothing more, and has all its answers, the session is over."""
        if self._ended and not self._busy and not self._lines and self._session.is_idle():
            self._session.close()

    def close(self) -> None:
        if self.backlog() > FRAME_BYTES_MAX:
            self._transport.abort()  # it does not read: what it was told would never be flushed
        else:
            self._transport.close()
