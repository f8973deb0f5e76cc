"""Launches: start a keeper, talk to it, read what it left, and stop a tree with proof.

```text
start_keeper ──spec──▶ keeper ──up──▶ Keeper ──go()──▶ started … ended … gone
                 close() before go(): nothing is ever executed
```

What this module never does: run a command itself, or stop a tree other than by asking its keeper.
"""

import json
import re
import secrets
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping
from typing import IO, Protocol, TypeAlias

import anyio
import msgspec

from interlock.adapters.environments import server_environment
from interlock.adapters.keeper_start import (
    LINE_BYTES_MAX,
    STOP_TIMEOUT_MS,
    UP_TIMEOUT_S,
    keeper_command,
    keeper_environment,
    portable,
)
from interlock.adapters.launch_result import (
    Ended,
    Gone,
    KeeperEvent,
    LaunchResult,
    NotStarted,
    Started,
    Up,
    Went,
    decode,
    read_result,
)
from interlock.adapters.process import identify, wait_gone
from interlock.adapters.stopping import Stopped, stop_tree
from interlock.protocol.identity import Identity

LAUNCH_NAME = re.compile(r".+-\d+-[0-9a-f]{6,12}")  # what `new_launch` makes, and `bus run`

__all__ = [
    "Ended",
    "Gone",
    "Keeper",
    "KeeperEvent",
    "LaunchFailed",
    "LaunchResult",
    "LaunchSpec",
    "NotStarted",
    "Started",
    "Stopped",
    "Up",
    "Went",
    "open_keeper",
    "read_result",
    "reap",
    "server_environment",
    "start_keeper",
    "stop_tree",
]

Stream: TypeAlias = int | IO[bytes] | IO[str] | None


def new_launch(whose: str, number: int) -> str:
    """The id of a new launch: names its result, its log and its window. Args: number: of the step, or a fence."""
    return f"{whose}-{number}-{secrets.token_hex(3)}"


class LaunchFailed(Exception):
    """A keeper did not come up, or left before GO. Nothing was executed; the text is one sentence for people."""


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What one keeper is to do.

    Args:
        argv: the command; its first word is looked for in env's PATH.
        cwd: an absolute directory.
        env: the complete environment; a BUS_LAUNCH in it is extended to `outer:inner`.
        result: the file the keeper creates and reports into; must not exist, its folder must.
        launch: the launch's id, without a colon.
        stop_timeout_ms: from SIGTERM to SIGKILL.
        attached: whether the tree is stopped when this side's socket closes (a wrapper), or lives on (a supervisor).
        log: of a launch in a window: the file, which must exist, that gets what the command prints.
        spare: programs that are left running and not counted: each its name, and arguments that it must have.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    result: str
    launch: str
    stop_timeout_ms: int = STOP_TIMEOUT_MS
    attached: bool = False
    log: str = ""
    spare: tuple[tuple[str, ...], ...] = ()


