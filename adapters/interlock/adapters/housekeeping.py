"""Housekeeping: what launches that are long over have left behind in a home. Run once at the start of a supervisor."""

import contextlib
import os
import time
from collections.abc import Iterator

from interlock.adapters.paths import Home
from interlock.adapters.survivors import survivors
from interlock.coordinator.world import World

RESULTS_KEPT_MS = 24 * 3_600_000  # a result that no state refers to any more is evidence for a day


def sweep(home: Home, world: World, keep_ms: int) -> int:
    """Remove results and logs that nothing refers to and that are old. Returns how many.

    Args:
        world: as replayed; what it knows of is left alone.
        keep_ms: how long logs are kept (`[bus] keep`).
    """
    known, removed = set(_launches(world)), 0
    alive = {each.launch for each in survivors(home)}  # nobody knows of it, but only its report tells whose it is
    for folder, suffix, kept_ms in ((home.launches, ".jsonl", RESULTS_KEPT_MS), (home.logs, ".log", keep_ms)):
        before_s = time.time() - kept_ms / 1000
        for entry in os.scandir(folder):
            name, dot, _ = entry.name.rpartition(suffix)
            if not dot or name in known or name == "supervisor":
                continue
            with contextlib.suppress(OSError):
                old = entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < before_s
                if old and name not in alive:
                    os.unlink(entry.path)
                    removed += 1
    return removed


def _launches(world: World) -> Iterator[str]:
    """Every launch that some state still speaks of."""
    for resource in world.resources.values():
        for unit in resource.units:
            yield from unit.launches
            if unit.server is not None:
                yield unit.server.launch
            if unit.step is not None and unit.step.launch:
                yield unit.step.launch
