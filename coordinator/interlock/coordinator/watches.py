"""Watches: processes that are watched, once each, until they end or are let go."""

from collections.abc import Callable, Iterator

from interlock.coordinator.effects import Effects
from interlock.protocol.identity import Identity


class Watches:
    """Args: effects: asked for each watch."""

    def __init__(self, effects: Callable[[], Effects]) -> None:
        self._effects = effects
        self._end: dict[Identity, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._end)

    def __iter__(self) -> Iterator[Identity]:
        return iter([*self._end])

    def watch(self, process: Identity, gone: Callable[[], None]) -> None:
        """Call back once it has ended, unless it is watched already; at once, perhaps."""
        if process in self._end:
            return

        def over() -> None:
            if self._end.pop(process, None) is not None:
                gone()

        self._end[process] = lambda: None
        try:
            end = self._effects().watch(process, over)
        except BaseException:  # no descriptor left: whoever wants it watched next tries again
            del self._end[process]
            raise
        if process in self._end:
            self._end[process] = end

    def let_go(self, process: Identity) -> None:
        """Its end matters no more."""
        end = self._end.pop(process, None)
        if end is not None:
            end()
