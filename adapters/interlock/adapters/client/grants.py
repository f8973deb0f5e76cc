"""A grant: what a program has from the bus, and how it hears that it has it no more."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from interlock.adapters.client.durations import Duration, to_ms, to_seconds
from interlock.adapters.client.errors import Lost
from interlock.protocol import messages

if TYPE_CHECKING:
    from interlock.adapters.client.holdings import Holdings


class Loss:
    """Whether, when and why a hold ended before its user was done with it.

    Attributes:
        why: one sentence; "" while the hold is there.
        at: when this program heard of it; None while the hold is there.
    """

    def __init__(self) -> None:
        self.why = ""
        self.at: datetime.datetime | None = None
        self._event = anyio.Event()
        self._then: Callable[[], None] | None = None

    def is_set(self) -> bool:
        """It is lost."""
        return self._event.is_set()

    async def wait(self) -> str:
        """Wait until it is lost, perhaps for ever; returns why."""
        await self._event.wait()
        return self.why

    def then(self, call: Callable[[], None] | None) -> None:
        """For the client itself: what to call once it is lost; at once if it is."""
        self._then = call
        if call is not None and self.is_set():
            call()

    def set(self, why: str) -> None:
        """For the client itself: the first reason counts."""
        if not self._event.is_set():
            self.why = why
            self.at = datetime.datetime.now(datetime.UTC)
            self._event.set()
            if self._then is not None:
                self._then()


class Grant:
    """A resource that is yours.

    Attributes:
        resource: as you called it. key: its full key.
        fence: number of this grant; it grows with every grant on this bus, so that others can refuse an older one.
        request_id: of the ticket. unit: of a pool, else "".
        url: of a server, else "". worktree: that it runs from, or "-".
        until: when you said that you need it until, or None.
        note: one more sentence, where there is something to know.
        shared: it goes under a hold that your agent had already, which stays when you are done.
        lost: set when it is not yours any more.
        down: why its server does not run now; "" while it does.
    """

    def __init__(self, holdings: Holdings, granted: messages.Granted, *, shared: bool, answer_polls: bool) -> None:
        self.resource = granted.resource
        self.key = granted.key
        self.fence = granted.fence
        self.request_id = granted.request_id
        self.unit = granted.unit
        self.url = granted.url
        self.worktree = granted.worktree
        self.until = _moment(granted.until_ms)
        self.note = granted.note
        self.shared = shared or granted.shared
        self.lost = Loss()
        self.down = ""
        self.answers_polls = answer_polls
        self._holdings = holdings

    def __repr__(self) -> str:
        state = f"lost: {self.lost.why}" if self.lost.is_set() else self.url or "held"
        return f"<Grant {self.resource} fence {self.fence} ({state})>"

    async def check(self) -> None:
        """Ask the bus whether it is still yours, and ready.

        Raises:
            Lost: it is not yours any more. Refused: it is yours, but its server does not run. BusUnavailable.
        """
        await self._holdings.check(self)

    async def extend(self, purpose: str = "", time: Duration | None = None) -> None:
        """Say that you still need it.

        Args:
            purpose: what for, at most 1,024 characters; others read it.
            time: how much longer, from now.

        Raises:
            Lost: this program knew already. Refused: it is lost. BusUnavailable.
        """
        self.raise_if_lost()
        time_ms = to_ms(time)
        await self._holdings.say(messages.Extend(self.key, purpose, time_ms))
        now = datetime.datetime.now(datetime.UTC)
        self.until = now + datetime.timedelta(milliseconds=time_ms) if time_ms is not None else None

    async def release(self) -> None:
        """Give it back; once it is back, or lost, this does nothing. Raises Refused, BusUnavailable."""
        await self._holdings.release(self)

    async def restart(self, timeout: Duration | None = None) -> None:
        """Start its server again, and wait until it is ready. Args: timeout: of the wait; None: as long as it takes.

        Raises:
            Refused: it is no server, or it did not come up. Lost, BusUnavailable.
        """
        self.raise_if_lost()
        await self._holdings.restart(self.key, to_seconds(timeout))

    def raise_if_lost(self) -> None:
        """Raise Lost where this program has heard that it is lost. It asks nobody: `check` does."""
        if self.lost.is_set():
            assert self.lost.at is not None
            raise Lost(self.resource, self.fence, self.lost.why, self.lost.at)


def _moment(at_ms: int) -> datetime.datetime | None:
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC) if at_ms else None
