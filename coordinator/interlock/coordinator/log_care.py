"""Care of the log: whether its chain is whole, and copies of it. A piece at a time, so that nobody else waits.

A copy ends with a record that says so (`copied`): whoever starts from it recovers, and grants nothing unasked.
"""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from interlock.coordinator import records
from interlock.coordinator.journal import Journal
from interlock.coordinator.records import Copied, Entry, RecordHead
from interlock.coordinator.session import Session
from interlock.coordinator.store import Copy, Row, Unknown, Unusable
from interlock.coordinator.world import SUPERVISOR
from interlock.protocol.codes import Code
from interlock.protocol.control import BackedUp, Progress, Verified
from interlock.protocol.limits import VERIFIED_ROWS_A_CALL
from interlock.protocol.messages import Refused

PROGRESS_S = 2.0  # how often whoever waits is told how far it is


class _Link(msgspec.Struct):
    """What a record's body says of its place in the chain."""

    index: int
    prev: str


_links = msgspec.json.Decoder(_Link)


class _Chain:
    """Follows rows in order. `broken` says where they are not what was written."""

    def __init__(self) -> None:
        self.last: Row | None = None
        self.broken = ""

    def follow(self, row: Row) -> None:
        before = self.last
        try:
            link = _links.decode(row.body) if records.digest(row.body) == row.hash else None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            link = None
        follows = link is not None and link.index == row.index and (
            before is None or (link.prev == before.hash.hex() and row.index == before.index + 1)
        )  # fmt: skip
        if not follows and not self.broken:
            self.broken = f"the chain of hashes is broken at record {row.index}"
        self.last = row

    def end(self, written: int) -> None:
        """There is no further row, though so many were written."""
        if not self.broken and (self.last.index if self.last is not None else 0) < written:
            self.broken = "the last records that were written are not on disk"


async def verify(journal: Journal, session: Session, say: Callable[[Any], None]) -> None:
    """Read the whole log as it is on disk, and say whether it is what was written."""
    chain, count = _Chain(), 0
    told = anyio.current_time()
    try:
        while not session.closed.is_set():
            written = journal.world.index
            rows = await _some(journal, chain.last)
            for row in rows:
                chain.follow(row)
                await checkpoint()
            count += len(rows)
            told = _tell(told, chain, journal, say)
            if not rows:
                chain.end(written)
                break
    except (Unusable, Unknown) as error:
        chain.broken = str(error)
    say(Verified(count, chain.last.last_seq if chain.last is not None else 0, chain.broken))


async def back_up(journal: Journal, copy: Copy, session: Session, at_ms: int, say: Callable[[Any], None]) -> None:
    """Copy the log as it is now into a file of its own. What is written meanwhile may be in it, whole."""
    chain, count = _Chain(), 0
    told = anyio.current_time()
    try:
        snapshot = None
        while True:
            rows = await _some(journal, chain.last)
            for row in rows:
                chain.follow(row)
            if chain.broken:  # pruned under our hands, or damaged: bus doctor tells which
                say(Refused(Code.INTERNAL, f"no backup was made ({chain.broken}): bus doctor, then try again"))
                return
            await copy.add(rows)
            count += len(rows)
            told = _tell(told, chain, journal, say)
            if rows or chain.last is None:
                continue
            snapshot = await journal.snapshot()
            if snapshot is None or snapshot.index <= chain.last.index:
                break
        last = _last_record(chain.last, journal.world.term, at_ms)
        await copy.add([last])
        say(BackedUp(await copy.finish(snapshot), count, last.last_seq))
    except (OSError, Unusable, Unknown) as error:
        say(Refused(Code.JOURNAL_UNAVAILABLE, f"no backup was made ({error}): bus doctor"))
    finally:
        with anyio.CancelScope(shield=True):
            await copy.close()


async def _some(journal: Journal, last: Row | None) -> list[Row]:
    return list(await journal.rows(last.index if last is not None else 0, VERIFIED_ROWS_A_CALL))


def _tell(told: float, chain: _Chain, journal: Journal, say: Callable[[Any], None]) -> float:
    if anyio.current_time() < told + PROGRESS_S or chain.last is None:
        return told
    say(Progress(chain.last.index, journal.world.index))
    return anyio.current_time()


def _last_record(last: Row, term: int, at_ms: int) -> Row:
    seq = last.last_seq + 1
    entry = msgspec.Raw(records.encode(Entry(SUPERVISOR, (Copied(at_ms),))))
    body = records.encode(RecordHead(last.index + 1, term, last.hash.hex(), at_ms, seq, [entry]))
    return Row(last.index + 1, seq, seq, at_ms, records.digest(body), body)
