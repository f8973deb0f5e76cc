"""The lock of a home: one supervisor a BUS_HOME. flock, held for its life; its content says who, for people.

No child inherits it, and nothing is decided by the content alone: a pid in a file proves nothing.
"""

import errno
import fcntl
import json
import os
import stat
from pathlib import Path

from interlock.adapters.lock_facts import lock_facts
from interlock.adapters.process import identify
from interlock.protocol.identity import Identity


class HomeLock:
    """Args: path: of the lock file; it stays where it is for ever."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> bool:
        """Take it, or say that another process has it. Raises OSError where the file cannot be opened."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "no regular file: move it away")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        if not self.is_ours():  # replaced between open and lock
            self.release()
            return self.acquire()
        return True

    def write(self, **facts: object) -> None:
        """Say who holds it: pid, start time, boot id, socket."""
        data = json.dumps(facts).encode() + b"\n"
        os.pwrite(self._fd, data, 0)  # first: in the place of the last one's facts there is room on a full disk too
        os.ftruncate(self._fd, len(data))

    def is_ours(self) -> bool:
        """The path still leads to the file that we hold; if not, another supervisor may hold another one."""
        try:
            named, held = os.stat(self._path, follow_symlinks=False), os.fstat(self._fd)
        except OSError:
            return False
        return stat.S_ISREG(named.st_mode) and (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def living_holder(path: Path) -> Identity | None:
    """Whoever wrote the lock file as a supervisor, if it is proved that this very process lives."""
    facts = holder(path)
    pid = facts.get("pid")
    found = identify(pid) if isinstance(pid, int) and pid > 0 else None
    same = found is not None and (found.start_ticks, found.boot) == (facts.get("start_ticks"), facts.get("boot"))
    return found if same else None


def holder(path: Path) -> dict[str, object]:
    """What the lock file says of its holder; empty where it says nothing."""
    try:
        return lock_facts(str(path))
    except (OSError, ValueError):
        return {}
