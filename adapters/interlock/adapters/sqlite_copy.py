"""A copy of the log in a new SQLite file beside the database, durable once it is whole. Implements store.Copy.

It never touches the database itself: rows come from the one connection there is, through the journal.
"""

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial

import anyio.to_thread

from interlock.adapters.paths import COPY_PART, COPY_PREFIX, Home
from interlock.adapters.sqlite import APPEND, MIGRATIONS, SAVE
from interlock.coordinator.store import Row, Snapshot

_being_made: set[str] = set()  # by this process; what else is not whole has a dead writer


class SqliteCopy:
    """Args: home: in whose folder it is made; whoever asked for it takes it away from there."""

    def __init__(self, home: Home) -> None:
        self._whole = str(home.root / f"{COPY_PREFIX}{secrets.token_hex(8)}")
        self._path = self._whole + COPY_PART
        self._connection: sqlite3.Connection | None = None
        self._is_whole = False

    async def add(self, rows: Sequence[Row]) -> None:
        await _in_thread(partial(self._add, rows))

    async def finish(self, snapshot: Snapshot | None) -> str:
        await _in_thread(partial(self._finish, snapshot))
        return self._whole

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._close)

    def _add(self, rows: Sequence[Row]) -> None:
        if self._connection is None:
            _being_made.add(self._path)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._connection = connection
            # Nobody sees it before it is whole: no journal of its own, and one fsync at the end.
            for setting in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
                connection.execute(f"PRAGMA {setting}")
            for number, statements in enumerate(MIGRATIONS, start=1):
                for statement in (*statements, f"PRAGMA user_version={number}"):
                    connection.execute(statement)
        values = [(row.index, row.first_seq, row.last_seq, row.at_ms, row.hash, row.body) for row in rows]
        self._connection.execute("BEGIN")
        self._connection.executemany(APPEND, values)
        self._connection.execute("COMMIT")

    def _finish(self, snapshot: Snapshot | None) -> None:
        assert self._connection is not None, "a copy of nothing"
        if snapshot is not None:
            self._connection.execute(SAVE, (snapshot.index, snapshot.hash, snapshot.body))
        self._connection.close()
        self._connection = None
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(self._path, self._whole)
        self._is_whole = True

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
        if not self._is_whole:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        _being_made.discard(self._path)


def is_left(path: str) -> bool:
    """A copy that is not whole, and that nobody makes any more: there is one supervisor a home, and this is it."""
    return path.endswith(COPY_PART) and path not in _being_made


async def _in_thread(work: Callable[[], None]) -> None:
    """Raises OSError, also for what SQLite says."""
    try:
        await anyio.to_thread.run_sync(work)
    except sqlite3.Error as error:
        raise OSError(0, str(error)) from error
