"""A session over a byte stream: lines in, lines out. Every stream door (socket now, others later) goes through here.

A peer's fault ends its session and nobody else's.
"""

from collections.abc import Callable

import anyio
import structlog
from anyio.abc import ByteStream

from interlock.coordinator.desk import Desk
from interlock.coordinator.effects import Caller
from interlock.coordinator.ids import new_id
from interlock.coordinator.router import Router
from interlock.coordinator.session import Session
from interlock.coordinator.supervisor import Supervisor
from interlock.protocol.codes import Code
from interlock.protocol.envelope import BadEnvelope, Hello, decode_line
from interlock.protocol.limits import ANSWER_MS_MAX, FRAME_BYTES_MAX
from interlock.protocol.messages import Refused

log = structlog.get_logger("session")
CHUNK_BYTES = 64 * 1024


class Doorkeeper:
    """Serves streams. One per bus, for all its stream doors. Args: on_connect: called first for each session."""

    def __init__(
        self, supervisor: Supervisor, router: Router, desk: Desk, on_connect: Callable[[Session], None]
    ) -> None:
        self._on_connect = on_connect
        self._supervisor = supervisor
        self._router = router
        self._desk = desk

    async def serve(self, stream: ByteStream, caller: Caller) -> None:
        """Serve one connection until either side closes it."""
        session = Session(caller)
        self._supervisor.sessions.add(session)
        try:
            self._on_connect(session)
            async with stream, anyio.create_task_group() as tasks:
                tasks.start_soon(self._cut, session, tasks.cancel_scope)
                async with anyio.create_task_group() as work:
                    work.start_soon(self._write, session, stream)
                    await self._read(session, stream)
                    with anyio.move_on_after(ANSWER_MS_MAX / 1000):
                        await session.settled()
                    session.close()
                tasks.cancel_scope.cancel()
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass  # The other end is gone: that is how most sessions end.
        except* Exception as group:
            log.error("session_failed", exc_info=group)
        finally:
            session.close()
            self._supervisor.forget(session)

    async def _read(self, session: Session, stream: ByteStream) -> None:
        buffer = bytearray()
        while not session.closed.is_set():
            try:
                buffer += await stream.receive(CHUNK_BYTES)
            except anyio.EndOfStream:
                break
            while (end := buffer.find(b"\n")) >= 0:
                line = bytes(buffer[:end])
                del buffer[: end + 1]
                if line.strip():
                    await self._line(session, line)
            if len(buffer) > FRAME_BYTES_MAX:
                why = f"a line of more than {FRAME_BYTES_MAX} bytes: the session ends"
                self._supervisor.say(session, new_id(), Refused(Code.MESSAGE_TOO_LARGE, why))
                return
        if buffer.strip():
            await self._line(session, bytes(buffer))

    async def _line(self, session: Session, line: bytes) -> None:
        try:
            said = decode_line(line)
        except BadEnvelope as error:
            self._supervisor.say(session, "", error.refusal)
            return
        if isinstance(said, Hello):
            session.push({"welcome": self._desk.welcome(session, said)})
        else:
            await self._router.hear(session, said)

    async def _cut(self, session: Session, serving: anyio.CancelScope) -> None:
        """A peer that lets too much pile up is not written to any more, or it could hold the session for ever."""
        await session.cut.wait()
        serving.cancel()

    async def _write(self, session: Session, stream: ByteStream) -> None:
        """Write what waits, until the session is closed and empty; then say so to the other end."""
        while (lines := await session.next_lines()) is not None:
            await stream.send(lines)
            session.written(len(lines))
        await stream.aclose()
