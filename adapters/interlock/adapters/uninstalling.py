"""What a bus has made on this machine for one home, and how that is taken away without touching anything else.

It removes by name, never a folder as a whole because it is called a home: BUS_HOME may be set to anything, to a folder
too in which somebody had a `log` or a `bus.png` before. What the bus did not write stays, and the folder around it.
"""

import contextlib
import errno
import os
import re
import shutil
from pathlib import Path

from interlock.adapters.flock import HomeLock
from interlock.adapters.homes import short_path
from interlock.adapters.launch_result import read_result
from interlock.adapters.launches import LAUNCH_NAME
from interlock.adapters.paths import Home, is_of_a_home
from interlock.adapters.process import probe
from interlock.adapters.small_files import read_regular
from interlock.adapters.tokens import is_token_file
from interlock.coordinator.state_text import is_ours
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.limits import STATE_FILE_BYTES_MAX
from interlock.protocol.names import key_of_state_file

FOLDERS = {  # in a home, made by the bus, and what it writes there
    "launches": re.compile(rf"{LAUNCH_NAME.pattern}\.jsonl.*|[0-9a-f]{{16}}\.probe"),
    "log": re.compile(rf"(supervisor|launchd)\.log(\.\d+)?|{LAUNCH_NAME.pattern}\.log"),
    "tmux": re.compile(r"[0-9a-f]{12}(\..*)?"),
    "shared-resources": re.compile(r"\.numbers|\.tmp-[0-9a-f]+"),  # and state files, which say so
    "tokens": re.compile(r"\.known\.json|\.tmp-[0-9a-f]+"),  # and files that hold one, see tokens.py
    "inboxes": re.compile(r"(?!)"),  # each with what lies in it, see `_is_inbox`
}


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
        removed = [entry for entry in own_entries(home) if _remove(entry)]
        for entry in short_sockets(home):
            entry.unlink(missing_ok=True)
            removed.append(entry)
        for folder in (Path(short_path(str(home.root))).parent, home.root):
            with contextlib.suppress(OSError):  # somebody's files are in it, or it was not there
                os.rmdir(folder)
    finally:
        lock.release()
    return removed


def _remove(entry: Path) -> bool:
    """Remove a file of ours, or what is ours in a folder. Returns whether nothing of it is left."""
    if not entry.is_dir() or entry.is_symlink():
        entry.unlink(missing_ok=True)
        return True
    if entry.name not in FOLDERS:
        return False
    for each in list(entry.iterdir()):
        if entry.name == "inboxes" and _is_inbox(each):
            shutil.rmtree(each)
        elif not each.is_dir() and (FOLDERS[entry.name].fullmatch(each.name) or _is_known_by_content(each)):
            each.unlink(missing_ok=True)
    try:
        entry.rmdir()
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        return False
    return True


def _is_inbox(folder: Path) -> bool:
    made = all((folder / name).is_dir() for name in ("new", "cur", "tmp", "rejected", "relay"))
    return made and not folder.is_symlink()


def _is_known_by_content(path: Path) -> bool:
    return is_token_file(str(path)) if path.parent.name == "tokens" else _is_state_file(path)


def _is_state_file(path: Path) -> bool:
    if path.parent.name != "shared-resources" or key_of_state_file(path.name) is None:
        return False
    try:
        return is_ours(read_regular(str(path), STATE_FILE_BYTES_MAX))
    except OSError:
        return False
