"""Files of our own, which nobody else may have planted: written whole or not at all, nothing followed on the way.

```text
write:  <name>.tmp-…, created anew ──▶ data ──▶ (fsync) ──▶ rename over whatever had the name ──▶ (fsync of the folder)
```

A link in the place of a file is replaced, not followed; a folder in its place is an error.
"""

import contextlib
import errno
import os
import secrets
import stat

from interlock.adapters.small_files import read_regular

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
TEMPORARY = ".tmp-"
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_folder(path: str) -> int:
    """A descriptor of a folder of this user that is no link. Raises OSError."""
    fd = os.open(path, DIRECTORY)
    if os.fstat(fd).st_uid != os.geteuid():
        os.close(fd)
        raise OSError(errno.EPERM, "it belongs to another user")
    return fd


def walk_to(path: str) -> int:
    """A descriptor of a folder anywhere, made where it is missing. No link on the way is followed.

    Args:
        path: absolute. A link in the root folder itself is the system's own, such as macOS's /tmp.

    Raises:
        OSError: a part is a link, a file, or cannot be made.
    """
    fd, at_root = os.open("/", DIRECTORY), True
    try:
        for part in path.split("/"):
            if part in {"", "."}:
                continue
            if part == "..":
                raise OSError(errno.EINVAL, "it leads upwards ('..')")
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=fd)
            below = os.open(part, DIRECTORY & ~os.O_NOFOLLOW if at_root else DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd, at_root = below, False
    except BaseException:
        os.close(fd)
        raise
    return fd


def write_whole(folder: int, name: str, data: bytes, *, durable: bool = False, mode: int = 0o600) -> None:
    """Put a file of this content under that name. Raises OSError, after which the old one is still there.

    Args:
        folder: descriptor of its directory.
        durable: fsynced, and its name too, when this returns.
        mode: less the umask; only what a person wants to hand on is for others to read.
    """
    temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        write_new(folder, temporary, data, durable=durable, mode=mode)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if durable:
        os.fsync(folder)


def write_new(folder: int, name: str, data: bytes, *, durable: bool = False, mode: int = 0o600) -> None:
    """Create a file of this content. Raises OSError; FileExistsError where something has its name.

    Args:
        folder: descriptor of its directory. durable: its content is fsynced, its name is not. mode: less the umask.
    """
    fd = os.open(name, NEW, mode, dir_fd=folder)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def read_whole(folder: int, name: str, bytes_max: int) -> bytes | None:
    """A regular file's content; None where it is none, is too long or cannot be read. Never waits (a FIFO's writer)."""
    try:
        data = read_regular(name, bytes_max, at=folder)
    except OSError:
        return None
    return data if len(data) <= bytes_max else None


def make_sure(folder: int, name: str) -> None:
    """See that a regular file of that name exists; a link there is taken away. Not durable yet. Raises OSError."""
    for _ in range(2):
        with contextlib.suppress(FileExistsError):
            write_new(folder, name, b"")
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISREG(kind):
            return
        if stat.S_ISDIR(kind):
            raise OSError(errno.EISDIR, "a folder has its name")
        os.unlink(name, dir_fd=folder)
    raise OSError(errno.EEXIST, "something else has its name, again and again")
