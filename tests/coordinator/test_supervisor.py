"""The supervisor: who hears what, who pays for whom, what is left after a restart, and what a crowd costs."""

import errno
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest
import structlog
from tests.coordinator.bus import Bus, FakeCaller, FakeEffects, as_bytes, process, replayed, settled
from tests.coordinator.memory_store import MemoryStore

from interlock.coordinator import records
from interlock.coordinator.config import parse_config
from interlock.coordinator.journal import LAZY_S
from interlock.coordinator.records import CameUp, Event
from interlock.coordinator.session import UNREAD_BYTES_MAX, Session
from interlock.coordinator.store import Snapshot
from interlock.coordinator.world import World
from interlock.protocol import resource as resource_machine
from interlock.protocol.agents import Agents
from interlock.protocol.definition import Definition
from interlock.protocol.identity import Identity
from interlock.protocol.limits import FRAME_BYTES_MAX
from interlock.protocol.messages import Granted, Release, tag_of
from interlock.protocol.outcome import Now
from interlock.protocol.registry import Agent, Registry
from interlock.protocol.resource_commands import Mail, RunStep
from interlock.protocol.resource_events import HoldGranted
from interlock.protocol.resource_queue import Queue
from interlock.protocol.resource_state import Resource, Ticket, Unit, UnitState

pytestmark = pytest.mark.anyio
KEY = "machine/r"


def run_request(purpose: str = "test") -> dict[str, Any]:
    return {"type": "REQUEST", "resource": KEY, "worktree": "-", "purpose": purpose, "run": True}


