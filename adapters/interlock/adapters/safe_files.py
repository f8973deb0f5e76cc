"""Files in a folder that others write to: opened from a directory's descriptor, one name at a time, no link followed.

Whoever writes there may be wrong or hostile, so nothing is trusted twice: what is looked at is what is read.
"""

import errno
import heapq
import os
import stat
import time
from collections.abc import Callable
from typing import NamedTuple

from interlock.adapters.private_files import DIRECTORY, write_new
from interlock.adapters.small_files import SAFE, read_at_most

TICK_NS = 10_000_000  # the clock of file times may be so far behind


class Unsafe(Exception):
    """It is not used; the text is one sentence without a full stop."""


class Exchanged(Unsafe):
    """It is not what was looked at any more: somebody else's work is under way, and it is looked at again."""


class Found(NamedTuple):
    """One entry of a folder. Times in nanoseconds since the epoch."""

    name: str
    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int
    device: int
    why_not: str  # why it cannot be read as a file; "" where it can


def open_directory(name: str, at: int | None = None) -> int:
    """Open a real directory of ours; its descriptor, for the caller to close.

    Raises:
        FileNotFoundError: there is nothing of that name.
        Unsafe: a link, a file, somebody else's, or open to others.
    """
    try:
        fd = os.open(name, DIRECTORY, dir_fd=at)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise Unsafe(f"{name} is a link or a file, not a directory") from None
        raise Unsafe(f"{name} cannot be opened ({error.strerror})") from None
    found = os.fstat(fd)
    if not is_ours(found.st_uid):
        os.close(fd)
        raise Unsafe(f"{name} belongs to user {found.st_uid}")
    if stat.S_IMODE(found.st_mode) & 0o077:
        try:
            os.fchmod(fd, 0o700)
        except OSError:
            os.close(fd)
            raise Unsafe(f"{name} is open to others") from None
    return fd


def make_directory(name: str, at: int | None = None) -> int:
    """The same, made with 0700 where it is missing."""
    try:
        return open_directory(name, at)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(name, 0o700, dir_fd=at)
    except FileExistsError:
        pass
    except OSError as error:
        raise Unsafe(f"{name} cannot be made ({error.strerror})") from error
    try:
        return open_directory(name, at)
    except FileNotFoundError:
        raise Unsafe(f"{name} vanishes as it is made") from None


def is_ours(uid: int) -> bool:
    """This user's, or root's: a container may write as root."""
    return uid in {os.getuid(), 0}


def look_at(name: str, at: int) -> Found | None:
    """What a name stands for now, without opening or following it; None where it is gone."""
    try:
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
    except OSError:
        return None
    return _found(name, found)


def oldest(directory: int, limit: int, wanted: Callable[[Found], bool] = lambda _: True) -> list[Found]:
    """The `limit` oldest entries that are wanted, the oldest first. What it keeps in memory does not grow.

    Of two files that come while a directory is read, the second may be seen without the first: then it is read again,
    so that nothing is taken before what came before it.
    """
    begun_ns = time.time_ns()
    found = _oldest(directory, limit, wanted)
    if any(each.ctime_ns >= begun_ns - TICK_NS for each in found):
        last = _age(found[-1])
        found = [each for each in _oldest(directory, limit, wanted) if _age(each) <= last]
    return found


def _oldest(directory: int, limit: int, wanted: Callable[[Found], bool]) -> list[Found]:
    with os.scandir(directory) as entries:
        looked = (look_at(entry.name, directory) for entry in entries)
        return heapq.nsmallest(limit, (each for each in looked if each is not None and wanted(each)), key=_age)


def _age(found: Found) -> tuple[int, str]:
    return found.mtime_ns, found.name


def read_file(found: Found, at: int, bytes_max: int) -> bytes:
    """Read at most so much of a regular file with one name. It never waits.

    Raises:
        Exchanged: it is not what was looked at any more, or was written to while it was read.
        Unsafe: it cannot be read.
    """
    try:
        fd = _open(found, at, os.O_RDONLY)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP, errno.ENXIO}:  # it was a regular file a moment ago
            raise Exchanged("it was exchanged while it was looked at") from None
        raise Unsafe(f"it cannot be read ({error.strerror})") from None
    try:
        if not _is_still(found, os.fstat(fd)):
            raise Exchanged("it was exchanged while it was looked at")
        data = read_at_most(fd, bytes_max)
        if not _is_still(found, os.fstat(fd)):
            raise Exchanged("it was written to while it was read")
        return data
    except OSError as error:
        raise Unsafe(f"it cannot be read ({error.strerror})") from None
    finally:
        os.close(fd)


def open_regular(name: str, at: int, flags: int) -> int:
    """Open a regular file with one name, ours, for more than one look; the caller closes it. Raises Unsafe, OSError."""
    found = look_at(name, at)
    if found is None:
        raise Unsafe("it is not there")
    return _open(found, at, flags)


def last_byte(found: Found, at: int) -> bytes:
    """The last byte of a regular file; b"" where there is none or it cannot be read."""
    if not found.size:
        return b""
    try:
        fd = _open(found, at, os.O_RDONLY)
    except (OSError, Unsafe):
        return b""
    try:
        return os.pread(fd, 1, found.size - 1)
    except OSError:
        return b""
    finally:
        os.close(fd)


def write_file(name: str, data: bytes, through: int, into: int) -> None:
    """Put a file there whole: written in one directory, renamed into the other. Raises OSError."""
    try:
        write_new(through, name, data)
    except FileExistsError:  # left by one that was killed as it wrote
        os.unlink(name, dir_fd=through)
        write_new(through, name, data)
    os.rename(name, name, src_dir_fd=through, dst_dir_fd=into)


def is_same(found: Found, now: Found | None) -> bool:
    """It is the very file that was found, with what it held then: an inode alone is soon another file's.

    The change time may differ: chmod, or a backup's link, makes no other message of it.
    """
    return now is not None and now._replace(ctime_ns=found.ctime_ns) == found


def _is_still(found: Found, opened: os.stat_result) -> bool:
    return is_same(found, _found(found.name, opened))


def _found(name: str, said: os.stat_result) -> Found:
    return Found(name, said.st_mtime_ns, said.st_ctime_ns, said.st_size, said.st_ino, said.st_dev, _why_not(said))


def _open(found: Found, at: int, flags: int) -> int:
    """Open what was looked at, and nothing else. Raises OSError; Unsafe where it may not be read; Exchanged."""
    if found.why_not:
        raise Unsafe(found.why_not)
    fd = os.open(found.name, flags | SAFE | os.O_NOFOLLOW, dir_fd=at)
    opened = _found(found.name, os.fstat(fd))
    if opened.why_not or (opened.inode, opened.device) != (found.inode, found.device):
        os.close(fd)
        raise Exchanged("it was exchanged while it was looked at")
    return fd


def _why_not(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return f"it is {_kind(found.st_mode)}, and only a regular file is read"
    if found.st_nlink != 1:
        return f"it has {found.st_nlink} names (hard links): write it as a file of its own"
    if not is_ours(found.st_uid):
        return f"it belongs to user {found.st_uid}"
    return ""


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
    )  # fmt: skip
    return next((name for test, name in kinds if test(mode)), "no file")
