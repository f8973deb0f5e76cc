"""Housekeeping: what launches that are long over have left behind in a home. Run once at the start of a supervisor."""

import contextlib
import os
import time

from interlock.adapters.launches import LAUNCH_NAME
from interlock.adapters.paths import COPY_PREFIX, Home
from interlock.adapters.survivors import survivors
from interlock.adapters.terminals import sweep_windows
from interlock.coordinator.world import World

RESULTS_KEPT_MS = 24 * 3_600_000  # a result that no state refers to any more is evidence for a day


def sweep(home: Home, world: World, keep_ms: int) -> int:
    """Remove results, logs and sockets of windows that nothing refers to and that are old. Returns how many.

    Args:
        world: as replayed; what it knows of is left alone.
        keep_ms: how long logs are kept (`[bus] keep`).
    """
    known, removed = set(world.launches()), 0
    alive = {each.launch for each in survivors(home)}  # nobody knows of it, but only its report tells whose it is
    for folder, suffix, kept_ms in ((home.launches, ".jsonl", RESULTS_KEPT_MS), (home.logs, ".log", keep_ms)):
        before_s = time.time() - kept_ms / 1000
        for entry in os.scandir(folder):
            name, dot, _ = entry.name.rpartition(suffix)
            if not dot or name in known or not LAUNCH_NAME.fullmatch(name):
                continue
            with contextlib.suppress(OSError):
                old = entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < before_s
                if old and name not in alive:
                    os.unlink(entry.path)
                    removed += 1
    removed += _unfinished_copies(home)
    return removed + sweep_windows(home.root, known)


def _unfinished_copies(home: Home) -> int:
    """Backups that nobody took away."""
    before_s, removed = time.time() - RESULTS_KEPT_MS / 1000, 0
    for entry in os.scandir(home.root):
        with contextlib.suppress(OSError):
            is_copy = entry.name.startswith(COPY_PREFIX) and entry.is_file(follow_symlinks=False)
            if is_copy and entry.stat(follow_symlinks=False).st_mtime < before_s:
                os.unlink(entry.path)
                removed += 1
    return removed
