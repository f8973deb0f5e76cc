"""Several resources in one REQUEST: all or none, nothing held meanwhile, one record, and no place lost."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from tests.coordinator.bus import Bus, FakeCaller, process, settled
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.several_resources import CONFIG, agents, lived

from interlock.coordinator.config import parse_config
from interlock.coordinator.store import Row
from interlock.protocol.limits import PASSES_MAX, TOGETHER_MAX
from interlock.protocol.messages import Cancel
from interlock.protocol.policy import Policy
from interlock.protocol.resource_commands import Govern, Heard, Mail
from interlock.protocol.resource_events import HoldGranted

pytestmark = pytest.mark.anyio


def a_bus(store: MemoryStore | None = None) -> Bus:
    return Bus(store, config=parse_config(CONFIG, "bus.toml"))


def running(store: MemoryStore | None = None) -> AbstractAsyncContextManager[Bus]:
    return lived(a_bus(store))


def holders(bus: Bus, *names: str) -> list[str]:
    world = bus.supervisor.world
    units = [unit for name in names for unit in world.resource(f"machine/{name}").units]
    return [unit.ticket.agent if unit.ticket is not None else "" for unit in units]


def waiting(bus: Bus, name: str) -> list[str]:
    return [ticket.agent for ticket in bus.supervisor.world.resources[f"machine/{name}"].queue.values()]


# --- all or none ------------------------------------------------------------------------------
async def test_all_are_granted_at_once_and_in_one_record() -> None:
    async with running() as bus:
        (ann,) = agents(bus, "ann")
        granted = await ann.ask("REQUEST a,b - tests, 20m", "r1")
        assert (granted["type"], granted["resource"]) == ("GRANTED", "a,b")
        fences = [each["fence"] for each in granted["together"]]
        assert len(set(fences)) == 2
        assert fences == sorted(fences)
        assert [each["resource"] for each in granted["together"]] == ["a", "b"]
        assert holders(bus, "a", "b") == ["ann", "ann"]
        rows = await bus.journal.read(0, 100)
        with_grants = [
            [event for entry in row.entries for event in entry.events if isinstance(event, HoldGranted)] for row in rows
        ]
        assert [len(each) for each in with_grants if each] == [2]
        assert {event.fence for each in with_grants for event in each} == set(fences)


async def test_whoever_waits_holds_nothing_and_gets_all_when_the_last_is_free() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await bob.ask("REQUEST b - x")
        queued = await ann.ask("REQUEST a,b - y")
        assert (queued["type"], queued["resource"], queued["position"]) == ("QUEUED", "a,b", 1)
        assert queued["holder"] == "bob"
        assert holders(bus, "a", "b") == ["", "bob"]
        assert (await cid.ask("REQUEST a - z"))["type"] == "GRANTED"  # it is passed: b may take long
        await bob.ask("RELEASE b")
        assert holders(bus, "a", "b") == ["cid", ""]
        await cid.ask("RELEASE a")
        await settled()
        assert holders(bus, "a", "b") == ["ann", "ann"]
        assert {each["key"] for each in ann.heard("GRANTED")} <= {"machine/a", "machine/b"}
        inbox = bus.supervisor.world.inbox("ann")
        assert [type(each.body).__name__ for each in inbox.unread.values()] == ["Granted", "Granted"]


async def test_what_becomes_free_is_offered_to_the_set_first() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await bob.ask("REQUEST a - x")
        await ann.ask("REQUEST a,b - y")
        assert (await cid.ask("REQUEST a - z"))["type"] == "QUEUED"
        await bob.ask("RELEASE a")
        await settled()
        assert holders(bus, "a", "b") == ["ann", "ann"]


async def test_a_set_is_passed_eight_times_and_then_blocks_its_queues() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await bob.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y")
        for _ in range(PASSES_MAX):
            assert (await cid.ask("REQUEST a - z"))["type"] == "GRANTED"
            await cid.ask("RELEASE a")
        assert (await cid.ask("REQUEST a - z"))["type"] == "QUEUED"
        await settled()
        assert holders(bus, "a", "b") == ["", "bob"]
        await bob.ask("RELEASE b")
        await settled()
        assert holders(bus, "a", "b") == ["ann", "ann"]
        await ann.ask("RELEASE a,b")
        await settled()
        assert holders(bus, "a", "b") == ["cid", ""]


async def test_passes_count_over_all_queues_of_a_set() -> None:
    async with running() as bus:
        ann, bob, cid, dan = agents(bus, "ann", "bob", "cid", "dan")
        await bob.ask("REQUEST c - x")
        await ann.ask("REQUEST a,b,c - y")
        passed = 0
        for _ in range(PASSES_MAX):
            for who, name in ((cid, "a"), (dan, "b")):
                if (await who.ask(f"REQUEST {name} - z"))["type"] == "GRANTED":
                    passed += 1
                    await who.ask(f"RELEASE {name}")
        assert passed == PASSES_MAX


async def test_who_waits_for_something_else_passes_no_set() -> None:
    """Its end may depend on what the set waits for: passing could close a circle later."""
    async with running() as bus:
        ann, bob, cid, dan = agents(bus, "ann", "bob", "cid", "dan")
        await bob.ask("REQUEST b - x")
        await dan.ask("REQUEST c - x")
        await ann.ask("REQUEST a,b - y")
        assert (await cid.ask("REQUEST c - z"))["type"] == "QUEUED"
        assert (await cid.ask("REQUEST a - z"))["type"] == "QUEUED"
        assert holders(bus, "a") == [""]


@pytest.mark.parametrize("how", ["it gives up", "it is granted"])
async def test_who_does_not_wait_for_something_else_any_more_may_pass(how: str) -> None:
    async with running() as bus:
        ann, bob, cid, dan = agents(bus, "ann", "bob", "cid", "dan")
        await bob.ask("REQUEST b - x")
        await dan.ask("REQUEST c - x")
        await ann.ask("REQUEST a,b - y")
        await cid.ask("REQUEST c - z")
        await cid.ask("REQUEST a - z")
        await (cid.ask("CANCEL c") if how == "it gives up" else dan.ask("RELEASE c"))
        await settled()
        assert holders(bus, "a") == ["cid"]


async def test_what_a_controller_governs_is_in_no_set() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await bob.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y")
        bus.supervisor.tell("machine/a", Govern(Policy(2, "cid", ("ann", "bob")), 2))
        await settled()
        assert (waiting(bus, "a"), waiting(bus, "b")) == ([], [])
        assert [each.body.code for each in bus.supervisor.world.inbox("ann").unread.values()] == ["STALE_POLICY"]  # type: ignore[union-attr] # REVOKED
        refused = await ann.ask("REQUEST a,b - y")
        assert refused["code"] == "SCOPE_DENIED"


async def test_hand_over_passes_no_set() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await bob.ask("REQUEST a - x")
        await ann.ask("REQUEST a,b - y")
        assert (await bob.ask("HANDOVER a ann"))["code"] == "RESOURCE_BUSY"


async def test_a_full_disk_leaves_all_as_it_was_and_what_is_due_is_tried_again() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        bus.store.full = True
        assert (await ann.ask("REQUEST a,b - y"))["code"] == "JOURNAL_UNAVAILABLE"
        bus.store.full = False
        assert holders(bus, "a", "b") == ["", ""]
        await bob.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y")

        def fill(row: Row) -> None:
            bus.store.full = bus.store.full or b'"released"' in row.body

        bus.store.on_durable = fill
        await bob.ask("RELEASE b")
        await settled()
        assert holders(bus, "a", "b") == ["", ""]
        bus.store.on_durable = lambda row: None
        bus.store.full = False
        await anyio.sleep(3)
        assert holders(bus, "a", "b") == ["ann", "ann"]


async def test_two_sets_are_served_in_their_order() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await cid.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y")
        await bob.ask("REQUEST b,c - y")
        await cid.ask("RELEASE b")
        await settled()
        assert holders(bus, "a", "b", "c") == ["ann", "ann", ""]
        await ann.ask("RELEASE b,a")
        await settled()
        assert holders(bus, "a", "b", "c") == ["", "bob", "bob"]


async def test_a_pool_gives_one_unit_to_a_set() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        assert (await ann.ask("REQUEST pool,a - y"))["type"] == "GRANTED"
        assert (await bob.ask("REQUEST pool,a - y"))["type"] == "QUEUED"
        assert (await cid.ask("REQUEST pool - y"))["type"] == "GRANTED"
        assert holders(bus, "pool") == ["ann", "cid"]
        await ann.ask("RELEASE a,pool")
        await settled()
        assert holders(bus, "pool", "a") == ["bob", "cid", "bob"]


# --- giving back ------------------------------------------------------------------------------
async def test_one_of_them_can_be_released_and_the_other_stays() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await ann.ask("REQUEST a,b - y")
        await bob.ask("REQUEST a,b - y")
        assert (await ann.ask("RELEASE a"))["type"] == "RELEASED"
        await settled()
        assert holders(bus, "a", "b") == ["", "ann"]
        released = await ann.ask("RELEASE b")
        assert released["type"] == "RELEASED"
        await settled()
        assert holders(bus, "a", "b") == ["bob", "bob"]


async def test_release_of_several_is_all_or_none() -> None:
    async with running() as bus:
        (ann,) = agents(bus, "ann")
        await ann.ask("REQUEST a - y")
        refused = await ann.ask("RELEASE a,b")
        assert refused["code"] == "NOT_HOLDER"
        assert holders(bus, "a") == ["ann"]


async def test_cancel_of_one_is_of_the_set() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await bob.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y")
        cancelled = await ann.ask("CANCEL a")
        assert (cancelled["type"], cancelled["resource"]) == ("CANCELLED", "a,b")
        assert (waiting(bus, "a"), waiting(bus, "b")) == ([], [])


async def test_who_is_gone_stands_nowhere_any_more() -> None:
    async with running() as bus:
        living = process()
        ann, (bob,) = bus.client("ann", FakeCaller(living)), agents(bus, "bob")
        await bob.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y")
        bus.effects.end(living)
        await settled()
        assert (waiting(bus, "a"), waiting(bus, "b")) == ([], [])


# --- the same again, and something else ---------------------------------------------------------
async def test_the_same_set_again_is_the_same_place_and_the_same_fences() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        first = await ann.ask("REQUEST a,b - y")
        again = await ann.ask("REQUEST b,a,b - y")
        fences = {each["key"]: each["fence"] for each in first["together"]}
        assert fences == {each["key"]: each["fence"] for each in again["together"]}
        queued = await bob.ask("REQUEST a,b - y", "q")
        assert (await bob.ask("REQUEST b,a - y"))["request_id"] == queued["request_id"] == "q"
        assert (await bob.ask("REQUEST a,b - y", "q"))["type"] == "QUEUED"
        await ann.ask("RELEASE a,b")
        await settled()
        assert (await bob.ask("REQUEST a,b - y", "q"))["type"] == "GRANTED"
        await bob.ask("RELEASE a,b")
        assert (await bob.ask("REQUEST a,b - y", "q"))["code"] == "TARGET_ENDED"


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        ("a", "a,b", "you hold a already: RELEASE a first, then ask for all: a,b"),
        ("a,b", "a,b,c", "you hold a already: RELEASE a first, then ask for all: a,b,c"),
        ("taken,a", "a", "you wait for a and taken together: CANCEL a first, then ask for what you need"),
        ("taken,a", "a,b", "you wait for a together with taken already: CANCEL a first, then ask for all: a,b"),
        ("taken", "taken,a", "you wait for taken already: CANCEL taken first, then ask for all: taken,a"),
    ],
)
async def test_a_different_set_is_refused_and_changes_nothing(first: str, then: str, says: str) -> None:
    bus = Bus(config=parse_config(CONFIG + "[resources.taken]\n", "bus.toml"))
    with anyio.fail_after(60):
        async with bus.running():
            ann, bob = agents(bus, "ann", "bob")
            await bob.ask("REQUEST taken - x")
            await ann.ask(f"REQUEST {first} - y")
            before = bus.supervisor.world.seq
            refused = await ann.ask(f"REQUEST {then} - y")
            assert (refused["code"], refused["why"]) == ("RESOURCE_BUSY", says)
            assert bus.supervisor.world.seq == before


async def test_duplicates_are_one_and_one_is_no_set() -> None:
    async with running() as bus:
        (ann,) = agents(bus, "ann")
        granted = await ann.ask("REQUEST a,a - y")
        assert (granted["type"], granted["resource"]) == ("GRANTED", "a")
        assert "together" not in granted


async def test_the_typed_form_has_a_list() -> None:
    async with running() as bus:
        (ann,) = agents(bus, "ann")
        body: dict[str, Any] = {"type": "REQUEST", "resources": ["b", "a"], "purpose": "y", "time_ms": 60_000}
        assert (await ann.ask(body))["resource"] == "b,a"


async def test_too_many_are_refused() -> None:
    async with running() as bus:
        (ann,) = agents(bus, "ann")
        names = ",".join(f"machine/x{number}" for number in range(TOGETHER_MAX + 1))
        assert (await ann.ask(f"REQUEST {names} - y"))["code"] == "BAD_MESSAGE"


async def test_no_wait_of_several_takes_all_or_none() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await bob.ask("REQUEST b - x")
        body: dict[str, Any] = {"type": "REQUEST", "resource": "a,b", "queue": False}
        assert (await ann.ask(body))["code"] == "RESOURCE_BUSY"
        assert holders(bus, "a", "b") == ["", "bob"]
        await bob.ask("RELEASE b")
        assert (await ann.ask(body))["type"] == "GRANTED"


# --- waiting --------------------------------------------------------------------------------------
async def test_wait_says_granted_only_when_all_are() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await bob.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y")
        for name in ("", "a", "a,b"):
            found = await ann.ask({"type": "WAIT", "resource": name, "follow": True}, to="supervisor")
            assert (found["type"], found["resource"]) == ("QUEUED", "a,b")
        await bob.ask("RELEASE b")
        await settled()
        found = await ann.ask({"type": "WAIT", "resource": "a,b"}, to="supervisor")
        assert (found["type"], found["resource"]) == ("GRANTED", "a,b")


# --- over a crash -----------------------------------------------------------------------------------
async def test_a_set_waits_over_a_restart_and_is_tried_again() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await bob.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y")
    async with running(bus.store.crash()) as bus:
        (bob,) = agents(bus, "bob")
        assert (waiting(bus, "a"), waiting(bus, "b")) == (["ann"], ["ann"])
        await bob.ask("RELEASE b")
        await settled()
        assert holders(bus, "a", "b") == ["ann", "ann"]


async def test_what_is_left_of_a_set_after_a_crash_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of it ended in one record, and the bus died before the next: the rest is ended at the start."""
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await bob.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y", "q")
    bus = a_bus(bus.store.crash())
    with anyio.fail_after(60):
        async with bus.running():
            monkeypatch.setattr(bus.supervisor.together, "follow", lambda orders: None)  # it dies before that
            bus.supervisor.tell("machine/a", Mail("ann", 1, "c", Cancel("machine/a"), "a"))
            await settled()
            assert (waiting(bus, "a"), waiting(bus, "b")) == ([], ["ann"])
    async with running(bus.store.crash()) as bus:
        await settled()
        assert (waiting(bus, "a"), waiting(bus, "b")) == ([], [])


