"""What a decision produces: facts to keep, messages to send once they are kept, and work to begin after that."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from interlock.protocol.messages import FromBus

State = TypeVar("State")
Event = TypeVar("Event")


class Now(msgspec.Struct, frozen=True):
    """What a machine may know of the moment.

    Args:
        at_ms: wall clock, ms since the epoch; for people and the log, never for a deadline.
        boot: boot id; a deadline of another boot is no deadline any more.
        mono_ms: time since boot, sleep included (ms).
        seq: the number that the next event will get; a grant's fence is its event's number.
    """

    at_ms: int
    boot: str
    mono_ms: int
    seq: int


class Deadline(msgspec.Struct, frozen=True):
    """A moment on this boot's clock, which no set of the wall clock moves."""

    boot: str
    mono_ms: int

    def left_ms(self, now: Now) -> int:
        """How long until it (negative: since); another boot's deadlines are all due."""
        return self.mono_ms - now.mono_ms if self.boot == now.boot else 0

    def is_due(self, now: Now) -> bool:
        return self.left_ms(now) <= 0

    def was_slept_through(self, now: Now, late_ms: int) -> bool:
        """Due on another boot, or so long ago that nobody can have been asked meanwhile."""
        return self.boot != now.boot or now.mono_ms - self.mono_ms > late_ms


def earliest(deadlines: Iterable[Deadline], boot: str) -> Deadline | None:
    """The first of some deadlines on this boot; another boot's are due at once, whatever its clock showed."""
    return min(deadlines, key=lambda at: at.mono_ms if at.boot == boot else -1, default=None)


def after(now: Now, ms: int) -> Deadline:
    return Deadline(now.boot, now.mono_ms + ms)


class Send(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message on its way out of a machine. The supervisor adds ids and delivers it.

    Args:
        to: an agent's name.
        body: what it says.
        reply_to: id of the message this answers directly; then it goes to whoever asked, not to an inbox.
        slot: at most one unread message with the same slot waits in an inbox: the newer takes its place.
        run: id of a `bus run`'s ticket; then it goes to that wrapper's connection and to no inbox.
    """

    to: str
    body: FromBus
    reply_to: str = ""
    slot: str = ""
    run: str = ""


class Withdraw(msgspec.Struct, frozen=True):
    """Take what no longer holds out of an agent's inbox, if it is still unread there."""

    to: str
    slot: str


class Outcome(msgspec.Struct, Generic[State, Event], frozen=True):
    """The state that is to be, the events that make it so, and what follows once they are durable."""

    state: State
    events: tuple[Event, ...] = ()
    outbox: tuple[Send, ...] = ()
    withdraw: tuple[Withdraw, ...] = ()
    steps: tuple[msgspec.Struct, ...] = ()


def fold(evolve: Callable[[State, Event], State], state: State, events: Iterable[Event]) -> State:
    """Apply events in order. Replaying a journal and living through it are the same call."""
    for event in events:
        state = evolve(state, event)
    return state
