"""What the SQLite store promises its journal: order, durability, one owner, and a sentence instead of a traceback."""

# ruff: noqa: ASYNC240 - looking at a small file blocks nothing: these tests run alone in their loop.

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from tests.polling import WAIT_S

from interlock.adapters import mounts, sqlite
from interlock.adapters.sqlite import LOG_BYTES_MAX, LOG_PAGES, MIGRATIONS, PAGE_BYTES, PRUNE_ROWS, SqliteStore
from interlock.coordinator.store import NotWritten, Row, Snapshot, Unknown, Unusable

pytestmark = pytest.mark.anyio

# Every child gets the database's path as its argument, and ends with an error if it leaves anything open.
CHILD = """
import anyio, resource, sys
from pathlib import Path
from interlock.adapters.sqlite import SqliteStore
from interlock.coordinator.store import NotWritten, Row, Unknown, Unusable

def row(index, size=100):
    return Row(index, index, index, 0, b"h", b"x" * size)

store = SqliteStore(Path(sys.argv[1]))
"""
START = """
async def main():
    try:
        async with store:
            raise RuntimeError("after open")
    finally:
        print("failed", flush=True)
anyio.run(main)
"""
APPEND_FOR_EVER = """
async def main():
    async with store:
        for index in range(1, 1_000_000):
            await store.append(row(index))
            print(index, flush=True)
anyio.run(main)
"""
TRY_TO_OPEN = """
async def main():
    try:
        async with store:
            print("opened")
    except Unusable as error:
        print(error)
anyio.run(main)
"""
BREAK_THE_DISK = """
async def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with store:
        await store.append(row(1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        for size in (200_000, 100):  # The second would fit, but stands behind one whose fate nobody knows.
            try:
                await store.append(row(2, size))
            except Unknown:
                print("unknown")
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await store.close()
        await store.open()
        print([each.index for each in await store.rows(0, 10)])
        await store.append(row(2))
        print([each.index for each in await store.rows(0, 10)])
anyio.run(main)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bus.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(path) as opened:
        yield opened


def row(index: int, *, size: int = 100, at_ms: int = 0, events: int = 1, first_seq: int | None = None) -> Row:
    first = index if first_seq is None else first_seq
    return Row(index, first, first + events - 1, at_ms, index.to_bytes(32, "big"), bytes([index % 256]) * size)


def indexes(rows: Sequence[Row]) -> list[int]:
    return [each.index for each in rows]


async def filled(path: Path, rows: int = 20) -> Path:
    async with SqliteStore(path) as store:
        for index in range(1, rows + 1):
            await store.append(row(index, size=5_000))
    return path


async def refusal(path: Path) -> str:
    """The sentence with which a start on `path` is refused; it never waits for ever."""
    with anyio.fail_after(WAIT_S), pytest.raises(Unusable) as caught:
        async with SqliteStore(path):
            pass
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(path) in sentence
    return sentence


def child(script: str, path: Path) -> list[str]:
    return [sys.executable, "-W", "error", "-c", CHILD + script, str(path)]


def execute(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def test_rows_come_back_in_order_and_whole_after_a_reopen(path: Path, store: SqliteStore) -> None:
    given = [row(index, size=index * 3_000, at_ms=index) for index in range(1, 8)]
    for each in given:
        await store.append(each)
    await store.close()
    await store.open()

    assert list(await store.rows(0, 100)) == given
    assert indexes(await store.rows(2, 3)) == [3, 4, 5]
    assert indexes(await store.rows(7, 3)) == []


async def test_rows_from_a_sequence_number_leave_out_those_without_events(store: SqliteStore) -> None:
    # given records of 3, 0, 1, 0 and 2 events: 1-3, none, 4, none, 5-6
    seq = 1
    for index, events in enumerate([3, 0, 1, 0, 2], start=1):
        await store.append(row(index, events=events, first_seq=seq))
        seq += events

    found = {seq: indexes(await store.rows_from_seq(seq, 10)) for seq in range(8)}

    assert found == {0: [1, 3, 5], 1: [1, 3, 5], 2: [1, 3, 5], 3: [1, 3, 5], 4: [3, 5], 5: [5], 6: [5], 7: []}
    assert indexes(await store.rows_from_seq(1, 2)) == [1, 3]


async def test_an_empty_store_has_no_rows_and_no_snapshot(store: SqliteStore) -> None:
    assert list(await store.rows(0, 10)) == []
    assert list(await store.rows_from_seq(0, 10)) == []
    assert await store.snapshot() is None
    assert await store.prune(100, 100) == 0


async def test_a_snapshot_replaces_the_last(path: Path, store: SqliteStore) -> None:
    await store.save_snapshot(Snapshot(1, b"one", b"first"))
    await store.save_snapshot(Snapshot(7, b"seven", b"second"))
    await store.close()
    await store.open()

    assert await store.snapshot() == Snapshot(7, b"seven", b"second")


@pytest.mark.parametrize(
    ("through_index", "before_ms", "left"),
    [
        (300, 10_000, [300]),  # never the last row
        (100, 10_000, list(range(101, 301))),
        (300, 200, list(range(200, 301))),  # row 200 was written at 200 ms
        (0, 10_000, list(range(1, 301))),
        (300, 0, list(range(1, 301))),
    ],
)
async def test_prune_keeps_the_last_row_and_what_is_newer(
    store: SqliteStore, through_index: int, before_ms: int, left: list[int]
) -> None:
    for index in range(1, 301):
        await store.append(row(index, at_ms=index))

    pruned = 0
    while some := await store.prune(through_index, before_ms):
        assert some <= PRUNE_ROWS, "no append waits for long"
        pruned += some

    assert indexes(await store.rows(0, 1_000)) == left
    assert pruned == 300 - len(left)
    assert indexes(await store.rows_from_seq(0, 1_000)) == left


async def test_prune_leaves_no_gap_where_the_clock_was_set_back(store: SqliteStore) -> None:
    for index, at_ms in enumerate([10, 20, 900, 30, 40], start=1):
        await store.append(row(index, at_ms=at_ms))

    assert await store.prune(5, 100) == 2
    assert indexes(await store.rows(0, 10)) == [3, 4, 5]


async def test_the_log_stays_bounded_under_many_appends(path: Path, store: SqliteStore) -> None:
    log, longest = path.with_name("bus.db-wal"), 0
    for index in range(1, 401):
        await store.append(row(index, size=64 << 10))
        longest = max(longest, log.stat().st_size)

    assert 0 < longest <= LOG_BYTES_MAX
    assert path.stat().st_size > 2 * LOG_BYTES_MAX
    assert not path.with_name("bus.db-shm").exists()


async def test_the_log_gives_back_what_a_large_snapshot_took(path: Path, store: SqliteStore) -> None:
    await store.save_snapshot(Snapshot(1, b"", bytes(3 * LOG_BYTES_MAX)))
    await store.append(row(1))

    assert path.with_name("bus.db-wal").stat().st_size <= LOG_BYTES_MAX


async def test_a_log_that_is_too_long_is_emptied_before_the_next_row(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOG_BYTES_ALARM", 0)
    await store.append(row(1, size=50_000))
    before = path.stat().st_size
    await store.append(row(2))

    assert path.stat().st_size > before


async def test_the_file_is_for_its_owner_only(path: Path) -> None:
    path.touch(mode=0o644)
    async with SqliteStore(path) as store:
        await store.append(row(1))
        assert [each.stat().st_mode & 0o777 for each in (path, path.with_name("bus.db-wal"))] == [0o600, 0o600]


async def test_a_second_store_is_refused_and_does_not_unlock_the_first(path: Path, store: SqliteStore) -> None:
    assert "locked" in await refusal(path)
    # POSIX locks go when any descriptor of the file is closed in this process: another process must still be kept out.
    other = await anyio.run_process(child(TRY_TO_OPEN, path))

    assert b"locked" in other.stdout
    await store.append(row(1))


async def test_a_link_in_place_of_the_file_or_its_log_is_refused(tmp_path: Path, path: Path) -> None:
    target = await filled(tmp_path / "elsewhere.db")
    path.symlink_to(target)
    assert "link" in await refusal(path)

    log = target.with_name("elsewhere.db-wal")
    log.symlink_to(tmp_path / "nowhere")
    with pytest.raises(Unusable, match=r"elsewhere\.db-wal is a link"):
        await SqliteStore(target).open()


async def test_a_file_of_another_owner_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(path)
    owner = path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)

    assert f"belongs to user {owner}" in await refusal(path)


async def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = path.parent.stat().st_dev
    line = f"36 35 {device >> 8 & 0xFFF}:{device & 0xFF} / /home rw,noatime shared:1 - nfs4 server:/home rw\n"
    monkeypatch.setattr("os.major", lambda _: device >> 8 & 0xFFF)
    monkeypatch.setattr("os.minor", lambda _: device & 0xFF)
    monkeypatch.setattr(mounts, "_mountinfo", lambda: line)
    assert "network file system (nfs4)" in await refusal(path)

    monkeypatch.setattr(mounts, "_mountinfo", lambda: "36 35 0:0 / / rw - nfs4 server:/ rw\nnonsense\n")
    async with SqliteStore(path):
        pass


async def test_garbage_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database, whatever its name says\n" * 500)
    before = path.read_bytes()

    assert "is damaged" in await refusal(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kept_bytes", [1, 50, 100, 511, 600, 4_095, 4_096, 9_000])
async def test_a_truncated_file_is_refused(path: Path, kept_bytes: int) -> None:
    await filled(path)
    path.write_bytes(path.read_bytes()[:kept_bytes])

    assert "is damaged" in await refusal(path)


async def test_damage_further_inside_is_a_sentence_too(path: Path) -> None:
    await filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4_096] + b"\xa5" * (len(whole) - 4_096))

    with pytest.raises(Unusable, match="is damaged"):
        async with SqliteStore(path) as store:
            await store.rows(0, 100)


@pytest.mark.parametrize("column", ["body = 'text'", "hash = 7", "first_seq = 1.5", "at_ms = 'soon'"])
async def test_a_row_of_other_types_is_damage(path: Path, column: str) -> None:
    """SQLite keeps anything in any column: it once came up as a traceback."""
    execute(await filled(path), f"UPDATE record SET {column} WHERE idx = 3")
    async with SqliteStore(path) as store:
        for read in (store.rows, store.rows_from_seq):
            with pytest.raises(Unusable, match="is damaged"):
                await read(0, 100)


async def test_a_snapshot_of_other_types_is_damage(path: Path) -> None:
    execute(await filled(path), "INSERT INTO snapshot VALUES (1, 3, x'00', 'text')")
    async with SqliteStore(path) as store:
        with pytest.raises(Unusable, match="is damaged"):
            await store.snapshot()


async def test_an_empty_file_is_a_new_store(path: Path) -> None:
    path.touch()
    async with SqliteStore(path) as store:
        await store.append(row(1))
        assert indexes(await store.rows(0, 10)) == [1]


@pytest.mark.parametrize("gone", [True, False])
async def test_a_log_whose_file_was_lost_is_refused_and_kept(path: Path, gone: bool) -> None:
    log = path.with_name("bus.db-wal")
    log.write_bytes(b"what was acknowledged last")
    if not gone:
        path.touch()

    assert "bus.db-wal" in await refusal(path)
    assert log.read_bytes() == b"what was acknowledged last"


async def test_a_log_has_its_length_from_the_start_and_only_what_was_written_is_read_of_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS has no fdatasync: no supervisor would have come up there."""
    monkeypatch.delattr(os, "fdatasync", raising=False)
    killed = tmp_path / "killed.db"
    async with SqliteStore(path) as store:
        assert path.with_name("bus.db-wal").stat().st_size == LOG_PAGES * PAGE_BYTES
        await store.append(row(1))
        for part in ("", "-wal"):
            shutil.copy(f"{path}{part}", f"{killed}{part}")
    async with SqliteStore(killed) as store:
        assert indexes(await store.rows(0, 10)) == [1]