# --- not noticed ----------------------------------------------------------------------------------------
async def test_a_set_that_nobody_notices_goes_back_to_its_place_as_one() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await bob.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y")
        await cid.ask("REQUEST b - z")
        await bob.ask("RELEASE b")
        await settled()
        assert holders(bus, "a", "b") == ["ann", "ann"]
        await anyio.sleep(125)
        assert holders(bus, "a", "b") == ["", "cid"]
        assert (waiting(bus, "a"), waiting(bus, "b")) == (["ann"], ["ann"])
        await ann.ask("STATUS")  # it is heard of again
        await cid.ask("RELEASE b")
        await settled()
        assert holders(bus, "a", "b") == ["ann", "ann"]


async def test_a_part_that_was_noticed_stays_and_the_other_waits_for_itself() -> None:
    """The sign of life reached one of the two, and the other had passed on by then."""
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await bob.ask("REQUEST b - x")
        await ann.ask("REQUEST a,b - y")
        await cid.ask("REQUEST b - z")
        await bob.ask("RELEASE b")
        await settled()
        bus.supervisor.tell("machine/a", Heard("ann"))
        await anyio.sleep(125)
        assert holders(bus, "a", "b") == ["ann", "cid"]
        (ticket,) = bus.supervisor.world.resources["machine/b"].queue.values()
        assert (ticket.agent, ticket.together, ticket.absent) == ("ann", (), False)
        await cid.ask("RELEASE b")
        await settled()
        assert holders(bus, "a", "b") == ["ann", "ann"]
