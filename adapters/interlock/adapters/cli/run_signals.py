"""What a command that waits is told by signals: first they end the wait; then there is a command that is told."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # what `signal` is made of, without its dear enums
import os

TOLD_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from types import FrameType


class Told(Exception):
    """A signal told us to end. Args: signum."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class Signals:
    """One a command. `heard`: those that our caller did not have ignored (`nohup bus run` means it).

    `early`: those that have come since they are kept. `wake`: readable once one has.
    """

    def __init__(self) -> None:
        self.early: list[int] = []
        self.heard = [signum for signum in TOLD_BY if signal.getsignal(signum) is not signal.SIG_IGN]
        self.wake, self._woken = os.pipe()
        for fd in (self.wake, self._woken):
            os.set_blocking(fd, False)
        self.end_the_wait()

    def end_the_wait(self) -> None:
        """From now on each raises Told."""
        for signum in self.heard:
            signal.signal(signum, self._end_the_wait)

    def keep(self) -> None:
        """From now on each is kept, and wakes whoever polls."""
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for signum in self.heard:
            signal.signal(signum, self._keep)

    def _end_the_wait(self, signum: int, _: FrameType | None) -> None:
        raise Told(signum)

    def _keep(self, signum: int, _: FrameType | None) -> None:
        self.early.append(signum)
