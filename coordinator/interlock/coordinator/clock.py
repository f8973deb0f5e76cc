"""The clock port: the only way to the time. A test's clock stands still until it is moved."""

from typing import Protocol


class Clock(Protocol):
    """Three clocks that no one confuses: a wall for people, a steady one for deadlines, a boot to tell them apart."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""

    def mono_ms(self) -> int:
        """Milliseconds since boot, sleep included; never jumps."""

    def boot(self) -> str:
        """The boot id."""
