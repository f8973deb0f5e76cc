"""Care of the log: is its chain whole, is its replay what is lived; and copies of it. A piece at a time: nobody waits.

A copy ends with a record that says so (`copied`): whoever starts from it recovers, and grants nothing unasked.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from interlock.coordinator import records
from interlock.coordinator.journal import Journal
from interlock.coordinator.records import Copied, Entry, RecordHead
from interlock.coordinator.replaying import Replaying
from interlock.coordinator.session import Session
from interlock.coordinator.store import Copy, Row, Snapshot, Unknown, Unusable
from interlock.coordinator.world import SUPERVISOR, World
from interlock.protocol.codes import Code
from interlock.protocol.control import BackedUp, Progress, Replayed, Verified
from interlock.protocol.limits import VERIFIED_ROWS_A_CALL
from interlock.protocol.messages import Refused

PROGRESS_S = 2.0  # how often whoever waits is told how far it is
NEARLY_THERE = 8  # records that are replayed in one go, so that a busy bus is caught up with
BEGUN_ANEW_MAX = 3  # times that records were pruned under a check; then the gap is called one


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
            (row.index > 1 or not link.prev)
            if before is None
            else (link.prev == before.hash.hex() and row.index == before.index + 1)
        )  # fmt: skip
        if not follows and not self.broken:
            self.broken = f"the chain of hashes is broken at record {row.index}"
        self.last = row

    def end(self, written: int) -> None:
        """There is no further row, though so many were written."""
        if not self.broken and (self.last.index if self.last is not None else 0) < written:
            self.broken = "the last records that were written are not on disk"


class Log(Protocol):
    """A log that is read: a journal's, or a store's whose supervisor is down."""

    async def rows(self, after_index: int, limit: int) -> Sequence[Row]: ...

    async def snapshot(self) -> Snapshot | None: ...


class _Check:
    """One way through the log. Args: replaying: it is replayed too."""

    def __init__(self, replaying: Replaying | None) -> None:
        self.chain = _Chain()
        self.replaying = replaying
        self.first: Row | None = None
        self.count = 0

    def follow(self, row: Row) -> None:
        is_first, self.first = self.first is None, self.first or row
        self.count += 1
        self.chain.follow(row)
        if self.replaying is not None and not self.chain.broken:
            self.replaying.follow(row, is_first)

    def is_at(self, lived: World) -> bool:
        """It has come to the record that this world is at."""
        return self.replaying is not None and self.replaying.world is not None and (
            self.replaying.world.index == lived.index
        )  # fmt: skip

    def result(self, *, live: bool) -> Verified:
        last, again = self.chain.last, self.replaying
        seq = last.last_seq if last is not None else 0
        if again is None or self.first is None or last is None or self.chain.broken:
            return Verified(self.count, seq, self.chain.broken)
        replayed = Replayed(
            self.first.index, self.first.first_seq, last.index, last.hash.hex(), again.states(), again.begins_with,
            again.agrees_at, live, again.differs,
        )  # fmt: skip
        return Verified(self.count, seq, replayed=replayed)


async def verify(
    log: Log,
    say: Callable[[Any], None],
    lived: Callable[[], World] | None = None,
    is_over: Callable[[], bool] = lambda: False,
    *,
    replay: bool = False,
) -> None:
    """Read the whole log as it is on disk, and say whether it is what was written.

    Args:
        say: takes PROGRESS, and in the end the answer.
        lived: the world that a running bus has; None where none runs.
        is_over: nobody listens any more.
        replay: replay it too, from its first record, and compare with its snapshot and with what is lived.
    """
    check, told, begun_anew, compared = _Check(None), anyio.current_time(), 0, False
    try:
        check = await _begun(log, replay)
        while not is_over() and not compared:
            written = lived().index if lived is not None else 0
            rows = await _some(log, check.chain.last)
            for row in rows:
                if begun_anew < BEGUN_ANEW_MAX and await _is_pruned(log, check.chain.last, row):
                    check, begun_anew = await _begun(log, replay), begun_anew + 1
                check.follow(row)
                if len(rows) > NEARLY_THERE:
                    await checkpoint()
            told = _tell(told, check.chain, lived().index if lived is not None else 0, say)
            if replay and lived is not None and check.is_at(lived()):  # no wait since: at one record, both
                assert check.replaying is not None
                check.replaying.compare(lived())
                compared = True
            elif not rows and (lived is None or not replay or written > _index(check) or check.chain.broken):
                check.chain.end(written)
                break
            elif not rows and check.replaying is not None and check.replaying.differs:
                break
    except (Unusable, Unknown) as error:
        check.chain.broken = str(error)
    say(check.result(live=compared))


async def _begun(log: Log, replay: bool) -> _Check:
    return _Check(Replaying(await log.snapshot()) if replay else None)


def _index(check: _Check) -> int:
    return check.chain.last.index if check.chain.last is not None else 0


async def _is_pruned(log: Log, last: Row | None, row: Row) -> bool:
    """There is a gap before this row, because all that was before it has been pruned meanwhile."""
    if last is None or row.index <= last.index + 1:
        return False
    oldest = await log.rows(0, 1)
    return bool(oldest) and oldest[0].index == row.index


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
            told = _tell(told, chain, journal.world.index, say)
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


async def _some(log: Log, last: Row | None) -> list[Row]:
    return list(await log.rows(last.index if last is not None else 0, VERIFIED_ROWS_A_CALL))


def _tell(told: float, chain: _Chain, written: int, say: Callable[[Any], None]) -> float:
    if anyio.current_time() < told + PROGRESS_S or chain.last is None:
        return told
    say(Progress(chain.last.index, max(written, chain.last.index)))
    return anyio.current_time()


def _last_record(last: Row, term: int, at_ms: int) -> Row:
    seq = last.last_seq + 1
    entry = msgspec.Raw(records.encode(Entry(SUPERVISOR, (Copied(at_ms),))))
    body = records.encode(RecordHead(last.index + 1, term, last.hash.hex(), at_ms, seq, [entry]))
    return Row(last.index + 1, seq, seq, at_ms, records.digest(body), body)
