"""Restart is replay: what is rebuilt from snapshot and records equals, byte for byte, what was lived."""

import random

import anyio
import pytest
from tests.coordinator.bus import Bus, FakeCaller, as_bytes, process, replayed, settled
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.virtual_time import VirtualClock

from interlock.coordinator import journal as journal_module
from interlock.coordinator.config import Config
from interlock.coordinator.journal import Journal
from interlock.coordinator.records import Entry
from interlock.coordinator.world import World
from interlock.protocol import limits
from interlock.protocol.messages import Revoked
from interlock.protocol.outcome import Send

pytestmark = pytest.mark.anyio
KEYS = ("machine/r", "machine/gpu", "machine/other")
NAMES = ("a", "b", "c", "d")


def anything(chance: random.Random) -> tuple[str, str]:
    """One message, and whom it is for."""
    key = chance.choice(KEYS)
    text = chance.choice(
        [
            f"REQUEST {key} - x",
            f"REQUEST {key} - y, 20m",
            f"RELEASE {key}",
            f"EXTEND {key} more",
            f"CANCEL {key}",
            "STATUS",
        ]
    )
    return (text, "coordinator") if chance.random() < 0.8 else ("hello", chance.choice(NAMES))


async def converse(bus: Bus, chance: random.Random, turns: int) -> None:
    clients = [bus.client(name, FakeCaller(process() if name in "ab" else None)) for name in NAMES]
    for client in clients:
        await client.ask("STATUS")
    for _ in range(turns):
        client, (what, to) = chance.choice(clients), anything(chance)
        ids = [await client.post(what, to=to) for _ in range(chance.choice([1, 1, 1, 3]))]
        if chance.random() < 0.5:
            await client.answer(ids[-1])
        if chance.random() < 0.1:
            unread = list(bus.supervisor.world.inbox(client.session.agent).unread)
            await client.ask({"type": "ACK", "ids": unread}, to="supervisor")
        if chance.random() < 0.1:
            await anyio.sleep(chance.choice([1, 130, 400]))
    await settled()


async def test_letters_have_numbers_that_never_repeat_and_follow_the_log() -> None:
    """They name files: one that repeats would pass for read, one behind a restored log for an older one."""
    send = Send("a", Revoked("x", "machine/x", "r", "why"))
    world, entry = World(), Entry("machine/x", outbox=(send, send, send))
    world.seq = 41
    numbers = [letter.seq for _, letter in world.project(1, 1, 0, entry)]
    world.seq = 100
    numbers += [letter.seq for _, letter in world.project(1, 2, 0, entry)]
    assert numbers == [41, 42, 43, 100, 101, 102]


@pytest.mark.parametrize("seed", range(12))
async def test_snapshot_and_replay_equal_the_lived_world(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, clock = random.Random(seed), VirtualClock()
    config = Config(resources={"machine/gpu": Config().lock(("0", "1"))})
    whole, store = MemoryStore(), MemoryStore()
    for _ in range(3):
        monkeypatch.setattr(journal_module, "SNAPSHOT_EVERY_RECORDS", chance.choice([1, 2, 7, 30, 10_000]))
        bus = Bus(store, config, clock=clock)
        if chance.random() < 0.5:
            bus.journal.keep_ms = 0
        bus.store.on_durable = whole.durable.append
        async with bus.running():
            await converse(bus, chance, 40)
            await bus.supervisor.stop()
            await settled()
            await bus.journal.close(snapshot=chance.random() < 0.5)
        lived = as_bytes(bus.supervisor.world)
        assert as_bytes(await replayed(store)) == lived
        assert as_bytes(await replayed(whole)) == lived, "and so does the whole log, without any snapshot"
        store = store.crash()


async def test_the_world_of_an_empty_journal_is_empty(store: MemoryStore) -> None:
    assert as_bytes(await replayed(store)) == as_bytes(World())


async def test_ids_are_remembered_to_their_bound_and_the_oldest_go_first(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limits.IDS_REMEMBERED == 65_536
    monkeypatch.setattr("interlock.coordinator.world.IDS_REMEMBERED", 5)
    monkeypatch.setattr("interlock.coordinator.world.IDS_SLACK", 2)
    async with bus.running():
        a = bus.client("a")
        for n in range(10):
            await a.ask("REQUEST machine/r - x" if n % 2 == 0 else "RELEASE machine/r", f"id-{n}")
        kept = [*bus.supervisor.world.ids]
        assert 5 <= len(kept) <= 7, "past seven two go at once"
        assert kept == [f"id-{n}" for n in range(10 - len(kept), 10)]
        lived = as_bytes(bus.supervisor.world)
    assert as_bytes(await replayed(bus.store)) == lived


async def test_past_the_limit_an_idle_resource_makes_room_and_none_in_use_does(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.coordinator.world.RESOURCES_LIVE_MAX", 4)
    async with bus.running():
        a = bus.client("a")
        await a.ask("REQUEST machine/kept - x")
        for n in range(10):
            await a.ask(f"REQUEST machine/r{n} - x")
            await a.ask(f"RELEASE machine/r{n}")
        assert [*bus.supervisor.world.resources] == ["machine/kept", "machine/r7", "machine/r8", "machine/r9"]
        lived = as_bytes(bus.supervisor.world)
    assert as_bytes(await replayed(bus.store)) == lived


async def test_reading_the_log_leaves_the_world_alone(bus: Bus) -> None:
    async with bus.running():
        await bus.client("a").ask("REQUEST machine/r - x")
        before = as_bytes(bus.supervisor.world)
        await bus.journal.read(0, 100)
        assert as_bytes(bus.supervisor.world) == before
        assert isinstance(bus.journal, Journal)
