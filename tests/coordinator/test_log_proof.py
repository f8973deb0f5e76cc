"""The log is replayed beside the life, and whatever is not as it says is named: in the log, a snapshot, or the life."""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest
from tests.coordinator.bus import Bus
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.test_log_care import HARMS

from interlock.coordinator import records
from interlock.coordinator.log_care import verify
from interlock.coordinator.store import Row, Unusable
from interlock.coordinator.world import World
from interlock.protocol.limits import VERIFIED_ROWS_A_CALL

pytestmark = pytest.mark.anyio


async def lived(bus: Bus, rounds: int = VERIFIED_ROWS_A_CALL) -> None:
    """Some life, with a snapshot in the middle of it."""
    a, b = bus.client("a"), bus.client("b")
    for n in range(rounds):
        await a.ask(f"REQUEST machine/r{n % 5} - x, 5m")
        await b.ask(f"REQUEST machine/r{n % 5} - y")
        await a.ask("hello", to="b")
        if n == rounds // 2:
            await bus.journal._save_snapshot()
        await a.ask(f"RELEASE machine/r{n % 5}")
        await b.ask(f"RELEASE machine/r{n % 5}")


async def proof(bus: Bus) -> dict[str, Any]:
    client = bus.client("a")
    return await client.ask({"type": "VERIFY", "replay": True}, to="supervisor")


async def test_a_whole_log_replays_to_what_is_lived_and_to_its_snapshot(bus: Bus) -> None:
    async with bus.running():
        await lived(bus)
        said = await proof(bus)
        world, kept = bus.supervisor.world, bus.store.kept
        assert kept is not None
        assert said == {
            "type": "VERIFIED", "records": world.index, "seq": world.seq,
            "replayed": {"first": 1, "first_seq": 1, "last": world.index, "hash": world.hash,
                         "states": len(world.resources) + len(world.inboxes) + 1, "snapshot": kept.index, "live": True},
        }  # fmt: skip


async def test_a_bus_that_writes_all_the_while_is_caught_up_with_at_one_record(bus: Bus) -> None:
    async with bus.running():
        await lived(bus)
        busy = bus.client("c")

        async def write_on() -> None:
            while True:
                await busy.ask("REQUEST machine/busy - x")
                await busy.ask("RELEASE machine/busy")

        bus.go(write_on)
        with anyio.fail_after(600):
            said = await proof(bus)
        assert (said["replayed"]["live"], said["replayed"].get("differs", "")) == (True, "")


async def test_where_older_records_are_gone_it_begins_with_the_snapshot(bus: Bus) -> None:
    async with bus.running():
        await lived(bus)
        kept = bus.store.kept
        assert kept is not None
        del bus.store.durable[: kept.index - 4]  # some that the snapshot covers are still there
        said = (await proof(bus))["replayed"]
        assert (said["first"], said["begun_with"], said["live"], said.get("differs", "")) == (
            kept.index - 3, kept.index, True, "",
        )  # fmt: skip
        del bus.store.durable[:4]  # none of them is
        said = (await proof(bus))["replayed"]
        assert (said["first"], said["begun_with"], said.get("differs", "")) == (kept.index + 1, kept.index, "")
        del bus.store.durable[0]
        said = (await proof(bus))["replayed"]
        assert said["differs"] == f"records before {kept.index + 2} are gone, and no snapshot says what they came to"


