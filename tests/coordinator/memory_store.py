"""MemoryStore: the other implementation of `coordinator.store.Store`, with a disk that can be told to misbehave."""

from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint

from interlock.coordinator.store import NotWritten, Row, Snapshot, Unknown

Fault = NotWritten | Unknown


class MemoryStore:
    """Rows in memory. What is under way when a supervisor is thrown away is lost, or, torn, is there all the same.

    Args:
        rows: that are durable when it is opened. kept: a snapshot, likewise.

    Attributes:
        faults: number of an append (from 1) → what it fails with. `stall`, before that, holds every append up.
        full: every write fails with NotWritten(full) while it is true.
        written_anyhow: whether the row of an append that fails with Unknown is on disk.
        latency_s: how long one append takes.
        on_durable: called with each row once it is on disk.
    """

    def __init__(self, rows: list[Row] | None = None, kept: Snapshot | None = None) -> None:
        self.durable = rows or []
        self.kept = kept
        self.appends = 0
        self.faults: dict[int, Fault] = {}
        self.full = False
        self.stall: anyio.Event | None = None
        self.written_anyhow = False
        self.latency_s: Callable[[], float] = lambda: 0.0
        self.on_durable: Callable[[Row], None] = lambda row: None
        self.under_way: Row | None = None
        self.closed = False

    def crash(self, *, torn: bool = False) -> "MemoryStore":
        """What the next supervisor finds. Args: torn: the row under way reached the disk, though nobody heard."""
        rows = list(self.durable)
        if torn and self.under_way is not None:
            rows.append(self.under_way)
            self.on_durable(self.under_way)
        next_one = MemoryStore(rows, self.kept)
        next_one.latency_s, next_one.on_durable, next_one.full = self.latency_s, self.on_durable, self.full
        return next_one

    async def open(self) -> None:
        await checkpoint()

    async def append(self, row: Row) -> None:
        self.appends += 1
        fault = self.faults.get(self.appends)
        self.under_way = row
        await self._disk()
        if self.full:
            fault = NotWritten("no room on the disk", full=True)
        if isinstance(fault, NotWritten):
            self.under_way = None
            raise fault
        if fault is None or self.written_anyhow:
            self._keep(row)
        self.under_way = None
        if fault is not None:
            raise fault

    async def rows(self, after_index: int, limit: int) -> list[Row]:
        await checkpoint()
        return [row for row in self.durable if row.index > after_index][:limit]

    async def rows_from_seq(self, seq: int, limit: int) -> list[Row]:
        await checkpoint()
        return [row for row in self.durable if row.last_seq >= max(seq, row.first_seq)][:limit]

    async def snapshot(self) -> Snapshot | None:
        await checkpoint()
        return self.kept

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        await self._disk()
        if self.full:
            raise NotWritten("no room on the disk", full=True)
        self.kept = snapshot

    async def prune(self, through_index: int, before_ms: int) -> int:
        await checkpoint()
        before = len(self.durable)
        while len(self.durable) > 1 and self.durable[0].index <= through_index and self.durable[0].at_ms < before_ms:
            del self.durable[0]
        return before - len(self.durable)

    async def close(self) -> None:
        self.closed = True

    def _keep(self, row: Row) -> None:
        self.durable.append(row)
        self.on_durable(row)

    async def _disk(self) -> None:
        await anyio.sleep(self.latency_s())
        if self.stall is not None:
            await self.stall.wait()
