"""What every step shares that executes something: its shell, its environment, its keeper, and how it is taken up again.

    keeper up ──▶ (LaunchUp, durable) ──▶ Go ──▶ it runs        a keeper that is not told GO leaves, and ran nothing

It decides nothing, and knows neither servers nor commands.
"""

import os
import pwd
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from interlock.adapters.launch_result import LaunchResult, read_result
from interlock.adapters.launches import Keeper, LaunchFailed, server_environment
from interlock.adapters.paths import Home
from interlock.adapters.process import probe
from interlock.adapters.readiness import pause_s
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.resource_commands import LaunchUp


class StepFailed(Exception):
    """A step that cannot go on; the text is for its owner."""


class Launching:
    """Where launches of one home lie, and how one is begun. Args: tell: puts a command into a resource's mailbox."""

    def __init__(self, home: Home, tell: Callable[[str, Any], object]) -> None:
        self.home = home
        self._tell = tell

    def result(self, launch: str) -> Path:
        return self.home.launches / f"{launch}.jsonl"

    def log(self, launch: str) -> Path:
        return self.home.logs / f"{launch}.log"

    def open_log(self, launch: str) -> int:
        """A new log for that launch; its file descriptor, to be closed. Raises LaunchFailed: nothing was executed."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            return os.open(self.log(launch), flags, 0o600)
        except OSError as error:
            why = f"its log {self.log(launch)} cannot be made ({error.strerror}): make room, or mend the disk"
            raise LaunchFailed(why) from None

    async def let_go(self, key: str, unit: str, step: int, launch: str, keeper: Keeper, go: anyio.Event) -> None:
        """Have a keeper recorded, and then execute its command.

        Args:
            key, unit, step: whose launch it is. go: set once its record is durable.

        Raises:
            LaunchFailed: the keeper has gone; nothing was executed.
        """
        try:
            self._tell(key, LaunchUp(unit, step, launch, keeper.identity))
            await go.wait()
            await keeper.go()
        finally:
            keeper.close()  # before GO that means never; after it, what was started lives on without us

    async def was_let_go(self, launch: str, keeper: Identity) -> bool:
        """Whether the keeper took GO: one that was started by a supervisor that died may have left without it."""
        begun = time.monotonic()
        while True:
            result = read_result(self.result(launch))
            if result.went:
                return True
            if result.not_started or probe(keeper) is Presence.GONE:
                return read_result(self.result(launch)).went
            await anyio.sleep(pause_s(time.monotonic() - begun))


def environment(
    home: Home, key: str, unit: str, agent: str, worktree: str, url: str, more: tuple[tuple[str, str], ...]
) -> dict[str, str]:
    """What a step starts with. No fence: it runs before a hold, or from one to the next; see ADRs 2 and 10."""
    own = {
        "BUS_HOME": str(home.root),
        "BUS_RESOURCE": key,
        "BUS_UNIT": unit,
        "BUS_AGENT": agent,
        "BUS_WORKTREE": worktree,
        "BUS_RESOURCE_URL": url,
    }
    return server_environment(os.environ, dict(more) | own)


def has_failed(result: LaunchResult) -> bool:
    """Its command ended badly. One that ended well may have put something into the background."""
    return result.ended and (result.code != 0 or result.signal is not None)


def how(result: LaunchResult) -> str:
    """How a command ended, in a few words."""
    if result.closed:
        return "because its window was closed"
    if result.signal is not None:
        return f"by signal {result.signal}"
    return f"with code {result.code}" if result.code is not None else "without a word"


def login_shell() -> str:
    """The user's own shell, which knows the user's PATH; /bin/sh where that is none."""
    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        shell = ""
    name = os.path.basename(shell)
    usable = name.endswith("sh") and os.access(shell, os.X_OK)
    return shell if usable else "/bin/sh"
