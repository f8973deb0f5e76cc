"""Time that stands still until nobody has anything to do, then jumps to the next timer. No test waits for real.

An ordinary asyncio loop over a selector that never sleeps: where a real one would wait two seconds, this one adds two
seconds to its clock. Equal programs thereby run in the same order, every time.
"""

import asyncio
import selectors


class Stuck(RuntimeError):
    """Everybody waits and no timer is set: in real life this would hang for ever."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """`virtual_s` is its time, from 0."""

    def __init__(self) -> None:
        self.virtual_s = 0.0
        super().__init__(_NeverSleeps(self))

    def time(self) -> float:
        return self.virtual_s


class _NeverSleeps(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("everybody waits and no timer is set")
        if timeout > 0:
            self._loop.virtual_s += timeout
        return []


class VirtualClock:
    """A clock over the virtual loop; only outside of one it stands where it was set.

    Args:
        wall: since the epoch (ms) at the loop's time 0. A test may set `wall`, `slept` and `boot_id` at any moment.
    """

    def __init__(self, wall: int = 1_800_000_000_000) -> None:
        self.wall = wall
        self.slept = 1_000_000  # ms that the clock of this boot is ahead of the loop's
        self.boot_id = "boot-1"

    def loop_ms(self) -> int:
        try:
            return round(asyncio.get_running_loop().time() * 1000)
        except RuntimeError:
            return 0

    def wall_ms(self) -> int:
        return self.wall + self.loop_ms()

    def mono_ms(self) -> int:
        return self.slept + self.loop_ms()

    def boot(self) -> str:
        return self.boot_id

    def suspend(self, ms: int) -> None:
        """The machine sleeps: no timer runs, but both clocks go on."""
        self.slept += ms
        self.wall += ms

    def reboot(self) -> None:
        number = int(self.boot_id.rpartition("-")[2]) + 1
        self.boot_id, self.slept = f"boot-{number}", 5_000 - self.loop_ms()
