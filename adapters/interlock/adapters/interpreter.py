"""The interpreter of a supervisor: its open files, its loop, its collector of cycles."""

import contextlib
import gc
import resource
import sys

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
