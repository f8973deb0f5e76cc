"""A decision while it is being made: each event is folded at once, so that what is asked next is of what is to be."""

from collections.abc import Callable
from typing import Generic, TypeVar

from interlock.protocol.messages import FromBus, Refused
from interlock.protocol.outcome import Now, Outcome, Send, Withdraw

State = TypeVar("State")
Event = TypeVar("Event")


class Drafting(Generic[State, Event]):
    """Args: evolve: the machine's. asker: id of the message under decision; direct answers reply to it."""

    def __init__(self, evolve: Callable[[State, Event], State], state: State, now: Now, asker: str = "") -> None:
        self.state = state
        self.now = now
        self.asker = asker
        self._evolve = evolve
        self._events: list[Event] = []
        self._outbox: list[Send] = []
        self._withdraw: list[Withdraw] = []

    def event(self, event: Event) -> None:
        self.state = self._evolve(self.state, event)
        self._events.append(event)

    def next_seq(self) -> int:
        """The number that the next event will have."""
        return self.now.seq + len(self._events)

    def answer(self, to: str, body: FromBus) -> None:
        self._outbox.append(Send(to, body, reply_to=self.asker))

    def refuse(self, to: str, code: str, why: str) -> None:
        self.answer(to, Refused(code, why))

    def outcome(self) -> Outcome[State, Event]:
        return Outcome(self.state, tuple(self._events), tuple(self._outbox), tuple(self._withdraw))