# --- what follows ---------------------------------------------------------------------------
async def test_one_consequence_that_fails_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process cannot be watched, a session cannot be written to: who asked has its answer, and so has who waited."""

    class Failing(FakeEffects):
        def watch(self, identity: Identity, then: Callable[[], None]) -> Callable[[], None]:
            raise OSError(errno.EMFILE, "Too many open files")

    bus = Bus(effects=Failing())
    with anyio.fail_after(60):
        async with bus.running():
            a, b = bus.client("a", FakeCaller(process())), bus.client("b")
            other = bus.client("b")
            with structlog.testing.capture_logs() as logged:
                assert (await a.ask(f"REQUEST {KEY} - x"))["type"] == "GRANTED"
                assert {each["event"] for each in logged} == {"follow_up_failed"}
                await b.ask(f"REQUEST {KEY} - y")
                for first in (b, other):
                    await first.ask({"type": "WAIT", "resource": KEY, "follow": True}, to="supervisor")
                for broken in (b, other):
                    monkeypatch.setattr(broken.session, "push", lambda frame: 1 / 0)
                assert (await a.ask(f"RELEASE {KEY}"))["type"] == "RELEASED"
                await settled()
            unit = bus.supervisor.world.resources[KEY].units[0]
            assert unit.ticket is not None
            assert unit.ticket.agent == "b"


# --- processes ------------------------------------------------------------------------------
async def test_an_owner_whose_process_ends_loses_it_in_that_same_moment(bus: Bus) -> None:
    mine = process()
    async with bus.running():
        a, b = bus.client("a", FakeCaller(mine)), bus.client("b")
        await a.ask(f"REQUEST {KEY} - x")
        await b.ask(f"REQUEST {KEY} - y")
        bus.effects.end(mine)
        await settled()
        unit = bus.supervisor.world.resources[KEY].units[0]
        assert unit.ticket is not None
        assert unit.ticket.agent == "b"


async def test_a_request_that_is_recorded_after_its_sender_is_gone_does_not_stay(bus: Bus) -> None:
    """The registry knew that it was gone before the resource knew that it asked."""
    mine = process()
    async with bus.running():
        a, b = bus.client("a", FakeCaller(mine)), bus.client("b")
        await a.ask("STATUS")
        await b.ask("STATUS")
        bus.store.stall = anyio.Event()
        await b.post("hello", to="b")
        await settled()  # an append is under way: the next two are decided while it lasts
        await a.post(f"REQUEST {KEY} - x")
        bus.effects.end(mine)
        await settled()
        bus.store.stall.set()
        await settled()
        assert bus.supervisor.world.registry.agents["a"].gone
        assert bus.supervisor.world.resources[KEY].units[0].state is UnitState.FREE


async def test_a_process_that_ended_while_no_supervisor_ran_is_found_at_the_next_start(bus: Bus) -> None:
    mine = process()
    async with bus.running():
        await bus.client("a", FakeCaller(mine)).ask(f"REQUEST {KEY} - x")
        await bus.client("b").ask(f"REQUEST {KEY} - y")
    effects = FakeEffects()
    effects.end(mine)
    bus = Bus(bus.store.crash(), effects=effects, clock=bus.clock)
    async with bus.running():
        await settled()
        unit = bus.supervisor.world.resources[KEY].units[0]
        assert unit.ticket is not None
        assert unit.ticket.agent == "b"


# --- messages of a run, followers ------------------------------------------------------------
async def test_what_concerns_a_run_goes_to_its_connection_and_to_no_inbox(bus: Bus) -> None:
    async with bus.running():
        a, same, run = bus.client("a"), bus.client("a"), bus.client("a")
        b = bus.client("b")
        await b.ask(f"REQUEST {KEY} - y")
        await a.ask({"type": "WAIT", "resource": "*", "follow": True}, to="supervisor")
        await run.ask(run_request())
        await b.ask(f"RELEASE {KEY}")
        await settled()
        assert [body["type"] for body in run.heard("GRANTED")] == ["GRANTED"]
        assert not a.heard("GRANTED")
        assert not same.heard("GRANTED")
        assert not bus.supervisor.world.inbox("a").unread


async def test_a_run_that_comes_back_on_another_connection_hears_there(bus: Bus) -> None:
    async with bus.running():
        b, run = bus.client("b"), bus.client("a")
        await b.ask(f"REQUEST {KEY} - y")
        await run.ask(run_request(), "run-1")
        bus.supervisor.forget(run.session)
        again = bus.client("a")
        assert (await again.ask(run_request(), "run-1"))["type"] == "QUEUED"
        await b.ask(f"RELEASE {KEY}")
        await settled()
        assert (len(run.heard("GRANTED")), len(again.heard("GRANTED"))) == (0, 1)


async def test_a_connection_that_followed_as_one_agent_and_ends_as_another_is_forgotten(bus: Bus) -> None:
    """It was kept for ever as a follower of the first, with all that it had been told."""
    async with bus.running():
        client = bus.client("a")
        await client.ask({"type": "JOIN", "agent": "a"}, to="supervisor")
        await client.ask({"type": "WAIT", "resource": "*", "follow": True}, to="supervisor")
        await client.ask({"type": "JOIN", "agent": "b"}, to="supervisor")
        assert client.session.agent == "b"
        bus.supervisor.forget(client.session)
        assert bus.supervisor.followers == {}


async def test_a_run_whose_connection_has_ended_already_is_not_waited_for_there(bus: Bus) -> None:
    async with bus.running():
        run = bus.client("a")
        run.session.close()
        bus.supervisor.forget(run.session)
        bus.supervisor.run_waits("run-1", run.session)
        assert bus.supervisor.runs == {}


async def test_a_follower_hears_at_once_and_the_letter_counts_as_delivered(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} - x")
        await b.ask(f"REQUEST {KEY} - y")
        await b.ask({"type": "WAIT", "resource": KEY, "follow": True}, to="supervisor")
        await a.ask(f"RELEASE {KEY}")
        await settled()
        assert len(b.heard("GRANTED")) == 1
        await anyio.sleep(2 * LAZY_S)
        [letter] = [each for each in bus.supervisor.world.inbox("b").unread.values() if isinstance(each.body, Granted)]
        assert letter.delivered


async def test_that_a_letter_was_shown_has_no_record_of_its_own_while_others_are_written(bus: Bus) -> None:
    """A fsync for it would be one that the next holder's RELEASE, which comes a moment later, has to wait for."""
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} - x")
        await b.ask(f"REQUEST {KEY} - y")
        for each in (a, b):
            await each.ask({"type": "WAIT", "resource": KEY, "follow": True}, to="supervisor")
        await anyio.sleep(1)
        before = bus.store.appends
        for holder in (a, b) * 5:
            await holder.ask(f"RELEASE {KEY}")
            await holder.ask(f"REQUEST {KEY} - again")
        assert bus.store.appends == before + 20
        assert not [each for each in bus.supervisor.world.inbox("a").unread.values() if not each.delivered]


async def test_a_message_about_a_letter_that_was_just_shown_does_not_wait_for_the_moment(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} - x")
        await b.ask(f"REQUEST {KEY} - y")
        await b.ask({"type": "WAIT", "resource": KEY, "follow": True}, to="supervisor")
        await a.ask(f"RELEASE {KEY}")
        began = bus.clock.mono_ms()
        [letter] = bus.supervisor.world.inbox("b").unread.values()
        assert (await b.ask({"type": "ACK", "ids": [letter.id]}, to="supervisor"))["type"] == "ACKED"
        assert bus.clock.mono_ms() - began < LAZY_S * 1000


