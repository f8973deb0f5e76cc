"""The folder sweep: what nobody needs any more goes from inbox folders. Read letters and rejected files stay `keep`."""

import contextlib
import os
import time

from interlock.adapters.folders import Folder, Folders
from interlock.adapters.safe_files import Found, oldest
from interlock.protocol.limits import ANSWERS_KEPT

LEFT_S = 36 * 3_600  # what lies in tmp/ so long was left by a writer that ended (Maildir's number)


def sweep_folders(folders: Folders, agents: list[str], keep_ms: int) -> None:
    """Sweep each agent's folder. Args: keep_ms: `[bus] keep`."""
    for agent in agents:
        if folders.path(agent).is_dir():
            folders.using(agent, lambda folder: _sweep(folder, keep_ms))


def _sweep(folder: Folder, keep_ms: int) -> bool:
    _keep(folder["cur"], keep_ms / 1000)
    _keep(folder["rejected"], keep_ms / 1000)
    _keep(folder["new"], keep_ms / 1000, "answer.")
    _keep(folder["tmp"], LEFT_S)
    return True


def _keep(directory: int, keep_s: float, prefix: str = "") -> None:
    """Remove files that are too old, and the oldest of too many; a bounded number at once."""
    before_ns = time.time_ns() - int(keep_s * 1e9)
    mine = [name for name in os.listdir(directory) if name.startswith(prefix)] if prefix else os.listdir(directory)
    too_many = max(0, len(mine) - ANSWERS_KEPT)

    def wanted(found: Found) -> bool:
        return found.name.startswith(prefix) and (too_many > 0 or found.mtime_ns < before_ns)

    if not mine:
        return
    for number, found in enumerate(oldest(directory, ANSWERS_KEPT, wanted)):
        if number < too_many or found.mtime_ns < before_ns:
            with contextlib.suppress(OSError):  # a directory that somebody made there is left alone
                os.unlink(found.name, dir_fd=directory)
