"""What a keeper makes of its own process before and after it starts the command."""

import contextlib
import os
import sys

with contextlib.suppress(ImportError):  # a Python without it is no sub-reaper, and says so
    import ctypes


def become_subreaper() -> bool:
    """Inherit every orphan of our tree; False where the system cannot."""
    try:
        prctl, word = ctypes.CDLL(None).prctl, ctypes.c_ulong
        prctl(15, b"bus-keeper", word(0), word(0), word(0))  # PR_SET_NAME, for people who look at ps
        return bool(prctl(36, word(1), word(0), word(0), word(0)) == 0)  # PR_SET_CHILD_SUBREAPER
    except (NameError, OSError, AttributeError):
        return False


def without_terminal() -> bool:
    """Whether we lead a session that has no terminal: then the command gets one of its own, and `send` its groups."""
    if sys.platform == "linux" and os.getsid(0) == os.getpid():
        try:
            os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError:
            return True
    return False


def detach_output() -> None:
    """Let go of the command's stdin, stdout and stderr: whoever reads them would wait for us as well."""
    try:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in (0, 1, 2):
            os.dup2(null, fd, inheritable=False)
    except OSError:
        return