class DoorThatIsNotRead:
    """A connection whose other end takes nothing."""

    def __init__(self) -> None:
        self.waiting = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.waiting += data

    def backlog(self) -> int:
        return len(self.waiting)

    def idle(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


# --- slow readers -----------------------------------------------------------------------------
async def test_a_reader_that_does_not_read_is_cut_off_and_nobody_else_pays(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask("STATUS")
        door = DoorThatIsNotRead()
        slow = Session(FakeCaller(), door)
        slow.agent = "b"
        bus.supervisor.sessions.add(slow)
        bus.supervisor.followers["b"] = {slow, b.session}
        sent = 0
        while not slow.closed.is_set() and sent < 100:
            await b.ask("STATUS")
            await a.ask("x" * 60_000, to="b")
            await settled()
            await anyio.sleep(1)
            sent += 1
        assert 30 < sent < 40, "4 MiB may wait, and a frame holds its text twice"
        assert door.backlog() <= UNREAD_BYTES_MAX + FRAME_BYTES_MAX
        assert door.closed
        assert len(b.heard("TEXT")) >= sent
        assert (await a.ask(f"REQUEST {KEY} - x"))["type"] == "GRANTED"


async def test_a_closed_session_is_given_no_letters(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await b.ask({"type": "PING"}, to="supervisor")
        await b.ask("STATUS")
        await b.ask({"type": "WAIT", "resource": "*", "follow": True}, to="supervisor")
        b.session.close()
        await settled()
        await a.ask("hello", to="b")
        await settled()
        [letter] = bus.supervisor.world.inbox("b").unread.values()
        assert not letter.delivered, "no door has handed it over"


# --- ids ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", [f"EXTEND {KEY} more, 20m", f"RELEASE {KEY}", f"REQUEST {KEY} - x"])
async def test_the_same_message_again_is_never_done_again(bus: Bus, text: str) -> None:
    async with bus.running():
        a = bus.client("a")
        await a.ask(f"REQUEST {KEY} - x", "first")
        await a.ask(text, "again")
        before, seq = as_bytes(bus.supervisor.world), bus.supervisor.world.seq
        await anyio.sleep(60)
        await a.ask(text, "again")
        assert (as_bytes(bus.supervisor.world), bus.supervisor.world.seq) == (before, seq)
    bus = Bus(bus.store.crash(), clock=bus.clock)
    async with bus.running():
        seq = bus.supervisor.world.seq
        await bus.client("a").ask(text, "again")
        assert bus.supervisor.world.seq == seq


async def test_a_letter_read_long_ago_is_not_posted_again(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await b.ask("STATUS")
        await a.ask("hello", "old", to="b")
        for n in range(300):
            await a.ask(f"hello {n}", f"l{n}", to="b")
            await anyio.sleep(0.2)
        unread = tuple(bus.supervisor.world.inbox("b").unread)
        await b.ask({"type": "ACK", "ids": unread}, to="supervisor")
        await settled()
        assert (await a.ask("hello", "old", to="b"))["state"] == "acked"
        assert not bus.supervisor.world.inbox("b").unread


# --- restart ------------------------------------------------------------------------------------
async def test_a_start_claims_the_journal_in_its_first_record_and_a_stop_says_so(bus: Bus) -> None:
    async with bus.running():
        await bus.client("a").ask(f"REQUEST {KEY} - x")
        await bus.supervisor.stop()
    bus = Bus(bus.store.crash(), clock=bus.clock)
    async with bus.running():
        assert bus.supervisor.world.term == 2
    bodies = [msgspec.json.decode(row.body) for row in bus.store.durable]
    kinds = [event["type"] for body in bodies for entry in body["entries"] for event in entry["events"]]
    assert (kinds[0], kinds[-2:]) == ("up", ["bus_down", "up"])


async def test_a_full_disk_does_not_keep_the_bus_from_starting(bus: Bus) -> None:
    async with bus.running():
        await bus.client("a").ask(f"REQUEST {KEY} - x")
    store = bus.store.crash()
    store.full = True
    bus = Bus(store, clock=bus.clock)
    with anyio.fail_after(5):
        async with bus.running():
            b = bus.client("a")
            assert (await b.ask(f"RELEASE {KEY}"))["code"] == "JOURNAL_UNAVAILABLE"
            store.full = False
            assert (await b.ask(f"RELEASE {KEY}"))["type"] == "RELEASED"
            await anyio.sleep(2)
            terms = [event.term for event in events_of(store) if isinstance(event, CameUp)]
            assert terms == [1, 2], "its claim is on record as soon as there is room"
    assert as_bytes(await replayed(store)) == as_bytes(bus.supervisor.world)


async def test_a_step_under_way_is_taken_up_again_once(bus: Bus) -> None:
    config = parse_config('[resources.web]\nkind = "server"\nstart = "x"\n', "bus.toml")
    bus = Bus(config=config)
    async with bus.running():
        await bus.client("a").ask("REQUEST web /w x")
        assert [type(order) for _, order in bus.effects.begun] == [RunStep]
    bus = Bus(bus.store.crash(), config, clock=bus.clock)
    async with bus.running():
        await settled()
        assert [type(order) for _, order in bus.effects.begun] == [RunStep]


def events_of(store: MemoryStore) -> list[Event]:
    return [event for row in store.durable for entry in records.decode(row.body).entries for event in entry.events]


# --- a crowd --------------------------------------------------------------------------------------
def crowded(waiters: int) -> MemoryStore:
    """A store with a snapshot in which so many stand in one queue, behind a holder."""
    names = ["holder", *(f"a{n}" for n in range(waiters))]
    tickets = [Ticket(f"t-{name}", name, 1, n, "-", "x", KEY, 0) for n, name in enumerate(names)]
    held = Unit("", UnitState.HELD, tickets[0], fence=1, claimed=True)
    resource = Resource(KEY, Definition(), units=(held,), queue=Queue(tickets[1:]), next_arrival=waiters + 1)
    registry = Registry(Agents(Agent(name, 1, 0) for name in names))
    world = World(registry, {KEY: resource}, seq=1)
    return MemoryStore(kept=Snapshot(0, b"", world.encode()))


async def grants(waiters: int, turns: int = 20) -> tuple[float, dict[str, int]]:
    """Milliseconds from RELEASE to its answer, and what was put into all inboxes meanwhile, by type."""
    bus = Bus(crowded(waiters))
    async with bus.running():
        await settled()
        clients = [bus.client(name) for name in ["holder", *(f"a{n}" for n in range(turns))]]
        for client in clients:
            await client.ask({"type": "WAIT", "resource": KEY, "follow": True}, to="supervisor")
        started = time.perf_counter()
        for client in clients[:turns]:
            assert (await client.ask(f"RELEASE {KEY}"))["type"] == "RELEASED"
        took = (time.perf_counter() - started) / turns
        await settled()
        assert len(bus.supervisor.world.resources[KEY].queue) == waiters - turns
        letters = [letter for inbox in bus.supervisor.world.inboxes.values() for letter in inbox.unread.values()]
        assert sum(len(client.heard("GRANTED")) for client in clients[1:]) == turns
        rows = [records.decode(row.body) for row in bus.store.durable]
        assert len(letters) <= sum(len(entry.outbox) for row in rows for entry in row.entries)
        sent = Counter(tag_of(send.body) for row in rows for entry in row.entries for send in entry.outbox)
        return took * 1000, dict(sent)


async def test_one_grant_wakes_one_waiter_whatever_the_queue(capsys: pytest.CaptureFixture[str]) -> None:
    few, told_few = await grants(25)
    many, told_many = await grants(10_000)
    with capsys.disabled():
        print(f"\n  a grant with 25 waiters {few:.2f} ms, with 10,000 {many:.2f} ms: {many / few:.1f} times")
    assert told_few == told_many == {"GRANTED": 20, "QUEUED": 20}, "one wake a grant, one word to whoever is first now"


def test_one_decision_costs_the_same_whatever_the_queue(capsys: pytest.CaptureFixture[str]) -> None:
    took = {}
    for waiters in (25, 10_000):
        world = World.decode(crowded(waiters).kept.body)  # type: ignore[union-attr] # it has one
        now = Now(1, "boot-1", 1, 2)
        started = time.perf_counter()
        for n in range(20):
            mail = Mail("holder", 1, f"m{n}", Release(KEY), KEY)
            outcome = resource_machine.decide(world.resources[KEY], mail, now)
            assert any(isinstance(event, HoldGranted) for event in outcome.events)
        took[waiters] = (time.perf_counter() - started) / 20 * 1000
    with capsys.disabled():
        print(f"\n  decide: a grant with 25 waiters {took[25]:.3f} ms, with 10,000 {took[10_000]:.3f} ms")
