"""Small files that somebody else may have written: read whole, bounded, never waiting for a pipe or a device."""

import errno
import os
import stat


def read_regular(path: str, bytes_max: int, *, follow: bool = False) -> bytes:
    """A regular file's content, or one byte more than `bytes_max` of it.

    Args:
        path: of the file. bytes_max: the caller refuses what is longer. follow: a link at the path's end is followed.

    Raises:
        OSError: as open(2) says; ELOOP for a link; EINVAL, "no regular file", for a directory, pipe, device or socket.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    fd = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "no regular file", path)
        chunks, left = [], bytes_max + 1
        while left > 0 and (chunk := os.read(fd, left)):
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)
