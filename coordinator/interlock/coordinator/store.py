"""The store: the port behind the journal. Opaque rows in order, and one snapshot; durable before it returns.

The journal decides what a row means; a store only keeps it. `adapters/sqlite.py` is the one that ships,
`MemoryStore` in the tests is the other.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

# What ends every sentence about a database that cannot be used. It loses no resource to two owners: see recovery.py.
SET_ASIDE = (
    "put a good copy in its place, or set it aside with bus up --recover, which keeps it, loses unread messages, "
    "and gives nothing away before a person confirms"
)


class Row(msgspec.Struct, frozen=True):
    """One batch record as it is kept.

    Args:
        index: 1, 2, 3 … without a gap.
        first_seq: running number of the first event in it; the next one where it holds none.
        last_seq: running number of the last event in it; `first_seq - 1` where it holds none.
        at_ms: wall clock when it was committed (ms since the epoch), for pruning by age only.
        hash: of the body; the next body names it.
        body: the encoded record.
    """

    index: int
    first_seq: int
    last_seq: int
    at_ms: int
    hash: bytes
    body: bytes


class Snapshot(msgspec.Struct, frozen=True):
    """All states after the record `index`, whose hash it keeps so that the chain survives pruning."""

    index: int
    hash: bytes
    body: bytes


class Copy(Protocol):
    """A copy of a store on its way to a file of its own. `close` without `finish` leaves nothing behind."""

    async def add(self, rows: Sequence[Row]) -> None:
        """Take these rows, which follow those before. Raises OSError."""

    async def finish(self, snapshot: Snapshot | None) -> str:
        """Make it whole and durable; returns its path. Raises OSError."""

    async def close(self) -> None:
        """Let go of it, from whatever state."""


class NotWritten(Exception):
    """The row is certainly not on disk (refused, disk full). `full` says that waiting may help."""

    def __init__(self, why: str, *, full: bool = False) -> None:
        super().__init__(why)
        self.full = full


class Unknown(Exception):
    """Nobody can say whether the row is on disk (EIO, time-out): reopen and replay before deciding anything."""


class Unusable(Exception):
    """The store cannot be opened; the text is one sentence for the operator, with what to do."""


class Store(Protocol):
    """What a journal needs of a disk. One caller at a time; `close` is safe in every state."""

    async def open(self) -> None:
        """Open or create. Raises Unusable: newer schema, not a database, foreign owner, network file system, locked."""

    async def append(self, row: Row) -> None:
        """Keep one row, fsynced when this returns. Raises NotWritten or Unknown."""

    async def rows(self, after_index: int, limit: int) -> Sequence[Row]:
        """At most `limit` rows with index > after_index, in order."""

    async def rows_from_seq(self, seq: int, limit: int) -> Sequence[Row]:
        """At most `limit` rows that hold events numbered `seq` or later, in order."""

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep this one instead of the last. Raises NotWritten or Unknown."""

    async def prune(self, through_index: int, before_ms: int) -> int:
        """Delete some rows from the oldest on, while index <= through_index and at_ms < before_ms, never the last row.

        A call takes a bounded number, so that no append waits for long; it stops at the first that must stay, or the
        chain would break. Returns how many; 0: there are no more. Raises NotWritten or Unknown.
        """

    async def close(self) -> None:
        """Checkpoint and let go of the file, from whatever state, without raising."""
