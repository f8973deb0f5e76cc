"""The journal: entries in, one record a group commit, fsync, and only then do states change and messages leave.

    stage ──▶ pending ──▶ record (hash chain) ──▶ store.append ──▶ world ──▶ whoever staged goes on
                 ▲  while one fsync is under way the next batch gathers here

It decides nothing. A row that was certainly not written fails its batch and all that was staged on top of it; where
nobody can say, the journal ends, and with it the supervisor: the next one replays and knows.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import anyio
import msgspec
import structlog
from anyio.lowlevel import checkpoint

from interlock.coordinator import records
from interlock.coordinator.bell import Bell
from interlock.coordinator.clock import Clock
from interlock.coordinator.records import Entry, RecordHead
from interlock.coordinator.states import NoStates, States
from interlock.coordinator.store import SET_ASIDE, NotWritten, Row, Snapshot, Store, Unknown, Unusable
from interlock.coordinator.world import SUPERVISOR, State, World
from interlock.protocol.inbox import Letter
from interlock.protocol.limits import RECORD_BYTES_MAX, SNAPSHOT_EVERY_BYTES, SNAPSHOT_EVERY_RECORDS

log = structlog.get_logger("journal")
REPLAY_ROWS = 512  # read at once
LAZY_S = 0.02  # what nobody waits for is on record after this


class Staged:
    """One entry on its way to the disk.

    Args:
        then: called once it is there, or certainly is not: then `failure` says why.

    `more`: the next one goes into the same record.
    """

    def __init__(self, entry: Entry, state: State | None, raw: bytes, then: Callable[["Staged"], None] | None) -> None:
        self.entry = entry
        self.state = state
        self.raw = raw
        self.failure = ""
        self.more = False
        self.letters: list[tuple[str, Letter]] = []
        self._then = then
        self.is_done = False
        self._waited_for: anyio.Event | None = None

    def finish(self) -> None:
        self.is_done = True
        if self._waited_for is not None:
            self._waited_for.set()
        if self._then is not None:
            self._then(self)

    async def wait(self) -> None:
        """Wait until it is there, or certainly is not."""
        if not self.is_done:
            self._waited_for = self._waited_for or anyio.Event()
            await self._waited_for.wait()


class Journal:
    """One per bus. `stage` never waits; `run` writes. Args: states: keeps what survives the store, see states.py."""

    def __init__(self, store: Store, clock: Clock, keep_ms: int, states: States | None = None) -> None:
        self.world = World()
        self.next_seq = 1
        self._store = store
        self._states = states or NoStates()
        self._clock = clock
        self.keep_ms = keep_ms
        self._pending: deque[Staged] = deque()
        self._staged = Bell()
        self._hurry = Bell()  # somebody waits for what is staged
        self._committed: anyio.Event | None = None
        self._closing = False
        self._since_snapshot = (0, 0)
        self._prune_through = 0

    async def open(self) -> World:
        """Open the store and rebuild the world: snapshot, then every record after it, each checked against the chain.

        Raises:
            Unusable: the store cannot be opened, or its chain is broken; the text is for the operator.
        """
        await self._store.open()
        snapshot = await self._store.snapshot()
        if snapshot is not None:
            try:
                self.world = World.decode(snapshot.body)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise _unusable(f"snapshot cannot be read ({error})") from error
            self.world.index, self.world.hash = snapshot.index, snapshot.hash.hex()
        replayed = 0
        while rows := await self._store.rows(self.world.index, REPLAY_ROWS):
            for row in rows:
                self._replay(row)
                replayed += 1
        self.next_seq = self.world.seq + 1
        self._since_snapshot = (replayed, 0)
        return self.world

    def number_after(self, seq: int) -> None:
        """The next event gets a number greater than this: smaller ones may have been given where nobody knows."""
        assert not self._pending, "numbers are jumped before anything is staged"
        self.world.seq = max(self.world.seq, seq)
        self.next_seq = self.world.seq + 1

    def stage(
        self, entry: Entry, state: State | None, then: Callable[[Staged], None] | None = None, *,
        lazy: bool = False, more: bool = False,
    ) -> Staged:  # fmt: skip
        """Queue an entry for the next record; its events have the numbers from `next_seq` on.

        Args:
            lazy: nobody waits for it: it goes with the next that somebody waits for, or after LAZY_S by itself. An
                fsync of its own would be one that what comes a moment later has to wait for.
            more: the entry that is staged next is of the same step of several actors: both are in one record, so
                that a crash leaves both or neither.
        """
        staged = Staged(entry, state, records.encode(entry), then)
        staged.more = more
        self.next_seq += len(entry.events)
        self._pending.append(staged)
        self._staged.ring()
        if not lazy:
            self._hurry.ring()
        return staged

    def hurry(self) -> None:
        """Somebody waits for what is staged now."""
        if self._pending:
            self._hurry.ring()

    async def run(self) -> None:
        """Write until `close`. Raises Unknown, or NotWritten for what waiting cannot mend."""
        while True:
            await self._staged.heard()
            if not self._hurry.is_rung:
                with anyio.move_on_after(LAZY_S):
                    await self._hurry.heard()
            self._hurry.silence()
            batch = list(self._take())
            if self._pending or self._closing:  # what did not fit goes at once
                self._staged.ring()
                self._hurry.ring()
            if batch:
                await self._write(batch)
                await self._snapshot_if_due()
                await self._prune_some()
            if self._closing and not self._pending:
                return

    def finish(self) -> None:
        """Let `run` return once all that is staged is written."""
        self._closing = True
        self._staged.ring()
        self._hurry.ring()

    async def close(self, *, snapshot: bool) -> None:
        """Keep a last snapshot where the end is in order, and let go of the store."""
        try:
            if snapshot and self.world.index:
                await self._save_snapshot()
                await self._prune_some()
        except Unknown as error:  # all of it is in the records
            log.warning("snapshot_not_written", why=str(error))
        finally:
            await self._store.close()

    async def committed(self) -> None:
        """Wait for the next commit."""
        self._committed = self._committed or anyio.Event()
        await self._committed.wait()

    async def read(self, after_seq: int, limit: int) -> list[records.Record]:
        """Records that hold events numbered after `after_seq`, oldest first."""
        rows = await self._store.rows_from_seq(after_seq + 1, limit)
        return [records.decode(row.body) for row in rows]

    async def rows(self, after_index: int, limit: int) -> Sequence[Row]:
        """As they are stored, after that index. Raises Unusable or Unknown."""
        return await self._store.rows(after_index, limit)

    async def snapshot(self) -> Snapshot | None:
        """As it is stored."""
        return await self._store.snapshot()

    def _replay(self, row: Row) -> None:
        """Nothing is read of a row before its hash is checked: a broken one may hold anything."""
        broken = row.index != self.world.index + 1 or records.digest(row.body) != row.hash
        try:
            record = None if broken else records.decode(row.body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _unusable(f"record {row.index} cannot be read ({error})") from error
        if record is None or record.prev != self.world.hash:
            raise _unusable(f"chain is broken at record {row.index}")
        self.world.apply(record)
        self.world.hash = row.hash.hex()

    def _take(self) -> Iterator[Staged]:
        size = 0
        whole = True  # nothing that belongs to what was taken last is left behind
        while self._pending and (not whole or size == 0 or size + self._next_bytes() <= RECORD_BYTES_MAX):
            staged = self._pending.popleft()
            size += len(staged.raw)
            whole = not staged.more
            yield staged

    def _next_bytes(self) -> int:
        """Of what is staged first, with all that belongs into one record with it."""
        size = 0
        for staged in self._pending:
            size += len(staged.raw)
            if not staged.more:
                break
        return size

    async def _write(self, batch: list[Staged]) -> None:
        world, at_ms = self.world, self._clock.wall_ms()
        events = sum(len(staged.entry.events) for staged in batch)
        head = RecordHead(
            world.index + 1, world.term, world.hash, at_ms, world.seq + 1, [msgspec.Raw(s.raw) for s in batch]
        )
        body = records.encode(head)
        row = Row(head.index, head.first_seq, world.seq + events, at_ms, records.digest(body), body)
        try:
            if row.last_seq > self._states.numbers_through:
                await self._states.reserve_numbers(row.last_seq)
            await self._store.append(row)
        except NotWritten as error:
            self._fail(batch, str(error))
            if not error.full:
                raise
            log.error("journal_full", why=str(error))
            return
        for number, staged in enumerate(batch):
            if staged.state is not None or staged.entry.actor == SUPERVISOR:
                world.take(staged.entry, staged.state)
            staged.letters = world.project(at_ms, head.index, number, staged.entry)
        world.index, world.hash = row.index, row.hash.hex()
        written, size = self._since_snapshot
        self._since_snapshot = (written + 1, size + len(body))
        for staged in batch:
            staged.finish()
        if self._committed is not None:
            self._committed.set()
            self._committed = None

    def _fail(self, batch: list[Staged], why: str) -> None:
        """What was staged behind it was numbered behind it: that fails too, and the numbers are given again."""
        for staged in (*batch, *self._pending):
            staged.failure = why
            staged.finish()
        self._pending.clear()
        self.next_seq = self.world.seq + 1

    async def _snapshot_if_due(self) -> None:
        written, size = self._since_snapshot
        if written >= SNAPSHOT_EVERY_RECORDS or size >= SNAPSHOT_EVERY_BYTES:
            await self._save_snapshot()

    async def _prune_some(self) -> None:
        """Some of what lies behind the snapshot and is old enough: a little between two records, never for long."""
        if not self._prune_through:
            return
        try:
            if not await self._store.prune(self._prune_through, self._clock.wall_ms() - self.keep_ms):
                self._prune_through = 0
        except NotWritten as error:
            self._prune_through = 0
            log.warning("not_pruned", why=str(error))

    async def _save_snapshot(self) -> None:
        """A snapshot that does not fit is no loss: the records are still there."""
        world = self.world
        pieces = []
        for piece in world.pieces():  # nothing is taken meanwhile: whoever takes is here
            pieces.append(piece)
            await checkpoint()
        snapshot = Snapshot(world.index, bytes.fromhex(world.hash), b"".join(pieces))
        try:
            await self._store.save_snapshot(snapshot)
            self._prune_through = world.index
        except NotWritten as error:
            log.warning("snapshot_not_written", why=str(error))
        self._since_snapshot = (0, 0)


def _unusable(what: str) -> Unusable:
    return Unusable(f"the journal's {what}: {SET_ASIDE}")


def numbered(record: records.Record, after_seq: int) -> Iterator[tuple[int, str, records.Event]]:
    """Events of a record with their numbers and actors, those after `after_seq` only."""
    seq = record.first_seq
    for entry in record.entries:
        for event in entry.events:
            if seq > after_seq:
                yield seq, entry.actor, event
            seq += 1
