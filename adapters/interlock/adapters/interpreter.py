"""The interpreter of a supervisor: its open files, its loop, its collector of cycles, its memory."""

import contextlib
import ctypes
import gc
import resource
import sys

LARGE_BYTES = 128 * 1024  # glibc's own, before it has seen larger ones go
TOP_BYTES = 1024 * 1024  # kept free at the end of the heap: a burst does not ask the kernel for each piece
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
OPEN_FILES = 32_768  # ten thousand agents, each with a connection and a process that is watched, and room


def collect_seldom() -> None:
    """Messages come and go without cycles; looking for some after every 700 of them takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401 - only whether it is there
    except ImportError:
        return False
    return sys.platform != "win32"


def raise_open_files() -> None:
    """Every connection is a file: ask for as many as the system allows, and leave some for what else is open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def give_back() -> None:
    """What is large stands by itself, and goes back to the kernel when it is freed.

    glibc takes large pieces from its heap once it has freed a few such, and there a small one behind each keeps it:
    after 40,000 lines of garbage of all lengths 42 MiB were in use, and 167 in the process. Elsewhere nothing is done.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    set_option(M_MMAP_THRESHOLD, LARGE_BYTES)
    set_option(M_TRIM_THRESHOLD, TOP_BYTES)
