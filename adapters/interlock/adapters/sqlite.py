"""The store on SQLite: one connection to one file in one process, one autocommitted row an append.

```text
open:    look at the file ─▶ connect ─▶ whose is it, how new ─▶ WAL, FULL ─▶ migrate ─▶ what replay will show is fsynced
append:  INSERT in the log, fsync ─▶ durable;  every LOG_PAGES the pages move into the file and the log is reused
doubt:   after an Unknown nothing is written until close and open
```

It never opens a second connection (SQLite's write-ahead log has a race that needs two), never knows what a row means,
never truncates the log under load, and never retries: its caller decides.
"""

import contextlib
import os
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiosqlite
import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint_if_cancelled

from interlock.adapters.mounts import network_file_system
from interlock.coordinator.store import SET_ASIDE, NotWritten, Row, Snapshot, Unknown, Unusable

APPLICATION_ID = 0x494C4B31  # "ILK1" in the file's header: `file bus.db` and a foreign database can be told apart.

# One tuple of statements a version, each run in one transaction. Only ever add at the end: old files load for ever.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"PRAGMA application_id={APPLICATION_ID}",
        # The body stands last, so that looking at a row's numbers does not read its overflow pages.
        """CREATE TABLE record (
            idx INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, at_ms INTEGER NOT NULL,
            hash BLOB NOT NULL, body BLOB NOT NULL)""",
        """CREATE TABLE snapshot (
            one INTEGER PRIMARY KEY CHECK (one = 1), idx INTEGER NOT NULL, hash BLOB NOT NULL, body BLOB NOT NULL)""",
    ),
    # Snapshots say nothing twice (ADR 24): an interlock of before would read one, and then find nobody who waits.
    (),
)

BUSY_S_MAX = 0.5  # The supervisor's flock is taken before; a file still locked now will not be free soon.
CALL_S_MAX = 30.0  # A busy disk stalls for seconds; one that has not answered by then is one for a person.
CLOSE_S_MAX = 10.0  # Long enough to move a full log into the file; after it the thread is left to end alone.
PAGE_BYTES = 4_096  # SQLite's own default, and that of the disks below it.
LOG_PAGES = 1_000  # 4 MiB: a checkpoint of some milliseconds, and a recovery too short to notice.
LOG_BYTES_MAX = 8 << 20  # Twice LOG_PAGES: what a large snapshot added is given back at the next round.
LOG_BYTES_ALARM = 64 << 20  # A log this long means that checkpoints fail: then say so instead of growing.
PRUNE_ROWS = 64  # At most 32 MiB of bodies a transaction, so that an append never waits long behind a prune.

APPEND = "INSERT INTO record (idx, first_seq, last_seq, at_ms, hash, body) VALUES (?, ?, ?, ?, ?, ?)"
_ROWS = "SELECT idx, first_seq, last_seq, at_ms, hash, body FROM record WHERE idx > ? ORDER BY idx LIMIT ?"
# Running numbers grow with the index, so halving finds the first row, and an append has no second index to write.
_ROWS_FROM_SEQ = """
WITH RECURSIVE
    half(low, high) AS (
        SELECT min(idx), max(idx) FROM record
        UNION ALL SELECT iif(last_seq < ?1, idx + 1, low), iif(last_seq < ?1, high, idx)
        FROM half JOIN record ON idx = (low + high) / 2 WHERE low < high)
SELECT idx, first_seq, last_seq, at_ms, hash, body FROM record
WHERE idx >= (SELECT max(low) FROM half) AND last_seq >= ?1 AND last_seq >= first_seq ORDER BY idx LIMIT ?2"""
_KEPT = """
SELECT min(idx), coalesce(
    (SELECT idx FROM record WHERE idx > ? OR at_ms >= ? ORDER BY idx LIMIT 1), max(idx)) FROM record"""
