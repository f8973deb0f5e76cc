"""The log of a bus that is down, replayed from a copy of its file. The file itself is read once, and never opened.

Nobody may start meanwhile: the home's lock is held while it is copied, and no longer.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec

from interlock.adapters.flock import HomeLock
from interlock.adapters.paths import COPY_PREFIX, Home
from interlock.adapters.sqlite import SqliteStore
from interlock.coordinator.log_care import verify
from interlock.coordinator.store import Unknown, Unusable
from interlock.protocol.control import Progress, Verified

PARTS = ("", "-wal")


def replay_file(home: Home, say: Callable[[int, int], None]) -> tuple[dict[str, Any] | None, str]:
    """Replay it. Args: say: takes how many records of how many are done.

    Returns:
        What VERIFIED says, and "", or None and why it could not be read; None and "" where there is no database.
    """
    copy = home.root / f"{COPY_PREFIX}{secrets.token_hex(8)}"
    try:
        if not _copy(home, copy):
            return None, ""
        verified = anyio.run(_replay, copy, say)
        return dict(msgspec.to_builtins(verified)), ""
    except (Unusable, Unknown) as error:
        return None, str(error).replace(str(copy), str(home.database))
    except OSError as error:
        return None, f"{home.database} cannot be copied ({error.strerror or error})"
    finally:
        for part in (*PARTS, "-shm", "-journal"):
            with suppress(OSError):
                os.unlink(f"{copy}{part}")


def _copy(home: Home, to: Path) -> bool:
    """Copy the database and its log, as nobody is writing them. False where there is none. Raises OSError."""
    size = sum(map(_bytes, (f"{home.database}{part}" for part in PARTS)))
    if not size:
        return False
    lock = HomeLock(home.lock)
    if not lock.acquire():
        raise OSError(0, "a supervisor has just started: ask again")
    try:
        if shutil.disk_usage(home.root).free < 2 * size:
            raise OSError(0, f"a copy of {size} bytes needs more room than there is")
        for part in PARTS:
            _copy_file(f"{home.database}{part}", f"{to}{part}")
        return True
    finally:
        lock.release()


def _bytes(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def _copy_file(source: str, to: str) -> None:
    try:
        reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(reading, "rb") as read:
        if not stat.S_ISREG(os.fstat(reading).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        writing = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(writing, "wb") as write:
            shutil.copyfileobj(read, write, 1024 * 1024)


async def _replay(copy: Path, say: Callable[[int, int], None]) -> Verified:
    store, said = SqliteStore(copy), list[Verified]()

    def hear(body: Progress | Verified) -> None:
        if isinstance(body, Progress):
            say(body.through, body.last)
        else:
            said.append(body)

    try:
        await store.open()
        await verify(store, hear, replay=True)
    finally:
        await store.close()
    return said[0]
