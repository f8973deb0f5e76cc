"""A launch's result: the lines a keeper speaks and writes, and what its file says in the end.

```text
up ──▶ not_started                     EOF, STOP or a failed record before GO: nothing was executed
up ──▶ go ──▶ started ──▶ (closed) ──▶ ended ──▶ gone        go is on disk before the command is executed
              (ended with 126 or 127 comes without started)
```

What this module never does: guess. A line that cannot be read says nothing, and a missing file proves nothing.
"""

from pathlib import Path
from typing import TypeAlias

import msgspec

from interlock.protocol.identity import Identity


class Up(msgspec.Struct, frozen=True, tag_field="event", tag="up"):
    """The keeper stands and waits for GO; its identity is None where the system has no /proc.

    resource: the key of what it runs for. unit: its name; None where it does not say, as older keepers did not."""

    identity: Identity | None
    subreaper: bool = False
    resource: str = ""
    unit: str | None = None


class NotStarted(msgspec.Struct, frozen=True, tag_field="event", tag="not_started"):
    """The keeper leaves without having executed anything."""

    error: str = ""


class Went(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="event", tag="go"):
    """From here on the command may have been executed; stands in the result file only.

    Args: argv, cwd: the whole command and its directory, for a person; older keepers did not say them.
    """

    argv: tuple[str, ...] = ()
    cwd: str = ""


class Started(msgspec.Struct, frozen=True, tag_field="event", tag="started"):
    """The command runs; leader is None where it had already ended, or the system has no /proc."""

    leader: Identity | None


class Ended(msgspec.Struct, frozen=True, tag_field="event", tag="ended"):
    """The command itself has ended.

    Args:
        code: its exit code, 127 where it was not found, 126 where it could not be executed; None after a signal.
        signal: what killed it, or None.
        left: descendants that still live.
        error: why it was not executed, or empty.
    """

    code: int | None
    signal: int | None
    left: int = 0
    error: str = ""


class Closed(msgspec.Struct, frozen=True, tag_field="event", tag="closed"):
    """Somebody closed the server's window: the tree is being stopped; stands in the result file only."""


class Spared(msgspec.Struct, frozen=True):
    """A daemon that was left running because `[bus] spare` names it."""

    pid: int
    command: str = ""


class Gone(msgspec.Struct, frozen=True, tag_field="event", tag="gone"):
    """The whole tree, but for what is spared, has ended and is reaped: the proof."""

    spared: tuple[Spared, ...] = ()


KeeperEvent: TypeAlias = Up | NotStarted | Went | Started | Closed | Ended | Gone
_decoder: msgspec.json.Decoder[KeeperEvent] = msgspec.json.Decoder(KeeperEvent)


class LaunchResult(msgspec.Struct, frozen=True):
    """What a keeper left in its file, as far as it can be read.

    Args:
        went: the command may have been executed.
        not_started: the keeper left without executing anything.
        leader: the command's process, where it was reported.
        keeper: the keeper's own identity.
        code: exit code of the command, None where it did not exit by itself or has not ended.
        signal: the signal that killed it, or None.
        ended: the command has ended.
        gone: the whole tree has ended.
        subreaper: the keeper saw orphans too, so that its word is proof.
        closed: somebody closed its window, which is why it ended.
        spared: daemons of the tree that were left running, as the configuration says.
        resource: the key of what the launch was for; empty where that was not said.
        unit: the name of its unit; None where that was not said.
        argv, cwd: what was executed and where; it may hold secrets, and is for the eyes of a person alone.
    """

    went: bool = False
    not_started: bool = False
    leader: Identity | None = None
    keeper: Identity | None = None
    code: int | None = None
    signal: int | None = None
    ended: bool = False
    gone: bool = False
    subreaper: bool = False
    closed: bool = False
    spared: tuple[Spared, ...] = ()
    resource: str = ""
    unit: str | None = None
    argv: tuple[str, ...] = ()
    cwd: str = ""


def decode(line: bytes) -> KeeperEvent | None:
    """Read one line of a keeper; None where it is torn, empty or garbage."""
    try:
        return _decoder.decode(line)
    except msgspec.MsgspecError:
        return None


def read_result(path: Path) -> LaunchResult:
    """Read what a keeper left; a missing file, a torn last line and garbage are passed over.

    Args:
        path: the file named in the launch's spec.

    Returns:
        What can be read; all fields at their defaults where nothing can.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except (OSError, ValueError):
        return LaunchResult()
    result = LaunchResult()
    for line in lines:
        match decode(line):
            case Up(identity, subreaper, resource, unit):
                result = msgspec.structs.replace(
                    result, keeper=identity, subreaper=subreaper, resource=resource, unit=unit
                )
            case NotStarted():
                result = msgspec.structs.replace(result, not_started=True)
            case Went(argv, cwd):
                result = msgspec.structs.replace(result, went=True, argv=argv, cwd=cwd)
            case Started(leader=leader):
                result = msgspec.structs.replace(result, went=True, leader=leader)
            case Ended(code=code, signal=signum):
                result = msgspec.structs.replace(result, went=True, ended=True, code=code, signal=signum)
            case Closed():
                result = msgspec.structs.replace(result, closed=True)
            case Gone(spared=spared):
                result = msgspec.structs.replace(result, went=True, gone=True, spared=spared)
    return result
