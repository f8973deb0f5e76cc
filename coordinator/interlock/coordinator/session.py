"""A session: one connection of one caller, as the coordinator sees it. Bounded: who does not read is let go."""

from collections import deque
from typing import Any

import anyio
import msgspec

from interlock.coordinator.effects import Caller
from interlock.protocol.answers import format_answer
from interlock.protocol.codes import Code, Exit, exit_code
from interlock.protocol.envelope import encode_line
from interlock.protocol.limits import FRAME_BYTES_MAX
from interlock.protocol.messages import Down, FromBus, Queued, Refused
from interlock.protocol.names import COORDINATOR

UNREAD_BYTES_MAX = 4 * FRAME_BYTES_MAX  # what may wait for a reader that is slow


class Frame(msgspec.Struct, frozen=True, omit_defaults=True, rename={"sender": "from"}):
    """What goes out: an envelope, with the exit code for a command and lines for its stderr."""

    id: str
    sender: str
    to: str
    at: str
    body: Any
    reply_to: str = ""
    text: str = ""
    exit: int = 0
    notes: tuple[str, ...] = ()


class Session:
    """Args: caller: what the door can prove of the other end."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.agent = ""
        self.how = ""
        self.nobody = Refused(Code.BAD_MESSAGE, "name the sender: --as NAME, or from in the envelope")
        self.incarnation = 0
        self.worktree = ""
        self.following: set[str] = set()  # resource keys whose news it wants at once
        self.notes: list[str] = []  # for the next answer
        self.closed = anyio.Event()
        self._out: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._ready = anyio.Event()
        self._taken = anyio.Event()
        self.cut = anyio.Event()  # too much waits for it: nothing more is written
        self.reads_log = False
        self._unanswered: set[str] = set()
        self._settled = anyio.Event()

    def push(self, frame: object) -> None:
        """Queue one line for the writer. A reader that lets too much pile up is cut off, so that nobody else pays."""
        line = encode_line(frame)
        self._waiting_bytes += len(line)
        if self._waiting_bytes > UNREAD_BYTES_MAX:
            self.cut.set()
            self.close()
            return
        self._out.append(line)
        self._ready.set()

    async def next_lines(self) -> bytes | None:
        """All that waits to be written; None once the session is closed and empty."""
        while not self._out:
            if self.closed.is_set():
                return None
            self._ready = anyio.Event()
            await self._ready.wait()
        lines = b"".join(self._out)
        self._out.clear()
        return lines

    async def drained(self, to_bytes: int) -> None:
        """Wait until the other end has taken all but so much, or the session is over."""
        while self._waiting_bytes > to_bytes and not self.closed.is_set():
            self._taken = anyio.Event()
            await self._taken.wait()

    def asked(self, message_id: str) -> None:
        """A message of this session is under way: it is answered later."""
        self._unanswered.add(message_id)

    def answered(self, message_id: str) -> None:
        self._unanswered.discard(message_id)
        if not self._unanswered:
            self._settled.set()

    async def settled(self) -> None:
        """Wait until all that was asked is answered: who has closed its sending side may still listen."""
        while self._unanswered and not self.closed.is_set():
            self._settled = anyio.Event()
            await self._settled.wait()

    def written(self, size: int) -> None:
        self._waiting_bytes -= size
        self._taken.set()

    def close(self) -> None:
        self.closed.set()
        self._ready.set()
        self._taken.set()
        self._settled.set()


def exit_of(body: FromBus) -> int:
    """The exit code that a command ends with after this answer. Exit 0 means yours, or done."""
    match body:
        case Queued() | Down():
            return Exit.NOT_YET
        case Refused(code):
            return exit_code(code)
        case _:
            return Exit.OK


def answer_frame(
    message_id: str, at: str, to: str, body: FromBus, reply_to: str, notes: tuple[str, ...] = (),
    sender: str = COORDINATOR,
) -> Frame:  # fmt: skip
    return Frame(message_id, sender, to, at, body, reply_to, format_answer(body), exit_of(body), notes)
