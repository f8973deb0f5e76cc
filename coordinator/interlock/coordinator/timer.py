"""The timer: a heap of deadlines. It decides nothing: when one has passed it says so, and the state knows which."""

import heapq
from collections.abc import Callable

import anyio

from interlock.coordinator.clock import Clock
from interlock.protocol.outcome import Deadline

FIRED_AT_ONCE = 64  # many may have waited for the same moment: nobody else waits for all of them
STALE_MAX = 256  # beside as many again as are armed: what was armed anew leaves the heap long before its time


class Timer:
    """Args: fire: called with an address whose deadline has passed."""

    def __init__(self, clock: Clock, fire: Callable[[str], None]) -> None:
        self._clock = clock
        self._fire = fire
        self._heap: list[tuple[int, str]] = []
        self._armed: dict[str, int] = {}
        self._changed = anyio.Event()

    def arm(self, address: str, deadline: Deadline | None) -> None:
        """Set the one deadline of an address, or none. One of another boot is due at once."""
        if deadline is None:
            self._armed.pop(address, None)
            return
        at_ms = deadline.mono_ms if deadline.boot == self._clock.boot() else self._clock.mono_ms()
        if self._armed.get(address) == at_ms:
            return
        self._armed[address] = at_ms
        heapq.heappush(self._heap, (at_ms, address))
        if len(self._heap) > 2 * len(self._armed) + STALE_MAX:
            self._heap = [(each_ms, each) for each, each_ms in self._armed.items()]
            heapq.heapify(self._heap)
        if self._heap[0] == (at_ms, address):
            self._changed.set()

    def size(self) -> int:
        """How many deadlines are kept, those that were armed anew meanwhile included."""
        return len(self._heap)

    async def run(self) -> None:
        """Sleep until the earliest deadline or a change, for ever. With nothing armed nothing wakes."""
        while True:
            self._changed = anyio.Event()
            wait_ms = self._fire_due()
            with anyio.move_on_after(None if wait_ms is None else wait_ms / 1000):
                await self._changed.wait()

    def _fire_due(self) -> int | None:
        """Fire some of what is due; returns how long until the next, None for never."""
        for _ in range(FIRED_AT_ONCE):
            if not self._heap:
                return None
            at_ms, address = self._heap[0]
            if self._armed.get(address) != at_ms:  # it was armed anew or disarmed meanwhile
                heapq.heappop(self._heap)
                continue
            left_ms = at_ms - self._clock.mono_ms()
            if left_ms > 0:
                return left_ms
            heapq.heappop(self._heap)
            del self._armed[address]
            self._fire(address)
        return 0  # there may be more: others have their turn first
