"""The home watch: says when a home may be gone, moved, or another's, so that no supervisor serves where nobody looks.

Linux only, by inotify, which wakes nobody while nothing happens. Elsewhere it is noticed when somebody connects.
"""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from interlock.adapters.folder_watch import Inotify
from interlock.adapters.paths import Home

ATTRIB, DELETE_SELF, MOVE_SELF = 0x4, 0x400, 0x800


class HomeWatch:
    """Args: look: called when something has happened to the home itself, or to its lock file; it may be nothing."""

    def __init__(self, home: Home, look: Callable[[], object]) -> None:
        def hear(path: Path | None, name: str, renamed: bool) -> None:
            look()

        self._inotify: Inotify | None = None
        with contextlib.suppress(AttributeError, OSError):
            if sys.platform == "linux":
                self._inotify = Inotify(hear)
                # A file that is open is not deleted before it is closed: that its last name goes is a change of it.
                self._inotify.add(home.lock, ATTRIB | MOVE_SELF, file=True)
                self._inotify.add(home.root, DELETE_SELF | MOVE_SELF)

    def start(self) -> None:
        """Hear from now on."""
        if self._inotify is not None:
            self._inotify.start()

    def stop(self) -> None:
        if self._inotify is not None:
            self._inotify.stop()