SAVE = "INSERT OR REPLACE INTO snapshot (one, idx, hash, body) VALUES (1, ?, ?, ?)"
_ZEROS = 1 << 20  # written at once
_ROOM_TIMES = (
    10  # as much as a log is to grow by at the start must be free: state files and servers' logs need room too
)
_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_ROW_TYPES = (int, int, int, int, bytes, bytes)
_DAMAGED = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
_NOT_WRITTEN = _LOCKED | {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG}


class SqliteStore:
    """`interlock.coordinator.store.Store` over one SQLite file; `async with` opens and closes it.

    Args:
        path: the database; its folder exists. The log lies beside it as `<name>-wal`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()  # Absolute, or SQLite would read a name such as ":memory:" its own way.
        self._log = self._path.with_name(self._path.name + "-wal")
        self._connection: aiosqlite.Connection | None = None
        self._doubt: str | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open or create the file and bring it up to date. Raises Unusable; cancelled, it leaves nothing open."""
        assert self._connection is None, "close the store before opening it again"
        try:
            identity = _inspect(self._path, self._log)
            await self._connect()
            if _identity(self._path) != identity:
                raise Unusable(f"{self._path} was replaced while it was being opened; start again")
            await self._prepare()
            await checkpoint_if_cancelled()
        except BaseException as error:
            # An open connection keeps a thread, and a thread keeps the process: close before anything else.
            await self.close()
            if isinstance(error, (sqlite3.Error, OSError)):
                raise _unusable(self._path, error) from error
            raise

    async def append(self, row: Row) -> None:
        """Keep one row, fsynced when this returns. Raises NotWritten or Unknown; a cancelled caller waits for it."""
        await self._write(APPEND, row.index, row.first_seq, row.last_seq, row.at_ms, row.hash, row.body)

    async def rows(self, after_index: int, limit: int) -> Sequence[Row]:
        """At most `limit` rows with index > after_index, in order. Raises Unusable (damaged) or Unknown."""
        return [self._row(values) for values in await self._read(_ROWS, after_index, limit)]

    async def rows_from_seq(self, seq: int, limit: int) -> Sequence[Row]:
        """At most `limit` rows that hold events numbered `seq` or later, in order. Raises Unusable or Unknown."""
        return [self._row(values) for values in await self._read(_ROWS_FROM_SEQ, seq, limit)]

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot. Raises Unusable (damaged) or Unknown."""
        found = await self._read("SELECT idx, hash, body FROM snapshot")
        if found and tuple(map(type, found[0])) != (int, bytes, bytes):
            raise Unusable(f"{self._path} is damaged (its snapshot holds other things than it should); {SET_ASIDE}")
        return Snapshot(*found[0]) if found else None

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep this one instead of the last, fsynced when this returns. Raises NotWritten or Unknown."""
        await self._write(SAVE, snapshot.index, snapshot.hash, snapshot.body)

    async def prune(self, through_index: int, before_ms: int) -> int:
        """Delete rows from the oldest on while index <= through_index and at_ms < before_ms, never the last row.

        A call takes a bounded number of rows, so that no append waits for long; the next call goes on.
        It stops at the first row that must stay, even where a clock set back made later ones look older: a gap would
        break the chain of hashes. Returns how many went. Raises NotWritten or Unknown, after which some may be gone.
        """
        [(first, keep)] = await self._read(_KEPT, through_index, before_ms)
        if first is None:
            return 0
        through = min(first + PRUNE_ROWS, keep)
        await self._write("DELETE FROM record WHERE idx < ?", through)
        return int(through - first)

    async def close(self) -> None:
        """Checkpoint and let go of the file, from whatever state, in at most CLOSE_S_MAX seconds, without raising."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # Shielded: a cancelled caller that left the connection open would leave the file locked as well.
            with anyio.move_on_after(CLOSE_S_MAX, shield=True), contextlib.suppress(Exception):
                await connection.close()

    async def _connect(self) -> None:
        connection = aiosqlite.connect(self._path, timeout=BUSY_S_MAX, isolation_level=None)
        # aiosqlite's thread is no daemon, so a disk that never answers would keep a process that wants to end.
        thread: Any = getattr(connection, "_thread", connection)
        thread.daemon = True
        with anyio.fail_after(CALL_S_MAX, shield=True):
            self._connection, self._doubt = await connection, None

    async def _prepare(self) -> None:
        # Exclusive comes before the first look at the file: then the log's index lives in memory, without a -shm.
        await self._call("PRAGMA locking_mode=EXCLUSIVE")
        # Whose file it is comes before anything that writes: another program's database is left as it was.
        [(application,)] = await self._call("PRAGMA application_id")
        [(version,)] = await self._call("PRAGMA user_version")
        [(tables,)] = await self._call("SELECT count(*) FROM sqlite_master")
        if application != APPLICATION_ID and (application or version or tables):
            raise Unusable(f"{self._path} is another program's database; {SET_ASIDE}")
        if version > len(MIGRATIONS):
            raise Unusable(
                f"{self._path} has schema version {version} and this interlock knows up to {len(MIGRATIONS)}; "
                "upgrade interlock, then start again"
            )
        [(mode,)] = await self._call("PRAGMA journal_mode=WAL")
        if mode != "wal":
            raise Unusable(f"{self._path} cannot have a write-ahead log here; move BUS_HOME to a local disk")
        # Only macOS knows fullfsync: there fsync stops at the drive. SQLite's own checkpoint is a passive one on this
        # connection in the same thread hop: no reader can hold it up, so it always empties the log, and the next append
        # starts again at the log's beginning.
        for setting in ("synchronous=FULL", "fullfsync=1", "checkpoint_fullfsync=1", f"wal_autocheckpoint={LOG_PAGES}"):
            await self._call(f"PRAGMA {setting}")
        await self._call(f"PRAGMA journal_size_limit={LOG_BYTES_MAX}")
        for number in range(version, len(MIGRATIONS)):
            for statement in ("BEGIN IMMEDIATE", *MIGRATIONS[number], f"PRAGMA user_version={number + 1}", "COMMIT"):
                await self._call(statement)
        # A row whose fsync was cut short or failed may be readable and yet not on disk. Moving the log into the file
        # writes and fsyncs it again, so that whatever replay shows is durable.
        try:
            await self._call("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as error:
            # A full disk is no reason not to start: the log itself was fsynced first, and appends will say NotWritten.
            if _code(error) != sqlite3.SQLITE_FULL:
                raise
        await self._call("SELECT max(idx) FROM record")
        await anyio.to_thread.run_sync(_grow, self._log, LOG_PAGES * PAGE_BYTES)

    async def _call(self, sql: str, *values: object) -> Any:
        """One statement to its end in one thread hop; its rows. Raises sqlite3.Error or TimeoutError."""
        assert self._connection is not None, "open the store first"
        # Shielded: the thread goes on whatever happens here, and a caller who left would not know the answer.
        with anyio.move_on_after(CALL_S_MAX, shield=True):
            return await self._connection.execute_fetchall(sql, values)
        raise TimeoutError(f"the disk did not answer within {CALL_S_MAX:.0f} s")

    async def _write(self, sql: str, *values: object) -> None:
        # After a failed fsync the log has a hole that later rows would stand behind: nothing more until a reopen.
        if self._doubt is not None:
            raise Unknown(self._doubt)
        try:
            if _bytes(self._log) > LOG_BYTES_ALARM:
                await self._call("PRAGMA wal_checkpoint(PASSIVE)")
            await self._call(sql, *values)
        except Exception as error:
            answer = _answer(self._path, error)
            self._doubt = str(answer) if isinstance(answer, Unknown) else None
            raise answer from error

    def _row(self, values: tuple[Any, ...]) -> Row:
        """SQLite keeps anything in any column: a damaged page may hold text where bytes were written."""
        if tuple(map(type, values)) != _ROW_TYPES:
            why = f"record {values[0]} holds other things than it should"
            raise Unusable(f"{self._path} is damaged ({why}); {SET_ASIDE}")
        return Row(*values)

    async def _read(self, sql: str, *values: object) -> Any:
        try:
            return await self._call(sql, *values)
        except (sqlite3.Error, OSError) as error:
            if _code(error) in _DAMAGED:
                raise _unusable(self._path, error) from error
            raise Unknown(f"{self._path} could not be read ({error})") from error


def _inspect(path: Path, log: Path) -> tuple[int, int]:
    """Refuse a file that must not be opened, create one that is missing; returns its device and inode.

    An existing file is only looked at, never opened: closing it again would drop every lock this process has on it.
    """
    kind = network_file_system(path.parent)
    if kind is not None:
        raise Unusable(f"{path} is on a network file system ({kind}), which loses locks; move BUS_HOME to a local disk")
    # SQLite deletes a log whose database is missing or empty, and with it what was acknowledged.
    if _bytes(path) == 0 and _bytes(log) > 0:
        raise Unusable(f"{path} is empty or gone but its log {log.name} is not; {SET_ASIDE}")
    # SQLite takes a file of one byte for an empty one.
    if 0 < _bytes(path) < 512:
        raise Unusable(f"{path} is damaged (cut short); {SET_ASIDE}")
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(folder)  # Or the file's name may not survive a power cut although its rows do.
        os.close(folder)
    for each in (path, log):
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(each)
            if not stat.S_ISREG(found.st_mode):
                raise Unusable(f"{each} is a link or no regular file; {SET_ASIDE}")
            if found.st_uid != os.geteuid():
                raise Unusable(f"{each} belongs to user {found.st_uid}, not to you; move it aside or chown it")
            if stat.S_IMODE(found.st_mode) != 0o600:
                os.chmod(each, 0o600)
    return _identity(path)


def _grow(log: Path, size: int) -> None:
    """Give the log its length at once: an fsync after which a file is longer costs twice one that is not (ADR 25).

    Zeros are no frames to SQLite, like the old ones that lie behind the end of every log that is used again. Nothing
    depends on it: where it would take much of the room that is left, the log stays as it was.
    """
    with contextlib.suppress(OSError):
        fd = os.open(log, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            before, disk = os.fstat(fd).st_size, os.fstatvfs(fd)
            if disk.f_bavail * disk.f_frsize < _ROOM_TIMES * (size - before):
                return
            try:
                for at in range(before, size, _ZEROS):
                    os.pwrite(fd, bytes(min(_ZEROS, size - at)), at)
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, before)
        finally:
            os.close(fd)


def _identity(path: Path) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _bytes(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def _code(error: BaseException) -> int | None:
    """SQLite's primary result code; None where the error is not SQLite's."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _answer(path: Path, error: Exception) -> NotWritten | Unknown:
    """What a failed write means. SQLite has rolled back where it says FULL or no; after anything else, who knows."""
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return NotWritten(f"no room for {path} ({error})", full=True)
    if code in _NOT_WRITTEN:
        return NotWritten(f"{path} refused the row ({error})")
    return Unknown(f"{path} may or may not hold the row ({str(error) or type(error).__name__})")


def _unusable(path: Path, error: BaseException) -> Unusable:
    code = _code(error)
    if code in _DAMAGED:
        return Unusable(f"{path} is damaged ({error}); {SET_ASIDE}")
    if code in _LOCKED:
        return Unusable(f"{path} is locked by whoever has it open; end that process, then start again")
    if code == sqlite3.SQLITE_FULL:
        return Unusable(f"no room to open {path} ({error}); make room on its disk, then start again")
    if isinstance(error, FileNotFoundError):
        return Unusable(f"the folder of {path} does not exist; create it with mode 0700, then start again")
    return Unusable(f"{path} cannot be opened ({error}); check the disk and the file's permissions, then start again")
