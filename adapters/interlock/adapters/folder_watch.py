"""The folder watch: says which folder something has happened in. Only a hint: what is there is looked up.

    Linux      inotify, through the C library: it wakes nobody while nothing happens
    elsewhere  watchfiles
    neither    `works` is False, and folders are looked through every 2 s whether they are in use or not

Why not watchfiles everywhere: its thread wakes twenty times a second at rest (ADR 12).
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import structlog

log = structlog.get_logger("folder_watch")
MOVED_FROM, MOVED_TO, CREATE, CLOSE_WRITE, DELETE, MODIFY = 0x40, 0x80, 0x100, 0x8, 0x200, 0x2
ARRIVALS = MOVED_TO | CREATE | CLOSE_WRITE
DEPARTURES = MOVED_FROM | DELETE
_ONLYDIR, _DONT_FOLLOW = 0x01000000, 0x02000000
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_EVENT = struct.Struct("iIII")
_STEP_MS = 250  # of watchfiles: it wakes so often, and a file is seen so late


class Inotify:
    """Linux. Args: hear: called with (directory, name, renamed into it); with no directory where anything may be."""

    def __init__(self, hear: Callable[[Path | None, str, bool], None]) -> None:
        self._hear = hear
        self._library = ctypes.CDLL(None, use_errno=True)
        self._fd = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._paths: dict[int, Path] = {}
        self._watches: dict[Path, int] = {}
        self.works = self._fd >= 0

    def start(self) -> None:
        """Hear from now on."""
        if self.works:
            asyncio.get_running_loop().add_reader(self._fd, self.read)

    def stop(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            self.close()

    def close(self) -> None:
        """Where it was never started: whoever waits for `fileno` reads himself."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def fileno(self) -> int:
        return int(self._fd)

    def add(self, path: Path, mask: int, *, file: bool = False) -> None:
        """Watch a directory, or one file; again is once. Where that cannot be, `works` turns False."""
        flags = mask | _DONT_FOLLOW | (0 if file else _ONLYDIR)
        watch = self._library.inotify_add_watch(self._fd, os.fsencode(path), flags)
        if watch < 0:
            code = ctypes.get_errno()
            if code in {errno.ENOSPC, errno.ENOMEM, errno.EBADF, errno.ENOSYS} and self.works:
                log.warning("cannot_watch", path=str(path), why=os.strerror(code))
                self.works = False
            return
        self._paths[watch] = path
        self._watches[path] = watch

    def drop(self, path: Path) -> None:
        watch = self._watches.pop(path, None)
        if watch is not None and self._paths.pop(watch, None) is not None:
            self._library.inotify_rm_watch(self._fd, watch)

    def read(self) -> None:
        """Hear what has happened since."""
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            return
        at = 0
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
            path = self._paths.get(watch)
            if mask & _OVERFLOW:
                self._hear(None, "", False)
            elif mask & _IGNORED:  # the directory is gone, or exchanged
                self._paths.pop(watch, None)
                if path is not None and self._watches.get(path) == watch:
                    del self._watches[path]
                    self._hear(None, "", False)
            elif path is not None:
                self._hear(path, name, bool(mask & MOVED_TO))


class Watchfiles:
    """Elsewhere. The same, from watchfiles; it watches the whole tree below `root`, whatever is added."""

    def __init__(self, hear: Callable[[Path | None, str, bool], None], root: Path) -> None:
        self._hear = hear
        self._root = root
        self._task: asyncio.Task[None] | None = None
        self._stop = anyio.Event()
        self.works = True

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        self._stop.set()  # not by cancelling: its thread looks at this, and at nothing else

    def add(self, path: Path, mask: int, *, file: bool = False) -> None:
        del path, mask, file

    def drop(self, path: Path) -> None:
        del path

    async def _run(self) -> None:
        try:
            from watchfiles import awatch

            async for changes in awatch(
                self._root,
                watch_filter=None,
                step=_STEP_MS,
                rust_timeout=60_000,
                stop_event=self._stop,
            ):
                for path in {Path(changed) for _, changed in changes}:
                    self._hear(path.parent, path.name, False)
        except (ImportError, OSError, RuntimeError) as error:
            log.warning("cannot_watch", path=str(self._root), why=str(error))
            self.works = False
            self._hear(None, "", False)


FolderWatch = Inotify | Watchfiles


def folder_watch(hear: Callable[[Path | None, str, bool], None], root: Path) -> FolderWatch:
    """The watch of this system."""
    with contextlib.suppress(AttributeError, OSError):
        if sys.platform == "linux":
            return Inotify(hear)
    return Watchfiles(hear, root)
