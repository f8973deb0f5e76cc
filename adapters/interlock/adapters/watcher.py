"""The process watcher: says when a process is gone, well under a second after it is. One watch a process."""

from collections.abc import Callable
from functools import partial

import anyio
from anyio.abc import TaskGroup

from interlock.adapters.process import wait_gone
from interlock.protocol.identity import Identity


class Watcher:
    """Args: tasks: where the watches live."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._watches: dict[Identity, _Watch] = {}

    def watch(self, identity: Identity, then: Callable[[], None]) -> Callable[[], None]:
        """Call back once the process is gone; soon, if it is.

        Returns: what ends the watch; where others watch the same process, that goes on for them.
        """
        watch = self._watches.get(identity)
        if watch is None:
            watch = self._watches[identity] = _Watch()
            self._tasks.start_soon(self._wait, identity, watch)
        watch.then.append(then)
        return partial(self._end, identity, watch, then)

    def _end(self, identity: Identity, watch: "_Watch", then: Callable[[], None]) -> None:
        if then in watch.then:
            watch.then.remove(then)
            if not watch.then and self._watches.get(identity) is watch:
                del self._watches[identity]
                watch.scope.cancel()

    async def _wait(self, identity: Identity, watch: "_Watch") -> None:
        with watch.scope:
            await wait_gone(identity)
            if self._watches.get(identity) is watch:  # else all have let go, and others watch it anew, perhaps
                del self._watches[identity]
            while watch.then:
                watch.then.pop(0)()


class _Watch:
    """Of one process, for whoever wants to hear of its end."""

    def __init__(self) -> None:
        self.then: list[Callable[[], None]] = []
        self.scope = anyio.CancelScope()
