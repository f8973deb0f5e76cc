"""The clock of this machine. On Linux the steady one counts sleep too (CLOCK_BOOTTIME)."""

import time

from interlock.adapters import process_table

_STEADY = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """Implements coordinator.clock.Clock."""

    def __init__(self) -> None:
        self._boot = process_table.here().boot

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def mono_ms(self) -> int:
        return (time.monotonic_ns() if _STEADY is None else time.clock_gettime_ns(_STEADY)) // 1_000_000

    def boot(self) -> str:
        return self._boot
