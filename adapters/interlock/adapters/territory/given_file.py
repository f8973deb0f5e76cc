"""Files that somebody names on the command line: what is to be read, bounded; what is written, whole or not at all."""

import errno
import os
import sys

from interlock.adapters.private_files import write_whole
from interlock.adapters.small_files import read_at_most, read_regular
from interlock.adapters.territory.problem import Problem
from interlock.protocol.visible import visible


def read_given(path: str, bytes_max: int) -> bytes:
    """A file's content; `-` is standard input. Raises Problem 65: it cannot be read, or has more bytes than that."""
    name = "stdin" if path == "-" else visible(path)
    try:
        if path != "-":
            data = read_regular(path, bytes_max, follow=True)
        elif sys.stdin is None:
            raise OSError(errno.EBADF, "it is closed")
        else:
            data = read_at_most(sys.stdin.fileno(), bytes_max + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Problem(65, f"{name} cannot be read ({why}): give a file of bus export") from None
    if len(data) > bytes_max:
        raise Problem(65, f"{name} has more than {bytes_max} bytes: write it again with bus export --since")
    return data


def write_given(path: str, data: bytes) -> None:
    """Put a file there that has all of it, over an older one. Raises Problem 73, after which the older one still is."""
    try:
        target = os.path.realpath(path)
        if os.path.lexists(target) and not os.path.isfile(target):
            raise OSError(errno.EINVAL, "no regular file has that name")
        folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            write_whole(folder, os.path.basename(target), data, mode=0o666)
        finally:
            os.close(folder)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Problem(73, f"{visible(path)} cannot be written ({why}): give another name") from None
