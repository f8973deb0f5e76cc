"""Turns: many may go on at once, or one alone; in the order in which they asked."""

from collections import deque

import anyio


class Turns:
    """Who has a turn gives it back once. Not among threads."""

    def __init__(self) -> None:
        self._shared = 0
        self._alone = False
        self._line: deque[tuple[bool, anyio.Event]] = deque()

    def try_take(self, *, alone: bool) -> bool:
        """Take a turn where that needs no waiting."""
        if self._line or not self._fits(alone):
            return False
        self._enter(alone)
        return True

    async def take(self, *, alone: bool) -> None:
        """Wait for a turn. Args: alone: nobody else may have one meanwhile."""
        if self.try_take(alone=alone):
            return
        mine = (alone, anyio.Event())
        self._line.append(mine)
        try:
            await mine[1].wait()
        except BaseException:  # it is given up: whoever is behind goes on
            if mine in self._line:
                self._line.remove(mine)
                self._admit()
            else:
                self.give()
            raise

    def give(self) -> None:
        """Give a turn back."""
        if self._alone:
            self._alone = False
        else:
            self._shared -= 1
        self._admit()

    def _fits(self, alone: bool) -> bool:
        return not self._alone and not (alone and self._shared)

    def _enter(self, alone: bool) -> None:
        if alone:
            self._alone = True
        else:
            self._shared += 1

    def _admit(self) -> None:
        while self._line and self._fits(self._line[0][0]):
            alone, event = self._line.popleft()
            self._enter(alone)
            event.set()
