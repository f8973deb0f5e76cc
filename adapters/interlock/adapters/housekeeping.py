"""Housekeeping, for a supervisor that runs for months.

What launches that are long over have left in a home goes at a start, and daily; what nothing lives by any more is
watched for a minute longer at most.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable

import anyio
import structlog

from interlock.adapters.launches import LAUNCH_NAME
from interlock.adapters.paths import COPY_PREFIX, PART_SUFFIX, Home
from interlock.adapters.survivors import survivors
from interlock.adapters.terminals import sweep_windows

log = structlog.get_logger("housekeeping")
EVERY_S = 24 * 3_600.0
LET_GO_EVERY_S = 60.0
RESULTS_KEPT_MS = 24 * 3_600_000  # a result that no state refers to any more is evidence for a day


async def keep_house(
    home: Home, launches: Callable[[], Iterable[str]], keep_ms: Callable[[], int], every_s: float = EVERY_S
) -> None:
    """Sweep again and again, in a thread. Never returns.

    Args: launches, keep_ms: as `sweep` has them, asked each time.
    """
    while True:
        await anyio.sleep(every_s)
        try:
            removed = await anyio.to_thread.run_sync(sweep, home, set(launches()), keep_ms())
            log.info("swept", removed=removed)
        except OSError as error:  # a home that is gone, or full, is somebody else's to notice
            log.warning("not_swept", why=str(error))


async def keep_few_watches(let_go: Callable[[], None], every_s: float = LET_GO_EVERY_S) -> None:
    """Let go of processes again and again: each that is watched costs a descriptor. Never returns."""
    while True:
        await anyio.sleep(every_s)
        try:
            let_go()
        except Exception as error:  # a fault of ours: it costs descriptors, and ends no bus
            log.error("not_let_go", exc_info=error)


def sweep(home: Home, launches: Iterable[str], keep_ms: int) -> int:
    """Remove results, logs and sockets of windows that nothing refers to and that are old. Returns how many.

    Args:
        launches: that some state still speaks of: they are left alone.
        keep_ms: how long logs are kept (`[bus] keep`).
    """
    known, removed = set(launches), 0
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
    removed += _forgotten_copies(home)
    return removed + sweep_windows(home.root, known)


def sweep_parts(home: Home) -> None:
    """Remove what a killed supervisor had of a backup; at a start only, when none is being made."""
    for entry in os.scandir(home.root):
        if entry.name.startswith(COPY_PREFIX) and entry.name.endswith(PART_SUFFIX):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def _forgotten_copies(home: Home) -> int:
    """Backups that nobody took away."""
    before_s, removed = time.time() - RESULTS_KEPT_MS / 1000, 0
    for entry in os.scandir(home.root):
        with contextlib.suppress(OSError):
            is_copy = entry.name.startswith(COPY_PREFIX) and entry.is_file(follow_symlinks=False)
            if is_copy and entry.stat(follow_symlinks=False).st_mtime < before_s:
                os.unlink(entry.path)
                removed += 1
    return removed
