"""The journal: one record a group commit, numbers that never repeat, a chain that a single byte breaks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest
from tests.coordinator.bus import as_bytes, replayed, settled
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.virtual_time import VirtualClock

from interlock.coordinator import journal as journal_module
from interlock.coordinator import records
from interlock.coordinator.journal import Journal, Staged, numbered
from interlock.coordinator.records import Entry
from interlock.coordinator.store import NotWritten, Row, Unknown, Unusable
from interlock.protocol import registry
from interlock.protocol.limits import RECORD_BYTES_MAX
from interlock.protocol.messages import Text
from interlock.protocol.outcome import Send, fold
from interlock.protocol.registry import Agent, AgentJoined

pytestmark = pytest.mark.anyio
DAY_MS = 86_400_000


@asynccontextmanager
async def writing(
    store: MemoryStore, clock: VirtualClock | None = None, keep_ms: int = DAY_MS
) -> AsyncIterator[Journal]:
    journal = Journal(store, clock or VirtualClock(), keep_ms)
    await journal.open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.run)
        yield journal
        tasks.cancel_scope.cancel()


def stage(journal: Journal, *names: str) -> Staged:
    """One entry that lets agents join, decided on what is durable: so one that matters at a time."""
    events = tuple(AgentJoined(Agent(name, 1, 0)) for name in names)
    return journal.stage(Entry("registry", events), fold(registry.evolve, journal.world.registry, events))


def seqs(row: Row) -> list[int]:
    return [seq for seq, _, _ in numbered(records.decode(row.body), 0)]


async def test_nothing_is_taken_before_it_is_durable(store: MemoryStore) -> None:
    store.stall = anyio.Event()
    async with writing(store) as journal:
        staged = stage(journal, "a")
        await settled()
        assert (journal.world.seq, [*journal.world.registry.agents], staged.is_done) == (0, [], False)
        store.stall.set()
        await staged.wait()
        assert (journal.world.seq, [*journal.world.registry.agents], staged.failure) == (1, ["a"], "")
        assert len(store.durable) == 1


async def test_what_is_staged_while_an_append_is_under_way_goes_into_one_record(store: MemoryStore) -> None:
    store.stall = anyio.Event()
    async with writing(store) as journal:
        stage(journal, "first")
        await settled()
        later = [stage(journal, f"a{n}") for n in range(50)]
        await settled()
        store.stall.set()
        for staged in later:
            await staged.wait()
    assert [len(records.decode(row.body).entries) for row in store.durable] == [1, 50]


async def test_a_record_is_bounded_and_what_is_over_goes_into_the_next(store: MemoryStore) -> None:
    store.stall = anyio.Event()
    async with writing(store) as journal:
        letter = (Send("b", Text("x" * 60_000)),)
        staged = [journal.stage(Entry("machine/r", (), letter), None) for _ in range(20)]
        store.stall.set()
        await staged[-1].wait()
    sizes = [len(row.body) for row in store.durable]
    assert len(sizes) == 3
    assert max(sizes) < RECORD_BYTES_MAX + 4096


async def test_numbers_go_on_across_batches_and_a_start(store: MemoryStore) -> None:
    async with writing(store) as journal:
        for names in (["a"], ["b", "c"], ["d"]):
            await stage(journal, *names).wait()
    store = store.crash()
    async with writing(store) as journal:
        assert journal.next_seq == 5
        await stage(journal, "e", "f").wait()
    assert [seqs(row) for row in store.durable] == [[1], [2, 3], [4], [5, 6]]
    assert [(row.first_seq, row.last_seq) for row in store.durable] == [(1, 1), (2, 3), (4, 4), (5, 6)]


async def test_a_full_disk_fails_the_batch_and_all_that_was_numbered_behind_it(store: MemoryStore) -> None:
    store.faults = {2: NotWritten("no room", full=True)}
    async with writing(store) as journal:
        await stage(journal, "a").wait()
        store.stall = anyio.Event()
        failing = stage(journal, "b")
        await settled()
        behind = stage(journal, "c")
        store.stall.set()
        await behind.wait()
        assert failing.failure == behind.failure == "no room"
        assert journal.next_seq == 2
        await stage(journal, "d", "e").wait()
        assert [*journal.world.registry.agents] == ["a", "d", "e"]
    durable = [seq for row in store.durable for seq in seqs(row)]
    assert durable == [1, 2, 3], "without a gap, and none twice"


@pytest.mark.parametrize("fault", [Unknown("EIO"), NotWritten("refused")])
async def test_what_waiting_cannot_mend_ends_the_journal(store: MemoryStore, fault: Exception) -> None:
    assert isinstance(fault, Unknown | NotWritten)
    store.faults = {1: fault}
    journal = Journal(store, VirtualClock(), DAY_MS)
    await journal.open()
    staged = stage(journal, "a")
    with pytest.raises(type(fault)):
        await journal.run()
    assert journal.world.seq == 0
    assert staged.is_done is isinstance(fault, NotWritten), "of the unknown nobody is told anything"


@pytest.mark.parametrize("written", [True, False])
async def test_after_unknown_the_next_start_knows_what_became_of_it(store: MemoryStore, written: bool) -> None:
    store.faults, store.written_anyhow = {2: Unknown("EIO")}, written

    async def until_it_ends() -> None:
        async with writing(store) as journal:
            await stage(journal, "a").wait()
            stage(journal, "b")
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup):
        await until_it_ends()
    world = await replayed(store)
    assert [*world.registry.agents] == (["a", "b"] if written else ["a"])


async def three_rows() -> list[Row]:
    store = MemoryStore()
    async with writing(store) as journal:
        for name in ("a", "b", "c"):
            await stage(journal, name).wait()
    return store.durable


def flipped(rows: list[Row]) -> list[Row]:
    body = bytearray(rows[1].body)
    body[body.index(b'"b"') + 1] ^= 1
    return [rows[0], msgspec.structs.replace(rows[1], body=bytes(body)), rows[2]]


def hashed_anew(rows: list[Row]) -> list[Row]:
    """Who changes a row and its hash still breaks the next one."""
    row = flipped(rows)[1]
    return [rows[0], msgspec.structs.replace(row, hash=records.digest(row.body)), rows[2]]


def swapped(rows: list[Row]) -> list[Row]:
    first, second = rows[0], rows[1]
    return [
        msgspec.structs.replace(second, index=1),
        msgspec.structs.replace(first, index=2),
        rows[2],
    ]


@pytest.mark.parametrize(
    ("harm", "at"),
    [
        (flipped, 2),
        (hashed_anew, 3),
        (swapped, 1),
        (lambda rows: [rows[0], rows[2]], 3),
        (lambda rows: rows[1:], 2),
        (lambda rows: [*rows, rows[2]], 3),
    ],
    ids=["flipped", "hashed anew", "swapped", "missing", "first missing", "twice"],
)
async def test_a_broken_chain_is_refused_with_a_sentence(harm: object, at: int) -> None:
    assert callable(harm)
    with pytest.raises(Unusable, match=rf"chain is broken at record {at}: put a good copy in its place"):
        await Journal(MemoryStore(harm(await three_rows())), VirtualClock(), DAY_MS).open()


@pytest.mark.parametrize("body", [b"", b"{", b"null", b'{"index":2}', b"\xff\xfe", b"\0" * 100])
async def test_a_row_that_is_no_record_is_refused_with_a_sentence(body: bytes) -> None:
    rows = await three_rows()
    rows[1] = msgspec.structs.replace(rows[1], body=body, hash=records.digest(body))
    with pytest.raises(Unusable, match="record 2"):
        await Journal(MemoryStore(rows), VirtualClock(), DAY_MS).open()


@pytest.mark.parametrize("body", [b"", b"garbage", b"null", b"[]"])
async def test_a_snapshot_that_is_none_is_refused_with_a_sentence(body: bytes, store: MemoryStore) -> None:
    async with writing(store) as journal:
        await stage(journal, "a").wait()
        await journal.close(snapshot=True)
    assert store.kept is not None
    store.kept = msgspec.structs.replace(store.kept, body=body)
    with pytest.raises(Unusable, match="snapshot"):
        await Journal(store.crash(), VirtualClock(), DAY_MS).open()


async def test_the_chain_goes_on_from_a_snapshot_to_the_next_record(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SNAPSHOT_EVERY_RECORDS", 3)
    clock = VirtualClock()
    async with writing(store, clock, keep_ms=0) as journal:
        for n in range(10):
            await stage(journal, f"a{n}").wait()
            clock.wall += 10
        lived = as_bytes(journal.world)
    assert store.kept is not None
    assert store.durable[0].index > 1, "pruned behind the snapshot"
    assert as_bytes(await replayed(store)) == lived
    harmed = MemoryStore(store.durable, msgspec.structs.replace(store.kept, hash=b"\0" * 32))
    with pytest.raises(Unusable, match="chain is broken"):
        await Journal(harmed, clock, 0).open()


async def test_pruning_leaves_the_last_record_and_a_start_that_works(store: MemoryStore) -> None:
    clock = VirtualClock()
    async with writing(store, clock, keep_ms=0) as journal:
        for n in range(5):
            await stage(journal, f"a{n}").wait()
            clock.wall += 10
        await journal.close(snapshot=True)
        lived = as_bytes(journal.world)
    assert [row.index for row in store.durable] == [5]
    assert as_bytes(await replayed(store)) == lived


async def test_a_snapshot_that_does_not_fit_loses_nothing(store: MemoryStore) -> None:
    async with writing(store) as journal:
        await stage(journal, "a").wait()
        store.full = True
        await journal.close(snapshot=True)
    assert store.kept is None
    assert store.closed
    assert [*(await replayed(store)).registry.agents] == ["a"]


async def test_the_log_is_read_from_any_number_on(store: MemoryStore) -> None:
    async with writing(store) as journal:
        for names in (["a", "b"], ["c"], ["d", "e", "f"]):
            await stage(journal, *names).wait()
        for after in range(8):
            found = [seq for record in await journal.read(after, 100) for seq, _, _ in numbered(record, after)]
            assert found == list(range(after + 1, 7))


async def test_letters_have_the_same_ids_after_replay(store: MemoryStore) -> None:
    async with writing(store) as journal:
        letter = (Send("b", Text("one"), slot="s1"), Send("b", Text("two"), slot="s2"))
        staged = [journal.stage(Entry("machine/r", (), letter), None) for _ in range(3)]
        await staged[-1].wait()
        lived = [*journal.world.inboxes["b"].unread]
        told = [letter.id for each in staged for _, letter in each.letters]
    assert len(set(told)) == 6
    assert [*(await replayed(store)).inboxes["b"].unread] == lived
    assert set(lived) <= set(told)
