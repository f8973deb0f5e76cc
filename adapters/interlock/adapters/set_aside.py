"""Setting a database aside that cannot be used, under a name that nothing opens. It deletes nothing, opens nothing."""

import os
import time

from interlock.adapters.flock import HomeLock
from interlock.adapters.paths import Home

PARTS = ("", "-wal", "-shm", "-journal")  # what SQLite has beside a database belongs to it


class InUse(Exception):
    """A supervisor has the home's lock."""


def set_aside(home: Home) -> str:
    """Rename the home's database, whatever it is, and what belongs to it.

    Returns:
        Its new path; "" where there was none.

    Raises:
        InUse: nothing was done.
        OSError: it cannot be renamed.
    """
    lock = HomeLock(home.lock)
    if not lock.acquire():
        raise InUse
    try:
        aside = f"{home.database}.aside-{time.strftime('%Y%m%dT%H%M%S')}"
        while any(os.path.lexists(aside + part) for part in PARTS):
            aside += "x"
        moved = [part for part in PARTS if os.path.lexists(f"{home.database}{part}")]
        for part in moved:
            os.rename(f"{home.database}{part}", aside + part)
        return aside if moved else ""
    finally:
        lock.release()