async def test_records_that_are_pruned_meanwhile_are_no_gap(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, rows = [0], bus.store.rows

    async def pruning(after: int, limit: int) -> list[Row]:
        reads[0] += 1
        if reads[0] == 2:
            kept = bus.store.kept
            assert kept is not None
            assert kept.index > VERIFIED_ROWS_A_CALL
            del bus.store.durable[: kept.index - 1]
        return await rows(after, limit)

    async with bus.running():
        await lived(bus)
        monkeypatch.setattr(bus.store, "rows", pruning)
        said = await proof(bus)
        assert said["replayed"]["begun_with"] == bus.store.kept.index  # type: ignore[union-attr] # as above
        assert "differs" not in said["replayed"]


async def test_a_snapshot_that_cannot_be_read_is_said_where_a_proof_is_asked_for(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked waited for an answer that never came."""

    async def damaged() -> None:
        raise Unusable("bus.db is damaged (its snapshot holds other things than it should)")

    async with bus.running():
        await lived(bus, 1)
        monkeypatch.setattr(bus.store, "snapshot", damaged)
        with anyio.fail_after(60):
            assert "its snapshot holds other things" in (await proof(bus))["broken"]


@pytest.mark.parametrize(("harm", "says"), HARMS)
async def test_a_broken_chain_is_named_and_nothing_of_it_is_replayed(
    bus: Bus, harm: Callable[[list[Row]], None], says: str
) -> None:
    async with bus.running():
        await lived(bus, 9)
        harm(bus.store.durable)
        said = await proof(bus)
        assert says in said["broken"]
        assert "replayed" not in said


def other_purpose(world: World) -> None:
    held = next(key for key, each in world.resources.items() if each.key == "machine/r1")
    world.resources[held] = msgspec.structs.replace(world.resources[held], epoch=7)


def no_inbox(world: World) -> None:
    del world.inboxes["b"]


def forgotten_id(world: World) -> None:
    world.ids = dict(list(world.ids.items())[1:])


def another_seq(world: World) -> None:
    world.letters += 1


ALTERED = [(other_purpose, "machine/r1"), (no_inbox, "the inbox of b"), (forgotten_id, "ids"), (another_seq, "letters")]


@pytest.mark.parametrize(("alter", "says"), ALTERED)
async def test_a_life_that_is_not_what_the_log_says_is_named(
    bus: Bus, alter: Callable[[World], None], says: str
) -> None:
    async with bus.running():
        await lived(bus, 9)
        alter(bus.supervisor.world)
        differs = (await proof(bus))["replayed"]["differs"]
        assert differs.startswith(f"what the bus holds is not what its log says: {says}")


@pytest.mark.parametrize(("alter", "says"), ALTERED)
async def test_an_edited_snapshot_is_named(bus: Bus, alter: Callable[[World], None], says: str) -> None:
    async with bus.running():
        await lived(bus, 9)
        kept = bus.store.kept
        assert kept is not None
        world = World.decode(kept.body)
        alter(world)
        bus.store.kept = msgspec.structs.replace(kept, body=world.encode())
        differs = (await proof(bus))["replayed"]["differs"]
        assert differs.startswith(f"the snapshot of record {kept.index} is not what the records before it make: {says}")
        bus.store.kept = msgspec.structs.replace(kept, body=kept.body[:-1])
        assert "cannot be read" in (await proof(bus))["replayed"]["differs"]
        bus.store.kept = msgspec.structs.replace(kept, hash=b"x" * 32)
        assert "belongs to another log" in (await proof(bus))["replayed"]["differs"]


async def test_a_record_that_somebody_rewrote_with_its_hash_is_named_by_the_next(bus: Bus) -> None:
    """Who rewrites the whole chain after it is found by the snapshot, or by the life."""
    async with bus.running():
        await lived(bus, 9)
        rows, old, new = bus.store.durable, "", ""
        for at, row in enumerate(rows):
            body = row.body if at != 8 else row.body.replace(b'"x"', b'"z"')
            body = body.replace(old.encode(), new.encode()) if new else body
            old = row.hash.hex()
            if body != row.body:
                rows[at] = msgspec.structs.replace(row, body=body, hash=records.digest(body))
                new = rows[at].hash.hex()
        said = await proof(bus)
        assert "broken" not in said
        assert "belongs to another log" in said["replayed"]["differs"]


async def test_one_replay_at_a_time_so_that_memory_stays_bounded(bus: Bus) -> None:
    async with bus.running():
        await lived(bus)
        answers = list[dict[str, Any]]()

        async def ask() -> None:
            answers.append(await proof(bus))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
        assert sorted(each["type"] for each in answers) == ["REFUSED", "VERIFIED"]
        assert (await proof(bus))["type"] == "VERIFIED"


async def test_numbers_that_a_record_does_not_hold_are_told(bus: Bus) -> None:
    async with bus.running():
        await lived(bus, 9)
        row = bus.store.durable[5]
        bus.store.durable[5] = msgspec.structs.replace(row, last_seq=row.last_seq + 1)
        assert "record 6 is filed under other numbers" in (await proof(bus))["replayed"]["differs"]


async def test_a_log_whose_bus_is_down_is_replayed_too() -> None:
    bus, said = Bus(), list[Any]()
    async with bus.running():
        await lived(bus, 9)
    store = MemoryStore(bus.store.durable, bus.store.kept)
    await verify(store, said.append, replay=True)
    replayed = said[-1].replayed
    assert (replayed.last, replayed.differs, replayed.live) == (len(store.durable), "", False)
