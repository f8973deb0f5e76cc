"""The process watcher: says when a process is gone, well under a second after it is. One watch a process."""

from collections.abc import Callable

from anyio.abc import TaskGroup

from interlock.adapters.process import wait_gone
from interlock.protocol.identity import Identity


class Watcher:
    """Args: tasks: where the watches live."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._then: dict[Identity, list[Callable[[], None]]] = {}

    def watch(self, identity: Identity, then: Callable[[], None]) -> None:
        """Call back once the process is gone; soon, if it is."""
        waiting = self._then.setdefault(identity, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._tasks.start_soon(self._wait, identity)

    async def _wait(self, identity: Identity) -> None:
        await wait_gone(identity)
        for then in self._then.pop(identity, []):
            then()
