"""What a keeper makes of its own process before and after it starts the command."""

import os
import sys

from interlock.adapters.lean import suppress

try:
    import _ctypes  # what `ctypes` is made of, without all that it makes ready
except ImportError:  # a Python without it is no sub-reaper, and says so
    _ctypes = None  # type: ignore[assignment]  # the only way to say so

PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36


def become_subreaper() -> bool:
    """Inherit every orphan of our tree; False where the system cannot."""
    try:
        ourselves = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # as dlopen(3) has it, so has this
        prctl = _ctypes.dlsym(ourselves, "prctl")
        _ctypes.call_function(prctl, (PR_SET_NAME, b"bus-keeper", 0, 0, 0))  # for people who look at ps
        return bool(_ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0)
    except (OSError, AttributeError, TypeError):
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
    """Let go of the command's stdin, stdout and stderr, and of what else it was given: whoever reads any of it would
    wait for us as well. What is ours no program inherits; so what one would inherit is the command's."""
    with suppress(OSError):
        for fd in map(int, os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")):
            with suppress(OSError):  # the listing's own has gone
                if fd > 2 and os.get_inheritable(fd):
                    os.close(fd)
    try:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in (0, 1, 2):
            os.dup2(null, fd, inheritable=False)
    except OSError:
        return
