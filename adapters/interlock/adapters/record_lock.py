"""Record locks: a file says by a lock who lives at its other end, and the kernel says which process that is.

POSIX locks, since they can be asked about without being taken. A process loses its lock with the first descriptor of
that file that it closes: whoever holds one opens the file once. Standard library only: the command's short way uses it.
"""

import fcntl
import os
import struct
import sys

# struct flock: Linux has type, whence, start, len, pid; macOS and the BSDs start, len, pid, type, whence.
_LINUX = sys.platform == "linux"
_FORM = struct.Struct("@hhqqi4x" if _LINUX else "@qqihh")


def take(fd: int) -> bool:
    """Hold a file opened for writing, for as long as this process lives; False where another one does."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def holder(fd: int) -> int | None:
    """The pid of the process that holds it, 0 where it cannot be seen from here; None where nobody does."""
    asked = (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0) if _LINUX else (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
    found = _FORM.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, _FORM.pack(*asked)))
    kind, pid = (found[0], found[4]) if _LINUX else (found[3], found[2])
    return None if kind == fcntl.F_UNLCK else max(pid, 0)
