"""A session: one connection of one caller, as the coordinator sees it. Bounded: who does not read is let go."""

from typing import Any, Protocol

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


class Door(Protocol):
    """The connection behind a session. Nothing here waits."""

    def write(self, data: bytes) -> None:
        """Take bytes for the other end."""

    def backlog(self) -> int:
        """How many bytes the other end has not taken yet."""

    def idle(self) -> None:
        """All that was asked on this session is answered."""

    def close(self) -> None:
        """Flush, and close."""


class Session:
    """One connection, made by its door.

    Args:
        caller: what the door can prove of the other end.
        owner: the only agent that it can speak as, where the door itself says so: whose inbox folder it came through.
        claimed: who it says that it is, is only said, in a file: that is not enough for a grant or a takeover.
    """

    def __init__(self, caller: Caller, door: Door, *, owner: str = "", claimed: bool = False) -> None:
        self.caller = caller
        self.owner = owner
        self.claimed = claimed
        self.agent = ""
        self.how = ""
        self.nobody = Refused(Code.BAD_MESSAGE, "name the sender: --as NAME, or from in the envelope")
        self.incarnation = 0
        self.worktree = ""
        self.proof = ""  # digest of the token that it began with
        self.shown = ""  # the same of the message at hand, which may carry one of its own
        self.program = ""  # the agent that the program at the other end is; its life hangs on that
        self.secret = ""  # digest of what all connections of that program have in common
        self.runs: set[str] = set()  # ids of the requests of `bus run` that wait on it
        self.following: set[str] = set()  # resource keys whose news it wants at once
        self.follows_as: set[str] = set()  # for these agents: one session can be several, one after the other
        self.notes: list[str] = []  # for the next answer
        self.closed = anyio.Event()
        self._is_over = False  # the same, asked with each line
        self.reads_log = False
        self._door = door
        self._unanswered: set[str] = set()
        self._taken: anyio.Event | None = None

    @property
    def is_file(self) -> bool:
        """What it says comes out of files, which whoever can write there can have planted."""
        return self.claimed or bool(self.owner)

    def push(self, frame: object) -> None:
        """Hand one line to the door. A reader that lets too much pile up is cut off, so that nobody else pays."""
        if self._is_over:
            return
        if self._door.backlog() > UNREAD_BYTES_MAX:
            self.close()
        else:
            self._door.write(encode_line(frame))

    def asked(self, message_id: str) -> None:
        """A message of this session is under way: it is answered later."""
        self._unanswered.add(message_id)

    def answered(self, message_id: str) -> None:
        """It is answered; whoever has closed its sending side is kept until then."""
        self._unanswered.discard(message_id)
        if not self._unanswered:
            self._door.idle()

    def is_idle(self) -> bool:
        return not self._unanswered

    async def drained(self, to_bytes: int) -> None:
        """Wait until the other end has taken all but so much, or the session is over."""
        while self._door.backlog() > to_bytes and not self.closed.is_set():
            self._taken = anyio.Event()
            await self._taken.wait()

    def taken(self) -> None:
        """The door says that its other end reads again."""
        if self._taken is not None:
            self._taken.set()

    def close(self) -> None:
        """End it, from either side."""
        if not self._is_over:
            self._is_over = True
            self.closed.set()
            self.taken()
            self._door.close()

    def left(self) -> None:
        """The door has closed: nothing is said through it any more, and neither keeps the other in memory."""
        self._door = _NO_DOOR


class NoDoor:
    """Nobody is there."""

    def write(self, data: bytes) -> None:
        pass

    def backlog(self) -> int:
        return 0

    def idle(self) -> None:
        pass

    def close(self) -> None:
        pass


_NO_DOOR = NoDoor()


def exit_of(body: FromBus) -> int:
    """The exit code that a command ends with after this answer. Exit 0 means yours, or done."""
    if isinstance(body, Refused):
        return exit_code(body.code)
    return Exit.NOT_YET if isinstance(body, Queued | Down) else Exit.OK


def answer_frame(
    message_id: str, at: str, to: str, body: FromBus, reply_to: str, notes: tuple[str, ...] = (),
    sender: str = COORDINATOR,
) -> Frame:  # fmt: skip
    return Frame(message_id, sender, to, at, body, reply_to, format_answer(body), exit_of(body), notes)