async def test_a_log_stays_as_it_is_where_there_is_no_room_for_its_length(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before the disk was full is taken back: it is room for what comes."""
    sizes, write = list[int](), os.pwrite

    def full(fd: int, data: bytes, at: int) -> int:
        sizes.append(os.fstat(fd).st_size)
        if len(sizes) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data, at)

    monkeypatch.setattr(os, "pwrite", full)
    async with SqliteStore(path) as store:
        assert sizes[1] > sizes[0] == path.with_name("bus.db-wal").stat().st_size
        await store.append(row(1))
        assert indexes(await store.rows(0, 10)) == [1]


async def test_a_newer_schema_is_refused_by_its_number(path: Path) -> None:
    await filled(path)
    execute(path, f"PRAGMA user_version={len(MIGRATIONS) + 1}")

    sentence = await refusal(path)
    assert f"version {len(MIGRATIONS) + 1}" in sentence
    assert "upgrade" in sentence


async def test_a_database_of_0_2_is_taken_and_from_then_on_refused_by_0_2(path: Path) -> None:
    """It read snapshots that lack what it finds tickets and names with: each queue in them froze at its next step."""
    await filled(path, rows=3)
    execute(path, "PRAGMA user_version=1")
    async with SqliteStore(path) as store:
        assert indexes(await store.rows(0, 10)) == [1, 2, 3]

    known = MIGRATIONS[:1]  # that version's
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "MIGRATIONS", known)
        assert "schema version 2 and this interlock knows up to 1" in await refusal(path)


async def test_another_programs_database_is_refused_and_left_as_it_was(path: Path) -> None:
    execute(path, "CREATE TABLE bookmark (url)")
    before = path.read_bytes()

    assert "another program" in await refusal(path)
    assert path.read_bytes() == before


async def test_a_migration_that_fails_leaves_the_version_before_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(path, rows=3)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE extra (x)", "CREATE TABLE record (x)")))
        assert "already exists" in await refusal(path)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE extra (x)",)))
        async with SqliteStore(path) as store:
            assert indexes(await store.rows(0, 10)) == [1, 2, 3]
    assert f"version {len(MIGRATIONS) + 1}" in await refusal(path)


async def test_a_full_disk_is_not_written_and_work_resumes_with_room(store: SqliteStore) -> None:
    await store.append(row(1))
    await limit_pages(store, 20)
    with pytest.raises(NotWritten) as caught:
        await store.append(row(2, size=200_000))
    assert caught.value.full
    assert indexes(await store.rows(0, 10)) == [1]

    await limit_pages(store, 1_000_000)
    await store.append(row(2, size=200_000))
    assert indexes(await store.rows(0, 10)) == [1, 2]


@pytest.mark.parametrize(("free_bytes", "grown"), [(400 << 20, True), (30 << 20, False), (0, False)])
async def test_the_log_is_given_its_length_where_that_takes_little_of_what_is_free(
    path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, grown: bool
) -> None:
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_bavail=free_bytes // 4096, f_frsize=4096))
    async with SqliteStore(path) as store:
        await store.append(row(1))
        log = path.with_name(path.name + "-wal").stat().st_size
    assert (log >= LOG_PAGES * PAGE_BYTES) == grown
    async with SqliteStore(path) as store:
        assert indexes(await store.rows(0, 10)) == [1]


async def limit_pages(store: SqliteStore, pages: int) -> None:
    connection: Any = store._connection
    await connection.execute_fetchall(f"PRAGMA max_page_count={pages}")


async def test_a_row_that_is_there_already_is_not_written_and_does_no_harm(store: SqliteStore) -> None:
    await store.append(row(1))
    with pytest.raises(NotWritten) as caught:
        await store.append(row(1, size=7))
    assert not caught.value.full

    await store.append(row(2))
    assert list(await store.rows(0, 10)) == [row(1), row(2)]


async def test_after_a_disk_error_nothing_is_written_until_a_reopen(path: Path) -> None:
    done = await anyio.run_process(child(BREAK_THE_DISK, path))

    assert done.stdout.decode().splitlines() == ["unknown", "unknown", "[1]", "[1, 2]"]
    assert done.stderr == b""


async def test_a_disk_that_does_not_answer_is_unknown_and_close_is_bounded(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "CALL_S_MAX", 0.0)
        with pytest.raises(Unknown, match="did not answer"):
            await store.append(row(1))
    with pytest.raises(Unknown):
        await store.append(row(2))

    with anyio.fail_after(WAIT_S):
        await store.close()
        await store.open()
    await store.append(row(2))


async def test_a_cancelled_append_still_hears_its_answer_and_the_next_one_works(store: SqliteStore) -> None:
    answered = False
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.append(row(1))
        answered = True
    await store.append(row(2))

    assert answered
    assert indexes(await store.rows(0, 10)) == [1, 2]


async def test_a_cancelled_open_leaves_nothing_open(path: Path) -> None:
    cancelled = SqliteStore(path)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await cancelled.open()
    assert scope.cancelled_caught

    async with SqliteStore(path) as store:
        await store.append(row(1))


async def test_close_is_safe_in_every_state(path: Path) -> None:
    store = SqliteStore(path)
    await store.close()
    await store.open()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.close()
    await store.close()
    await store.open()
    await store.append(row(1))
    await store.close()


@pytest.mark.parametrize(
    ("stage", "error"),
    [("missing folder", "Unusable"), ("garbage", "Unusable"), ("after open", "RuntimeError: after open")],
)
def test_a_start_that_fails_ends_its_process(path: Path, stage: str, error: str) -> None:
    if stage == "missing folder":
        path = path.parent / "missing" / "bus.db"
    if stage == "garbage":
        path.write_bytes(b"garbage" * 1_000)

    with subprocess.Popen(child(START, path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "failed\n"
        try:
            process.wait(timeout=WAIT_S)
        finally:
            process.kill()
        complaint = process.stderr.read()
    assert process.returncode == 1
    assert error in complaint
    assert "ResourceWarning" not in complaint


def test_every_row_that_was_acknowledged_survives_kill_9(path: Path) -> None:
    with subprocess.Popen(child(APPEND_FOR_EVER, path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(300)]
        process.kill()
        printed += process.stdout.readlines()
    acknowledged = [int(line) for line in printed if line.endswith("\n")]

    async def reopened() -> list[int]:
        async with SqliteStore(path) as store:
            return indexes(await store.rows(0, 1_000_000))

    found = anyio.run(reopened)
    assert acknowledged == list(range(1, len(acknowledged) + 1))
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) - len(acknowledged) in (0, 1)
