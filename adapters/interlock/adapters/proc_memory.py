"""What /proc shows of a process's memory, its command line and its environment, also in the midst of `execve`.

Then it shows nothing, for a moment: its new memory is there, and not filled yet. Nothing is also what it shows of a
process that has no arguments, or made them unreadable; those are what they are, and are not waited for.
"""

import os
from time import monotonic, sleep

EXECVE_S = 1.0  # it takes far less; what takes longer is taken for what it shows
UNTOLD_S = 0.1  # the same for another user's process, which is believed to be in the midst of it for that long only
PAUSE_S = 0.001
UNTOLD = [b"1", b"0", b"0", b"0", b"0"]  # what an image is to whom it is not shown


def read_memory(pid: int, what: str, most: int) -> bytes:
    """At most that many bytes of `cmdline` or `environ`.

    Raises:
        OSError: it has gone, or may not be read.
    """
    begun = monotonic()
    seen: list[bytes] = []
    while True:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            raw = file.read(most)
        if raw:
            return raw
        image = _image(pid)
        if not image or image == seen or monotonic() - begun > (UNTOLD_S if image == UNTOLD else EXECVE_S):
            return raw  # no memory at all, or the same program before and after that look
        if image == UNTOLD or image[0] == b"0":  # where its code lies is filled in last of all
            sleep(PAUSE_S)
        else:
            seen = image


def _image(pid: int) -> list[bytes]:
    """Where a program's code, arguments and environment lie; empty for what has no memory, such as a zombie."""
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fields = os.read(fd, 4096).rpartition(b")")[2].split()  # from field 3 of proc(5) on
    finally:
        os.close(fd)
    return [] if fields[20] == b"0" else [fields[23], *fields[45:49]]
