"""Rate limits: token buckets, one an agent and one a pair of agents. Full ones say nothing, and are forgotten."""

from interlock.coordinator.clock import Clock
from interlock.protocol.limits import (
    MESSAGES_A_SECOND,
    MESSAGES_A_SECOND_TO_ONE,
    MESSAGES_BURST,
    MESSAGES_BURST_TO_ONE,
)

SWEPT_AT_LEAST = 1_024  # buckets; below that it is not worth the look


class Buckets:
    """Args: a_second: refilled so fast. burst: holds so many."""

    def __init__(self, clock: Clock, a_second: int, burst: int) -> None:
        self._clock = clock
        self._a_second = a_second
        self._burst = burst
        self._buckets: dict[str, tuple[float, int]] = {}
        self._swept_at = SWEPT_AT_LEAST

    def take(self, key: str) -> bool:
        """Take one token; False where there is none."""
        now_ms = self._clock.mono_ms()
        left, then_ms = self._buckets.get(key, (float(self._burst), now_ms))
        left = min(self._burst, left + (now_ms - then_ms) * self._a_second / 1000)
        if left < 1:
            self._buckets[key] = (left, now_ms)
            return False
        self._buckets[key] = (left - 1, now_ms)
        if len(self._buckets) > self._swept_at:
            self._forget_full(now_ms)
        return True

    def size(self) -> int:
        """How many there are: at most twice as many as were in use together."""
        return len(self._buckets)

    def _forget_full(self, now_ms: int) -> None:
        """Looked for again once there are twice as many: a message costs the same however many there are."""
        full_after_ms = self._burst * 1000 / self._a_second
        self._buckets = {k: v for k, v in self._buckets.items() if now_ms - v[1] < full_after_ms}
        self._swept_at = max(SWEPT_AT_LEAST, 2 * len(self._buckets))


def of_agents(clock: Clock) -> Buckets:
    return Buckets(clock, MESSAGES_A_SECOND, MESSAGES_BURST)


def of_pairs(clock: Clock) -> Buckets:
    return Buckets(clock, MESSAGES_A_SECOND_TO_ONE, MESSAGES_BURST_TO_ONE)
