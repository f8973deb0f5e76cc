"""What /proc shows of a process's memory, its command line and its environment, also in the midst of `execve`.

Then it shows nothing, for a moment: its new memory is there, and not filled yet. Nothing is also what it shows of a
process that has no arguments, or made them unreadable; those are what they are, and are not waited for.
"""

import os
import time

EXECVE_S = 1.0  # it takes far less; what takes longer is taken for what it shows
PAUSE_S = 0.001


def read_memory(pid: int, what: str, most: int) -> bytes:
    """At most that many bytes of `cmdline` or `environ`.

    Raises:
        OSError: it has gone, or may not be read.
    """
    end = time.monotonic() + EXECVE_S
    seen: list[bytes] = []
    while True:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            raw = file.read(most)
        if raw:
            return raw
        image = _image(pid)
        if not image or image == seen or time.monotonic() > end:
            return raw  # no memory at all, or the same program before and after that look
        if is_filled(image):
            seen = image
        else:
            time.sleep(PAUSE_S)


def is_filled(image: list[bytes]) -> bool:
    """The kernel says where its code lies last of all."""
    return image[0] != b"0"


def _image(pid: int) -> list[bytes]:
    """Where a program's code, arguments and environment lie; empty for what has no memory, such as a zombie."""
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fields = os.read(fd, 4096).rpartition(b")")[2].split()  # from field 3 of proc(5) on
    finally:
        os.close(fd)
    return [] if fields[20] == b"0" else [fields[23], *fields[45:49]]
