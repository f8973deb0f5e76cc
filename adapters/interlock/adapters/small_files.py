"""Small files that somebody else may have written: read whole, bounded, never waiting for a pipe or a device."""

import errno
import os
import stat

# What nobody opens without: it waits for no pipe's writer, is no terminal of ours, and no child has it.
SAFE = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_regular(path: str, bytes_max: int, *, at: int | None = None, follow: bool = False) -> bytes:
    """A regular file's content, or one byte more than `bytes_max` of it.

    Args:
        path: of the file. bytes_max: the caller refuses what is longer. follow: a link at the path's end is followed.
        at: descriptor of the folder that the path begins in.

    Raises:
        OSError: as open(2) says; ELOOP for a link; EINVAL, "no regular file", for a directory, pipe, device or socket.
    """
    fd = os.open(path, os.O_RDONLY | SAFE | (0 if follow else os.O_NOFOLLOW), dir_fd=at)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "no regular file", path)
        return read_at_most(fd, bytes_max + 1)
    finally:
        os.close(fd)


def read_at_most(fd: int, bytes_max: int) -> bytes:
    """What an open file still has, and no more of it than that. Raises OSError."""
    chunks, left = [], bytes_max
    while left > 0 and (chunk := os.read(fd, left)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)
