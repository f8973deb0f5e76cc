"""Where tests put their homes and repositories: in memory where that can be, under a short path."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

ENOUGH_BYTES = 2 << 30


def _is_fit(folder: str) -> bool:
    """It can be written to, what stands in it can be executed, and it has room: a container's may lack any of these."""
    try:
        about = os.statvfs(folder)
    except OSError:
        return False
    roomy = about.f_bavail * about.f_frsize >= ENOUGH_BYTES
    return roomy and not about.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK | os.X_OK)


# A killed process loses nothing that it wrote to a disk either; what asks a disk is in tests/crashes.
# On macOS the usual folder has too long a name for a socket.
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() and _is_fit("/dev/shm") else "/tmp"


@contextlib.contextmanager
def folder(*, ignore_cleanup_errors: bool = False) -> Iterator[Path]:
    """A fresh one there, its owner's alone, by its real path; removed at the end."""
    with tempfile.TemporaryDirectory(prefix="ilk-", dir=SCRATCH, ignore_cleanup_errors=ignore_cleanup_errors) as made:
        yield Path(os.path.realpath(made))
