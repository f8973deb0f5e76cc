"""What a bus has made on this machine for one home, and how that is taken away without touching anything else.

It removes by name, never a folder as a whole because it is called a home: BUS_HOME may be set to anything.
"""

import contextlib
import os
import shutil
from pathlib import Path

from interlock.adapters.flock import HomeLock
from interlock.adapters.homes import short_path
from interlock.adapters.launch_result import read_result
from interlock.adapters.paths import Home, is_of_a_home
from interlock.adapters.process import probe
from interlock.protocol.identity import Identity, Presence


class StillRunning(Exception):
    """Something of the bus lives; the text says what, and what to do."""


def own_entries(home: Home) -> list[Path]:
    """What lies in the home and is the bus's; empty where that is no home of a bus."""
    if not (home.lock.is_file() or home.database.is_file()):
        return []
    return sorted(entry for entry in home.root.iterdir() if is_of_a_home(entry.name))


def foreign_entries(home: Home) -> list[Path]:
    """What lies in the home and is somebody else's: it stays."""
    return sorted(entry for entry in home.root.iterdir() if not is_of_a_home(entry.name)) if home.root.is_dir() else []


def short_sockets(home: Home) -> list[Path]:
    """This home's sockets in the short directory."""
    start = Path(short_path(str(home.root)))
    with contextlib.suppress(OSError):
        return sorted(entry for entry in start.parent.iterdir() if entry.name.startswith(start.name))
    return []


def living_keepers(home: Home) -> list[Identity]:
    """Who still keeps a server or a command of this home."""
    with contextlib.suppress(OSError):
        keepers = (read_result(path).keeper for path in home.launches.glob("*.jsonl"))
        return [each for each in keepers if each is not None and probe(each) is Presence.ALIVE]
    return []


def remove_home(home: Home) -> list[Path]:
    """Remove what is ours, under the home's lock so that no supervisor begins meanwhile; what that was.

    Raises:
        StillRunning: a supervisor, a server or a command of this home lives; nothing is removed.
        OSError: something cannot be removed.
    """
    if keepers := living_keepers(home):
        pids = ", ".join(str(each.pid) for each in keepers)
        raise StillRunning(f"servers or commands of this bus still run (keeper pid {pids}): end them, then again")
    lock = HomeLock(home.lock)
    if not lock.acquire():
        raise StillRunning("a supervisor of this home still runs: bus down, then again")
    try:
        removed = own_entries(home)
        for entry in removed:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)
        for entry in short_sockets(home):
            entry.unlink(missing_ok=True)
            removed.append(entry)
        for folder in (Path(short_path(str(home.root))).parent, home.root):
            with contextlib.suppress(OSError):  # somebody's files are in it, or it was not there
                os.rmdir(folder)
    finally:
        lock.release()
    return removed
