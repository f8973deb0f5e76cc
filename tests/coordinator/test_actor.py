"""Recorded first, spoken second; a full disk; a fault of ours: what an actor does for whom."""

from typing import Any

import anyio
import pytest
from tests.coordinator.bus import Bus, settled
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.virtual_time import VirtualClock

from interlock.coordinator import records
from interlock.coordinator.records import Dead
from interlock.coordinator.store import NotWritten
from interlock.protocol import resource as resource_machine
from interlock.protocol.limits import RESTARTS_MAX, RESTARTS_WITHIN_MS
from interlock.protocol.resource_commands import Mail, Tick
from interlock.protocol.resource_state import UnitState

pytestmark = pytest.mark.anyio
KEY = "machine/r"


class Poison:
    """The machine, but for one purpose it has a fault; and for Tick, where asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.ticks = False
        decide = resource_machine.decide

        def poisoned(state: Any, command: Any, now: Any) -> Any:
            purpose = getattr(command.body, "purpose", "") if isinstance(command, Mail) else ""
            if purpose == "poison" or (self.ticks and isinstance(command, Tick)):
                self.calls += 1
                raise ZeroDivisionError("planted")
            return decide(state, command, now)

        monkeypatch.setattr(resource_machine, "decide", poisoned)


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Poison:
    return Poison(monkeypatch)


async def test_no_answer_leaves_before_its_record(bus: Bus) -> None:
    async with bus.running():
        a = bus.client("a")
        await a.ask(f"REQUEST {KEY} - x")
        bus.store.stall = anyio.Event()
        id_ = await a.post(f"RELEASE {KEY}")
        await anyio.sleep(5)
        assert not any(frame.get("reply_to") == id_ for frame in a.frames)
        bus.store.stall.set()
        assert (await a.answer(id_))["body"]["type"] == "RELEASED"


async def test_an_answer_without_an_event_waits_for_what_it_was_decided_after(bus: Bus) -> None:
    """NOT_HOLDER, because of a release that is not yet on disk, would tell of it."""
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} - x")
        await b.ask("STATUS")
        bus.store.stall = anyio.Event()
        await a.post(f"RELEASE {KEY}")
        again = await a.post(f"RELEASE {KEY}")
        later = await b.post(f"CANCEL {KEY}")
        await settled()
        last = await a.post(f"EXTEND {KEY} x")
        await anyio.sleep(5)
        assert not any(frame.get("reply_to") in {again, later, last} for frame in [*a.frames, *b.frames])
        status = await b.ask({"type": "STATUS", "resource": KEY}, to="supervisor")
        assert status["resources"][0]["state"] == "held", "what is not durable is shown to nobody"
        bus.store.stall.set()
        assert (await a.answer(again))["body"]["code"] == "NOT_HOLDER"
        assert (await a.answer(last))["body"]["code"] == "NOT_HOLDER"
        assert (await b.answer(later))["body"]["code"] == "NOT_QUEUED"


async def test_a_crowd_is_decided_in_one_go_and_kept_in_one_record(bus: Bus) -> None:
    async with bus.running():
        clients = [bus.client(f"a{n}") for n in range(40)]
        for client in clients:
            await client.ask("STATUS")
        before = len(bus.store.durable)
        ids = [await client.post(f"REQUEST {KEY} - x") for client in clients]
        answers = [(await client.answer(id_))["body"] for client, id_ in zip(clients, ids, strict=True)]
        assert len(bus.store.durable) == before + 1
        assert [body.get("position", 0) for body in answers] == list(range(40))


async def test_a_full_disk_is_said_to_everybody_who_asked_and_changes_nothing(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} - x")
        await b.ask("STATUS")
        bus.store.full = True
        ids = [
            (a, await a.post(f"RELEASE {KEY}")),
            (b, await b.post(f"REQUEST {KEY} - y")),
            (b, await b.post("hi", to="a")),
        ]
        for client, id_ in ids:
            with anyio.fail_after(2):
                body = (await client.answer(id_))["body"]
            assert (body["type"], body["code"]) == ("REFUSED", "JOURNAL_UNAVAILABLE")
            assert "nothing was changed" in body["why"]
        bus.store.full = False
        assert (await b.ask(f"REQUEST {KEY} - y"))["type"] == "QUEUED"
        assert (await a.ask(f"RELEASE {KEY}", ids[0][1]))["type"] == "RELEASED", "the same id may be sent again"


async def test_what_the_bus_has_to_say_to_itself_is_tried_again_until_there_is_room(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} - x")
        await b.ask(f"REQUEST {KEY} - y")
        bus.store.full = True
        await anyio.sleep(600)  # the polls fall due, and nothing can be written
        assert bus.supervisor.world.resources[KEY].units[0].polls == 0
        bus.store.full = False
        await anyio.sleep(2)
        await anyio.sleep(180 * 4)
        ticket = bus.supervisor.world.resources[KEY].units[0].ticket
        assert ticket is not None
        assert ticket.agent == "b", "work resumes by itself"


async def test_fences_never_repeat_and_always_grow_over_failures_and_starts(store: MemoryStore) -> None:
    fences: list[int] = []
    for life in range(4):
        bus = Bus(store)
        async with bus.running():
            a = bus.client("a")
            await a.ask("STATUS")
            for turn in range(5):
                store.faults[store.appends + 1] = NotWritten("no room", full=True)
                assert (await a.ask(f"REQUEST {KEY} - {life}.{turn}"))["code"] == "JOURNAL_UNAVAILABLE"
                fences.append((await a.ask(f"REQUEST {KEY} - {life}.{turn}"))["fence"])
                await a.ask(f"RELEASE {KEY}")
        store = store.crash()
    assert fences == sorted(set(fences))
    assert len(fences) == 20


async def test_a_fault_of_ours_costs_one_message_and_nobody_else_notices(bus: Bus, poison: Poison) -> None:
    async with bus.running():
        a, b, c = bus.client("a"), bus.client("b"), bus.client("c")
        for client in (a, b, c):
            await client.ask("STATUS")
        ids = [
            (a, await a.post(f"REQUEST {KEY} - good")),
            (b, await b.post(f"REQUEST {KEY} - poison")),
            (c, await c.post(f"REQUEST {KEY} - good")),
        ]
        said = [(await client.answer(id_))["body"] for client, id_ in ids]
        assert [body["type"] for body in said] == ["GRANTED", "REFUSED", "QUEUED"]
        assert said[1]["code"] == "INTERNAL"
        assert said[2]["position"] == 1
        assert [*bus.supervisor.world.resources[KEY].queue] == [ids[2][1]]


async def test_a_dead_letter_is_on_record_and_never_fed_again(bus: Bus, poison: Poison) -> None:
    async with bus.running():
        a = bus.client("a")
        await a.ask("STATUS")
        for _ in range(3):
            body = await a.ask(f"REQUEST {KEY} - poison", "dead-1")
            assert (body["type"], body["code"]) == ("REFUSED", "INTERNAL")
        assert poison.calls == 1
        events = [
            event for row in bus.store.durable for entry in records.decode(row.body).entries for event in entry.events
        ]
        assert [(event.id, event.actor_key) for event in events if isinstance(event, Dead)] == [("dead-1", KEY)]
    bus = Bus(bus.store.crash())
    async with bus.running():
        assert (await bus.client("a").ask(f"REQUEST {KEY} - poison", "dead-1"))["code"] == "INTERNAL"
        assert poison.calls == 1


async def test_five_faults_in_half_a_minute_freeze_the_resource_and_it_says_so(bus: Bus, poison: Poison) -> None:
    async with bus.running():
        a = bus.client("a")
        for _ in range(RESTARTS_MAX):
            assert "frozen" not in (await a.ask(f"REQUEST {KEY} - poison"))["why"]
        body = await a.ask(f"REQUEST {KEY} - good")
        assert body["code"] == "INTERNAL"
        assert "machine/r failed and is frozen" in body["why"]
        assert "bus down and bus up" in body["why"]
        assert (await a.ask("REQUEST machine/other - good"))["type"] == "GRANTED"


async def test_rare_faults_freeze_nothing(bus: Bus, poison: Poison) -> None:
    async with bus.running():
        a = bus.client("a")
        for _ in range(3 * RESTARTS_MAX):
            await a.ask(f"REQUEST {KEY} - poison")
            await anyio.sleep(RESTARTS_WITHIN_MS / 1000 / (RESTARTS_MAX - 2))
        assert (await a.ask(f"REQUEST {KEY} - good"))["type"] == "GRANTED"


async def test_a_frozen_resource_with_a_deadline_does_not_spin(bus: Bus, poison: Poison) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} - x")
        await b.ask(f"REQUEST {KEY} - y")
        poison.ticks = True
        with anyio.fail_after(3600):
            for _ in range(200):  # a loop would stand still in virtual time, and never come to its end
                await anyio.sleep(5)
        assert poison.calls == 1
        assert "frozen" in (await b.ask(f"CANCEL {KEY}"))["why"]


async def test_a_full_mailbox_refuses_the_newcomer_and_keeps_room_for_what_is_urgent(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.coordinator.mailbox.Mailbox.__init__.__defaults__", (10, 4))
    async with bus.running():
        a = bus.client("a")
        await a.ask(f"REQUEST {KEY} - x")
        clients = [bus.client(f"a{n}") for n in range(8)]
        for client in clients:
            await client.ask("STATUS")
        bus.store.stall = anyio.Event()
        await a.post(f"EXTEND {KEY} x")
        await settled()  # the actor waits for the disk; what comes now stays in its mailbox
        asked = [(client, await client.post(f"REQUEST {KEY} - y")) for client in clients]
        released = await a.post(f"RELEASE {KEY}")
        await settled()
        refused = [client.heard("REFUSED") for client, _ in asked]
        assert [bool(each) for each in refused] == [False] * 6 + [True] * 2
        full = [client.heard("REFUSED")[0]["code"] for client, _ in asked[6:]]
        assert full == ["QUEUE_FULL"] * 2
        bus.store.stall.set()
        assert (await a.answer(released))["body"]["type"] == "RELEASED"
        kept = [(await client.answer(id_))["body"]["type"] for client, id_ in asked[:6]]
        assert kept == ["QUEUED"] * 6
        assert len(clients[0].heard("GRANTED")) == 0, "it is in the inbox: nobody follows"
        assert bus.supervisor.world.resources[KEY].units[0].state is UnitState.HELD


async def test_what_a_step_has_to_say_is_never_lost_in_a_flood_of_signs_of_life(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.coordinator.mailbox.Mailbox.__init__.__defaults__", (10, 4))
    async with bus.running():
        a, b, c = bus.client("a"), bus.client("b"), bus.client("c")
        await a.ask(f"REQUEST {KEY} - x")
        await b.ask(f"REQUEST {KEY} - y")
        await a.ask(f"RELEASE {KEY}")  # b has it now, and has not noticed
        await c.ask(f"REQUEST {KEY} - z")
        bus.store.stall = anyio.Event()
        await c.post(f"EXTEND {KEY} x")
        await c.post(f"CANCEL {KEY}")
        await settled()
        for _ in range(100):
            await b.post("STATUS")
        assert bus.supervisor.tell(KEY, Tick()), "the bus's own word has its room"
        bus.store.stall.set()


async def test_an_idle_actor_leaves_no_task_and_no_entry(bus: Bus) -> None:
    async with bus.running():
        a = bus.client("a")
        for n in range(100):
            await a.ask(f"REQUEST machine/r{n} - x")
            await a.ask(f"RELEASE machine/r{n}")
        await settled()
        assert not bus.supervisor.dispatcher._actors
        assert not bus.supervisor._asking
        assert len(bus.supervisor.world.resources) == 100


async def test_an_item_is_one_message(clock: VirtualClock) -> None:
    """The same id under way from two connections is decided once and answered twice."""
    bus = Bus(clock=clock)
    async with bus.running():
        a, again = bus.client("a"), bus.client("a")
        await a.ask("STATUS")
        bus.store.stall = anyio.Event()
        await a.post(f"REQUEST {KEY} - x", "same")
        await settled()
        await again.post(f"REQUEST {KEY} - x", "same")
        bus.store.stall.set()
        first, second = (await a.answer("same"))["body"], (await again.answer("same"))["body"]
        assert (first["type"], first["fence"]) == (second["type"], second["fence"])
        assert (
            len(
                [
                    c
                    for row in bus.store.durable
                    for e in records.decode(row.body).entries
                    for c in e.causes
                    if c == "same"
                ]
            )
            == 1
        )


@pytest.mark.parametrize("other", ["another purpose", "another agent"])
async def test_the_same_id_with_other_content_is_a_conflict_even_while_the_first_is_under_way(
    bus: Bus, other: str
) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask("STATUS")
        await b.ask("STATUS")
        bus.store.stall = anyio.Event()
        await a.post(f"REQUEST {KEY} - x", "same")
        await settled()
        who = a if other == "another purpose" else b
        await who.post(f"REQUEST {KEY} - y", "same")
        bus.store.stall.set()
        await settled()
        assert [body["code"] for body in who.heard("REFUSED")] == ["ID_CONFLICT"]
        assert (await a.answer("same"))["body"]["type"] in {"GRANTED", "REFUSED"}
        assert [body["type"] for body in a.heard("GRANTED")] == ["GRANTED"]


async def test_one_record_stays_within_its_bound_whatever_the_crowd(bus: Bus) -> None:
    """One record is later one message in a stream: 512 KiB, and a little for its frame."""
    async with bus.running():
        a = bus.client("a")
        await a.ask(f"REQUEST {KEY} - x")
        clients = [bus.client(f"a{n}") for n in range(1500)]
        for client in clients:
            await client.ask("STATUS")
        for client in clients:
            await client.post(f"REQUEST {KEY} - {'p' * 1000}")
        await anyio.sleep(1)
        assert len(bus.supervisor.world.resources[KEY].queue) == 1500
        assert max(len(row.body) for row in bus.store.durable) < 600_000
