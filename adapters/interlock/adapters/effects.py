"""The effects on this machine: processes are watched here, servers and commands are begun, each by its own adapter."""

import contextlib
import os
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from interlock.adapters.launch_result import read_result
from interlock.adapters.paths import Home
from interlock.adapters.process import probe, wait_gone
from interlock.adapters.resources.command import CommandSteps
from interlock.adapters.resources.server import ServerSteps
from interlock.adapters.stopping import judge
from interlock.adapters.terminals import remove_files, window_socket
from interlock.adapters.traces import traces
from interlock.adapters.watcher import Watcher
from interlock.coordinator.effects import Traces
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.resource_commands import LaunchGone, Order
from interlock.protocol.resource_state import Server

LEAVING_S = 2.0  # a keeper that has said `gone` leaves at once


class LocalEffects:
    """Implements coordinator.effects.Effects. Args: tell: puts a command into a resource's mailbox. umask: servers'."""

    def __init__(self, home: Home, tasks: TaskGroup, tell: Callable[[str, Any], object], umask: int = -1) -> None:
        self._home = home
        self._watcher = Watcher(tasks)
        self._servers = ServerSteps(home, tasks, tell, umask)
        self._commands = CommandSteps(home, tasks, tell, umask)

    def begin(self, key: str, order: Order) -> None:
        self._servers.begin(key, order)  # each knows its own
        self._commands.begin(key, order)

    def halt(self) -> None:
        self._servers.halt()
        self._commands.halt()

    def adopt(self, key: str, unit: str, server: Server) -> None:
        self._servers.adopt(key, unit, server)

    def watch(self, identity: Identity, then: Callable[[], None]) -> Callable[[], None]:
        return self._watcher.watch(identity, then)

    def probe(self, identity: Identity) -> Presence:
        return probe(identity)

    async def launch_result(self, launch: str, keeper: Identity) -> LaunchGone | None:
        path = self._home.launches / f"{launch}.jsonl"
        with anyio.move_on_after(LEAVING_S):
            await wait_gone(keeper)
        stopped = judge(keeper, path, launch)
        if stopped is None:
            return None
        result = read_result(path)
        code = result.code if result.signal is None else 128 + result.signal
        return LaunchGone(launch, stopped.proved, code if result.ended else None, stopped.evidence)

    async def traces(self, launch: str, keeper: Identity) -> Traces:
        return await anyio.to_thread.run_sync(traces, launch, keeper, self._home.launches / f"{launch}.jsonl")

    def forget(self, launch: str) -> None:
        with contextlib.suppress(OSError):  # what a disk does not let go of is swept away at a later start
            (self._home.launches / f"{launch}.jsonl").unlink(missing_ok=True)
        remove_files(window_socket(self._home.root, launch))

    def directory(self, path: str) -> str | None:
        return os.path.realpath(path) if os.path.isabs(path) and os.path.isdir(path) else None

    def log_path(self, launch: str) -> str:
        return str(self._home.logs / f"{launch}.log")
