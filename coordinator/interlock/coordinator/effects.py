"""The ports through which the coordinator acts on the world: processes, servers, directories. Adapters fill them."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from interlock.protocol.identity import Identity, Presence
from interlock.protocol.resource_commands import LaunchGone, Order
from interlock.protocol.resource_state import Server


class Traces(msgspec.Struct, frozen=True):
    """What can be seen of a launch whose end nobody has proved, for a person.

    Args:
        keeper: what its keeper's pid is now. report: whether its report says that it was let go, and that it ended.
        marked: processes whose environment still names the launch.
    """

    keeper: str
    report: str
    marked: tuple[str, ...] = ()


class Caller(Protocol):
    """Who is at the other end of a door, as the door can prove it."""

    def ancestors(self) -> list[Identity]:
        """The caller's process and its ancestors, nearest first; empty where they cannot be seen."""

    def binding(self, hosts: frozenset[str]) -> tuple[Identity, str] | None:
        """What joining binds to, and its label: the nearest known host, else the terminal's session leader."""

    def itself(self) -> tuple[Identity, str] | None:
        """The process at the other end, and its label; None where it cannot be seen."""

    def bind_to(self, pid: int) -> tuple[Identity, str] | None:
        """A process that the caller names, and its label; None where there is none."""

    def worktree(self, directory: str) -> str:
        """The real path of the git top that a directory is in, "" outside of any."""


class Effects(Protocol):
    """What a decision can have done. Nothing here waits: results come back as commands through a mailbox."""

    def begin(self, key: str, order: Order) -> None:
        """Begin, let go or abort a step. Its end is told to `key` as StepResult or StepFailure."""

    def halt(self) -> None:
        """The bus goes down with its servers: begin no start any more, and end those under way, to begin anew later."""

    def adopt(self, key: str, unit: str, server: Server) -> None:
        """Watch over a server that runs; its end is told to `key` as ServerGone."""

    def watch(self, identity: Identity, then: Callable[[], None]) -> Callable[[], None]:
        """Call back once a process is gone; at once if it is. Returns what ends the watch."""

    def probe(self, identity: Identity) -> Presence:
        """Look now."""

    async def launch_result(self, launch: str, keeper: Identity) -> LaunchGone | None:
        """What a gated command's keeper has left on record; None while it is not gone. It signals nobody."""

    def forget(self, launch: str) -> None:
        """That a launch is proved gone is on record: what its keeper left is needed no more."""

    async def traces(self, launch: str, keeper: Identity) -> Traces:
        """Look for what is left of a launch. It signals nobody, and proves nothing."""

    def directory(self, path: str) -> str | None:
        """The real path of an existing absolute directory, else None."""

    def log_path(self, launch: str) -> str:
        """Where a launched server writes."""