class Child(Protocol):
    """The part of subprocess.Popen that the parent's end of a keeper needs; a keeper in a window is tmux's child."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def kill(self) -> None: ...


class Keeper:
    """The parent's end of one keeper. Made by `open_keeper` only; one task reads `events` at a time."""

    def __init__(self, process: Child, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._buffer = b""
        self._identity: Identity | None = None

    @property
    def identity(self) -> Identity:
        """Who the keeper is; known from the start."""
        assert self._identity is not None, "start_keeper hands out no keeper before it is up"
        return self._identity

    @property
    def events(self) -> AsyncIterator[KeeperEvent]:
        """Started, Ended, Gone as they come; ends when the keeper has ended (then reaped) or after `close`."""
        return _Events(self)

    async def go(self) -> None:
        """Let it execute the command.

        Raises:
            LaunchFailed: the keeper has gone; nothing was executed.
        """
        try:
            await self._send(b"GO\n")
        except OSError as error:
            raise LaunchFailed(f"the keeper of this launch (pid {self._process.pid}) died before GO") from error

    def stop(self) -> bool:
        """Ask for SIGTERM to the tree, a wait, SIGKILL; before GO for its end. False where it cannot be reached."""
        return self._say("STOP")

    def kill(self) -> bool:
        """Ask for SIGKILL to the tree at once. False where the keeper cannot be reached."""
        return self._say("KILL")

    def signal(self, signum: int) -> bool:
        """Ask it to send a signal to the command and its group (Ctrl-C). False where the keeper cannot be reached."""
        return self._say(f"SIGNAL {signum:d}")

    def close(self) -> None:
        """Close this end: before GO it means "never"; after it, an attached tree is stopped, another lives on."""
        if self._control.fileno() >= 0:
            anyio.notify_closing(self._control)
            self._control.close()
        if self._process.poll() is None and self._process not in _left:
            _left.append(self._process)

    async def wait(self) -> None:
        """Return once the keeper itself has ended, and reap it."""
        if self._process.poll() is None and self._identity is not None:
            await wait_gone(self._identity)
        while self._process.poll() is None:  # noqa: ASYNC110 - nobody else is told of a child's end
            await anyio.sleep(0.02)  # gone, but not yet ours to reap, or its identity was never known
        reap()

    async def _next(self) -> KeeperEvent | None:
        """The next line that can be read; None at the end."""
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                if (event := decode(line)) is not None:
                    return event
                continue
            if self._control.fileno() < 0 or len(self._buffer) > LINE_BYTES_MAX:
                return None
            try:
                chunk = self._control.recv(LINE_BYTES_MAX)
            except BlockingIOError:
                try:
                    await anyio.wait_readable(self._control)
                except (OSError, ValueError, anyio.ClosedResourceError):
                    return None  # closed by us meanwhile
                continue
            except OSError:
                return None
            if not chunk:
                return None
            self._buffer += chunk

    async def _send(self, data: bytes) -> None:
        while data:
            try:
                data = data[self._control.send(data) :]
            except BlockingIOError:
                await anyio.wait_writable(self._control)

    def _say(self, line: str) -> bool:
        try:
            return self._control.send(line.encode() + b"\n") > len(line)
        except OSError:
            return False

    async def _open(self, spec: LaunchSpec) -> None:
        """Hand over the spec and await `up`."""
        try:
            await self._send(json.dumps(portable(msgspec.to_builtins(spec))).encode() + b"\n")
        except OSError as error:
            raise LaunchFailed(f"the keeper of launch {spec.launch} died at once") from error
        match await self._next():
            case Up(identity=identity):
                # Where the system has no /proc the keeper cannot tell, and we ask for it.
                self._identity = identity or identify(self._process.pid)
            case NotStarted(error=why):
                raise LaunchFailed(f"the keeper of launch {spec.launch} cannot work: {why}")
        if self._identity is None:
            raise LaunchFailed(f"the keeper of launch {spec.launch} died before it was up")


class _Events:
    """An iterator rather than a generator: one that is dropped half-way leaves nothing to finish."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def __aiter__(self) -> "_Events":
        return self

    async def __anext__(self) -> KeeperEvent:
        if (event := await self._keeper._next()) is not None:
            return event
        if self._keeper._control.fileno() >= 0:
            await self._keeper.wait()
        raise StopAsyncIteration


_left: list[Child] = []  # keepers that nobody listens to any more, still our children


def reap() -> None:
    """Reap those closed keepers that have ended since; never waits."""
    _left[:] = [process for process in _left if process.poll() is None]


async def start_keeper(
    spec: LaunchSpec, *, stdin: Stream, stdout: Stream, stderr: Stream, new_session: bool, umask: int = -1
) -> Keeper:
    """Start a keeper and wait until it stands ready; nothing is executed before `Keeper.go`.

    Args:
        spec: what it is to do.
        stdin: as for subprocess.Popen; the command gets them as they are.
        stdout: likewise.
        stderr: likewise.
        new_session: whether it gets a session of its own (a server), or stays in the terminal's (a gated command).
        umask: for the command; -1: the same as ours.

    Returns:
        The keeper, whose identity is known.

    Raises:
        LaunchFailed: it did not come up within 10 s; it is then gone.
    """
    reap()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        process = _spawn(theirs.fileno(), stdin, stdout, stderr, new_session, umask)
    except OSError as error:
        ours.close()
        raise LaunchFailed(f"the keeper of launch {spec.launch} cannot be started: {error}") from error
    finally:
        theirs.close()
    return await open_keeper(spec, process, ours)


async def open_keeper(spec: LaunchSpec, process: Child, control: socket.socket) -> Keeper:
    """Hand a keeper that has been started its spec, and wait until it stands ready.

    Args:
        spec: what it is to do.
        process: the keeper's own.
        control: our end of the connection to it, not blocking; it is closed where this raises.

    Raises:
        LaunchFailed: it did not come up within 10 s; it is then gone.
    """
    keeper = Keeper(process, control)
    try:
        with anyio.fail_after(UP_TIMEOUT_S):
            await keeper._open(spec)
    except BaseException as error:
        process.kill()  # not yet reaped, or of a verified identity; and before GO: there is nothing below it
        keeper.close()
        with anyio.CancelScope(shield=True):
            await keeper.wait()
        if isinstance(error, TimeoutError):
            raise LaunchFailed(f"the keeper of launch {spec.launch} was not up within {UP_TIMEOUT_S:g} s") from error
        raise
    return keeper


def _spawn(
    control: int, stdin: Stream, stdout: Stream, stderr: Stream, new_session: bool, umask: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*keeper_command(), str(control)],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        close_fds=True,
        pass_fds=(control,),
        cwd="/",
        env=keeper_environment(),
        start_new_session=new_session,
        umask=umask,
    )
