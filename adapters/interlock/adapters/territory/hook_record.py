"""What is known of hooks that were installed: a file in the common git directory, so that they can be taken away."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator

import msgspec

from interlock.adapters.private_files import read_whole, write_whole
from interlock.adapters.territory.hook_text import MODES

RECORD = "hooks.json"
RECORD_BYTES_MAX = 256 * 1024
WAIT_S = 5.0  # for another command that installs or removes; either takes milliseconds


class Busy(Exception):
    """Another command installs or removes hooks here."""


class Record(msgspec.Struct, frozen=True):
    """Hooks that were installed.

    Args:
        token: of this installation. mode: one of hook_text.MODES. bus: the command that they call; "": that of PATH.
        directory: where they are. own: it is our own folder, and core.hooksPath leads to it.
        former: the folder whose hooks ours call; "" where these are kept beside.
        raw: what the repository's configuration had for core.hooksPath; None: nothing.
        hooks: the names of those that call bus. made: folders that were not there before.
        at: wire time.
    """

    token: str
    mode: str
    bus: str
    directory: str
    own: bool = False
    former: str = ""
    raw: str | None = None
    hooks: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    at: str = ""
    version: int = 1


def read_record(folder: str) -> Record | None:
    """What was installed; None where nothing was, or it cannot be read. Args: folder: ours in the git directory."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        data = read_whole(fd, RECORD, RECORD_BYTES_MAX)
    finally:
        os.close(fd)
    try:
        record = msgspec.convert(json.loads(data), Record) if data else None
    except (msgspec.MsgspecError, ValueError):
        return None
    return record if record is not None and record.mode in MODES else None


def write_record(folder: str, record: Record) -> None:
    """Write it, whole. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        text = json.dumps(msgspec.to_builtins(record), indent=1)  # a path that is not UTF-8 too, which msgspec refuses
        write_whole(fd, RECORD, text.encode() + b"\n", durable=True)
    finally:
        os.close(fd)


def forget_record(folder: str) -> None:
    """Remove the record, and the folder where nothing else is in it. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, RECORD))
    with contextlib.suppress(OSError):
        os.rmdir(folder)


@contextlib.contextmanager
def one_at_a_time(common: str) -> Iterator[None]:
    """Nobody else installs or removes meanwhile. Args: common: the common git directory. Raises Busy, OSError."""
    fd = os.open(common, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Busy from None
                time.sleep(0.02)
        yield
    finally:
        os.close(fd)
