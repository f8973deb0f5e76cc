"""The whole log is checked and copied a piece at a time; a copy grants nothing to whoever starts from it."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from tests.coordinator.bus import Bus
from tests.coordinator.memory_store import MemoryStore

from interlock.coordinator.store import Row, Snapshot, Unusable
from interlock.protocol.limits import VERIFIED_ROWS_A_CALL

pytestmark = pytest.mark.anyio


class Copy:
    """A copy in memory."""

    def __init__(self, fails: bool = False) -> None:
        self.store = MemoryStore()
        self.fails = fails
        self.closed = False

    async def add(self, rows: Sequence[Row]) -> None:
        if self.fails:
            raise OSError(28, "No space left on device")
        self.store.durable += rows

    async def finish(self, snapshot: Snapshot | None) -> str:
        self.store.kept = snapshot
        return "/copy"

    async def close(self) -> None:
        self.closed = True


async def filled(bus: Bus) -> None:
    a = bus.client("a")
    for n in range(VERIFIED_ROWS_A_CALL + 6):
        await a.ask(f"REQUEST machine/r{n} - x")
    bus.client("b")


async def asked(bus: Bus, kind: str) -> Any:
    client = bus.client("a")
    await client.post({"type": kind}, to="supervisor")
    return client.frames[-1]["body"]


async def test_a_whole_log_is_said_to_be_whole(bus: Bus) -> None:
    async with bus.running():
        await filled(bus)
        said = await asked(bus, "VERIFY")
        world = bus.supervisor.world
        assert said == {"type": "VERIFIED", "records": world.index, "seq": world.seq}


def flip(rows: list[Row]) -> None:
    rows[5] = msgspec.structs.replace(rows[5], body=rows[5].body[:-1] + b" ")


def exchange(rows: list[Row]) -> None:
    rows[4], rows[5] = (
        msgspec.structs.replace(rows[5], index=rows[4].index),
        msgspec.structs.replace(rows[4], index=rows[5].index),
    )


def forget(rows: list[Row]) -> None:
    del rows[5]


def forget_last(rows: list[Row]) -> None:
    rows.pop()


def forget_all(rows: list[Row]) -> None:
    rows.clear()


HARMS = [
    (flip, "broken at record 6"),
    (exchange, "broken at record 5"),
    (forget, "broken at record 7"),
    (forget_last, "the last records that were written are not on disk"),
    (forget_all, "the last records that were written are not on disk"),
]


@pytest.mark.parametrize(("harm", "says"), HARMS)
async def test_a_log_that_is_not_what_was_written_is_told(
    bus: Bus, harm: Callable[[list[Row]], None], says: str
) -> None:
    async with bus.running():
        await filled(bus)
        harm(bus.store.durable)
        assert says in (await asked(bus, "VERIFY"))["broken"]


async def test_pages_that_cannot_be_read_are_told(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreadable(after: int, limit: int) -> list[Row]:
        raise Unusable("bus.db is damaged")

    async with bus.running():
        monkeypatch.setattr(bus.store, "rows", unreadable)
        assert (await asked(bus, "VERIFY"))["broken"] == "bus.db is damaged"


@pytest.mark.parametrize("with_snapshot", [True, False])
async def test_a_copy_has_all_messages_and_grants_nothing(bus: Bus, with_snapshot: bool) -> None:
    copy = Copy()
    async with bus.running():
        bus.desk.copy = lambda: copy
        await filled(bus)
        if with_snapshot:
            await bus.journal._save_snapshot()
        said = await asked(bus, "BACKUP")
        held = dict(bus.supervisor.world.resources)
        seq = bus.supervisor.world.seq
    assert (said["type"], said["path"], said["seq"]) == ("BACKED_UP", "/copy", seq + 1)
    assert copy.closed

    restored = Bus(copy.store)
    async with restored.running():
        world = restored.supervisor.world
        assert "bus.db is a backup made at" in restored.supervisor.recovery
        assert world.registry.living("a") is not None
        assert {key: each.units[0].state for key, each in world.resources.items()} == dict.fromkeys(
            held, "recovery_required"
        )
        answer = await restored.client("c").ask("REQUEST machine/r1 - x")
        assert answer["state"] == "recovery_required"
        assert world.seq > seq + 1


async def test_a_copy_that_fails_leaves_nothing_and_says_so(bus: Bus) -> None:
    copy = Copy(fails=True)
    async with bus.running():
        bus.desk.copy = lambda: copy
        said = await asked(bus, "BACKUP")
        assert (said["code"], copy.closed) == ("JOURNAL_UNAVAILABLE", True)
        assert "No space left" in said["why"]


async def test_a_damaged_log_is_not_copied(bus: Bus) -> None:
    copy = Copy()
    async with bus.running():
        bus.desk.copy = lambda: copy
        await filled(bus)
        flip(bus.store.durable)
        assert "broken at record 6" in (await asked(bus, "BACKUP"))["why"]
        assert copy.closed
