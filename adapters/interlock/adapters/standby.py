"""Keepers on standby: an interpreter that comes up while the old server stops, so that the new one waits for none.

    a stop begins ──▶ prepare ──▶ (nobody has told it anything) ──▶ take ──▶ open_keeper, as with any other
                                            └─ a stop that failed, or too long ago ──▶ dropped: it leaves by itself

A keeper that was sent no spec knows no command, and one that was told no GO executes none; when our end of its socket
closes, by whatever death of ours, it ends. What this module never does: keep one for longer than a start may follow.
"""

import contextlib
import socket
import subprocess

import anyio
from anyio.abc import TaskGroup

from interlock.adapters.launches import Child, Keeper, spawn_keeper

KEPT_S = 3.0  # after a stop: its start follows in a moment, if any does
_Spawned = tuple[Child, socket.socket]


class Standby:
    """One keeper for each unit whose server stops. Args: umask: as for `start_keeper`."""

    def __init__(self, tasks: TaskGroup, umask: int = -1) -> None:
        self._tasks = tasks
        self._umask = umask
        self._kept: dict[tuple[str, str], _Spawned] = {}

    def prepare(self, at: tuple[str, str]) -> None:
        """Start one for that unit, where there is none; without it the start is slower, and nothing else."""
        if at not in self._kept:
            null = subprocess.DEVNULL
            with contextlib.suppress(OSError):
                self._kept[at] = spawn_keeper(stdin=null, stdout=null, stderr=null, new_session=True, umask=self._umask)

    def take(self, at: tuple[str, str]) -> _Spawned | None:
        """The one of that unit, if it lives; it is the caller's from now on."""
        kept = self._kept.pop(at, None)
        if kept is not None and kept[0].poll() is not None:
            kept[1].close()
            return None
        return kept

    def drop_soon(self, at: tuple[str, str]) -> None:
        """Let that unit's go in a while, if it is not taken before."""
        if at in self._kept:
            self._tasks.start_soon(self._expire, at, self._kept[at])

    async def _expire(self, at: tuple[str, str], kept: _Spawned) -> None:
        try:
            await anyio.sleep(KEPT_S)
        finally:
            if ours := self._kept.get(at) is kept:
                del self._kept[at]
                Keeper(*kept).close()
        if ours:
            await Keeper(*kept).wait()
