"""Debts: what must still be done for the bus, whoever was cancelled meanwhile: a hold to give back, a place to leave.

Each is done by a task of its own until it is done, over restarts of the supervisor. Its caller waits a bounded time.
"""

import logging
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from interlock.adapters.client.errors import BusUnavailable, Refused

log = logging.getLogger("interlock.client")
WAIT_S = 10.0
RETRY_S = 0.5  # what may succeed later is tried again so often
Debt = Callable[[], Awaitable[None]]


class Debts:
    """One per Bus."""

    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None
        self._open: dict[anyio.Event, str] = {}

    def begin(self, tasks: TaskGroup) -> None:
        """Args: tasks: where they are paid; cancelled at the end."""
        self._tasks = tasks

    def owe(self, debt: Debt, what: str) -> anyio.Event:
        """Begin to pay. Args: what: for the log. Returns an event: it is paid."""
        paid = anyio.Event()
        if self._tasks is None:
            log.warning("%s: this Bus is closed; it is done when this process ends", what)
            paid.set()
            return paid
        self._open[paid] = what
        self._tasks.start_soon(self._pay, debt, what, paid)
        return paid

    def left(self) -> list[anyio.Event]:
        """What is still to be paid."""
        return [*self._open]

    def close(self) -> None:
        """Nobody pays any more."""
        self._tasks = None

    async def settle(self, *debts: anyio.Event) -> None:
        """Wait a bounded time, whoever cancels, until these are paid."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(WAIT_S):
            for paid in debts:
                await paid.wait()
        for paid in debts:
            if paid in self._open:
                log.warning("%s; it is tried again, and done at the latest when this process ends", self._open[paid])

    async def _pay(self, debt: Debt, what: str, paid: anyio.Event) -> None:
        try:
            while True:
                try:
                    return await debt()
                except BusUnavailable as error:
                    self._open[paid] = f"{what}: {error}"
                except Refused as refused:
                    self._open[paid] = f"{what}: {refused}"
                    if not refused.retry:
                        return None
                await anyio.sleep(RETRY_S)
        finally:
            del self._open[paid]
            paid.set()
