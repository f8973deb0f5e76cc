"""A lost journal makes no second holder and no number twice: what is believed at the start, and what is then done."""

from typing import Any

import msgspec
import pytest
from tests.coordinator.beside import ALIVE, PAGE, POOL, SERVER, R, facts, file, held
from tests.coordinator.bus import Bus, as_bytes, replayed, settled
from tests.coordinator.memory_store import MemoryStore

from interlock.coordinator.config import Config
from interlock.coordinator.recovery import judge, number_floor
from interlock.coordinator.states import Found, Mark, NoStates, StateFacts
from interlock.coordinator.store import NotWritten, Unusable
from interlock.coordinator.world import World
from interlock.protocol.resource_commands import Recover

pytestmark = pytest.mark.anyio

NEWER = StateFacts("b1", "machine/r", 8 * R, 9 * R, 1_700_000_000_000)  # than an old copy of the mark
EMPTY, WHOLE = World(), World(seq=10, index=4, bus="b1", hash="h")
OF_OLD = World(seq=10, index=4, hash="h")  # from before journals had names


@pytest.mark.parametrize(
    ("world", "found", "floor"),
    [
        (EMPTY, Found(Mark("b1", R, 5)), R),
        (EMPTY, Found(Mark("b1", R, 5), file(facts())), R),
        (EMPTY, Found(None, file(facts())), 3 * R),
        (EMPTY, Found(None, file(None)), 2 * R),
        (EMPTY, Found(None, {}, (ALIVE,)), 2 * R),
        (EMPTY, Found(Mark("b1", R, 5), file(NEWER)), 11 * R),
        (World(seq=10, index=4, bus="b1", lost="a copy"), Found(Mark("b1", R, 5), file(NEWER)), 11 * R),
        (World(seq=10, index=4, bus="b1", lost="a copy"), Found(Mark("b1", R, 500)), R),
        (World(seq=10, index=4, bus="b1", lost="a copy"), Found(Mark("other", R, 500), file(facts(seq=900))), R),
        (World(seq=10, index=4, bus="b1", lost="a copy"), Found(), 10 + 2 * R),
    ],
)  # fmt: skip
def test_a_lost_journal_is_recovered_and_numbers_go_on_past_all_that_can_have_been(
    world: World, found: Found, floor: int
) -> None:
    assert judge(world, found)
    assert number_floor(world, found) == floor


@pytest.mark.parametrize(
    ("world", "found"),
    [
        (EMPTY, Found()),
        (EMPTY, Found(Mark("", R, 0))),
        (WHOLE, Found()),
        (WHOLE, Found(Mark("b1", R, 10), file(facts(seq=10), None))),
        (WHOLE, Found(Mark("b1", 3, 3), file(facts(seq=99, bus="other")))),
        (WHOLE, Found(Mark("", R, 10))),
        (OF_OLD, Found()),
    ],
)
def test_a_journal_that_knows_all_that_lies_beside_it_is_started_from(world: World, found: Found) -> None:
    assert judge(world, found) == ""


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (Found(Mark("b1", R, 11)), "ends at event 10, and shared-resources/ tells of event 11"),
        (Found(Mark("b1", R, 3), file(facts(seq=12))), "tells of event 12"),
        (Found(None, file(None, facts(seq=12))), "tells of event 12"),
        (Found(Mark("b2", R, 1)), "is not the database that shared-resources/ belongs to"),
        (Found(None, file(facts(seq=3, bus="b2"))), "is not the database that shared-resources/ belongs to"),
    ],
)
def test_an_old_copy_is_refused_with_a_way_on(found: Found, says: str) -> None:
    with pytest.raises(Unusable, match="bus up --recover") as refused:
        judge(WHOLE, found)
    assert says in str(refused.value)


# --- a bus -----------------------------------------------------------------------------------
async def test_after_a_loss_nobody_is_granted_anything_and_fences_go_on(bus: Bus) -> None:
    async with bus.running():
        a = bus.client("a")
        before = (await a.ask("REQUEST machine/r - x"))["fence"]
    found = Found(Mark("b1", before + R, before), file(facts()))
    config = Config(resources={"machine/declared": Config().lock(("0", "1"))})

    lost = Bus(MemoryStore(), config, found=found)
    async with lost.running():
        b = lost.client("b")
        assert lost.supervisor.recovery.endswith("before a person has looked: bus recover declared")
        for key in ("machine/r", "machine/declared"):
            assert (await b.ask(f"REQUEST {key} - x"))["state"] == "recovery_required"
        granted = await b.ask("REQUEST machine/other - x")
        assert granted["type"] == "GRANTED", "what nothing tells of is as free as ever"
        assert granted["fence"] > before + R
        lived = as_bytes(lost.supervisor.world)
    assert as_bytes(await replayed(lost.store)) == lived


@pytest.mark.parametrize("after_records", [1, 2, 3, 4])
async def test_a_recovery_cut_short_is_taken_up_again(after_records: int) -> None:
    # given: a supervisor that dies when so many records are on disk
    found = Found(Mark("b1", R, 5), file(*(facts(f"machine/r{n}") for n in range(3))))
    first = Bus(MemoryStore(), found=found)
    async with first.running():
        await settled()
    cut = MemoryStore(first.store.durable[:after_records])
    # when: the next one finds the mark as the first one left it
    bus = replayed_bus = await replayed(cut)
    again = Bus(cut, found=msgspec.structs.replace(found, mark=Mark(bus.bus, R * 2, R)))
    # then
    async with again.running():
        a = again.client("a")
        for n in range(3):
            assert (await a.ask(f"REQUEST machine/r{n} - x"))["state"] == "recovery_required"
        assert again.supervisor.world.lost == ""
    assert replayed_bus.seq > R


async def test_a_person_sets_it_free_and_then_all_is_as_ever() -> None:
    bus = Bus(MemoryStore(), found=Found(Mark("b1", R, 5), file(facts(units=(held(),)))))
    async with bus.running():
        a, person = bus.client("a"), bus.client("person")
        await a.ask("REQUEST machine/r - x")
        evidence = await person.ask({"type": "RECOVER", "resource": "machine/r"}, to="supervisor")
        assert "by ann" in evidence["why"][0]
        recover = {"type": "RECOVER", "resource": "machine/r", "code": evidence["code"]}
        assert (await person.ask(recover, to="supervisor"))["type"] == "RELEASED"
        assert (await a.ask({"type": "WAIT", "resource": "machine/r"}, to="supervisor"))["type"] == "GRANTED"
    again = Bus(bus.store.crash())
    async with again.running():
        assert again.supervisor.recovery == "", "it is told of by the supervisor that did it"


async def test_every_agent_is_told_once_while_something_is_in_doubt() -> None:
    bus = Bus(MemoryStore(), SERVER, found=Found(Mark("b1", R, 5), {}, ()))

    async def told(name: str) -> list[str]:
        client = bus.client(name)
        await client.ask({"type": "PING"}, to="supervisor")
        return list(client.frames[-1].get("notes", []))

    async with bus.running():
        said = bus.supervisor.recovery
        assert said
        assert [await told(name) for name in ("a", "b", "a")] == [[said], [said], []]
        for key in list(bus.supervisor.world.resources):
            bus.supervisor.tell(key, Recover(f"r-{key}", "kim"))
        await settled()
        assert await told("late") == []


async def test_a_server_that_survived_is_watched_and_handed_over() -> None:
    bus = Bus(MemoryStore(), SERVER, found=Found(Mark("b1", R, 5), {}, (ALIVE,)))
    async with bus.running():
        assert [each.keeper for each in bus.effects.adopted] == [ALIVE.keeper]


async def test_what_may_be_any_unit_s_must_end_before_any_is_given() -> None:
    bus = Bus(MemoryStore(), POOL, found=Found(Mark("b1", R, 5), {}, (PAGE,)))

    async def confirm() -> dict[str, Any]:
        recover = {"type": "RECOVER", "resource": "machine/pages"}
        evidence = await person.ask(recover, to="supervisor")
        return await person.ask(recover | {"code": evidence["code"]}, to="supervisor")

    async with bus.running():
        a, person = bus.client("a"), bus.client("person")
        await a.ask("REQUEST machine/pages /w1 x")
        refused = await confirm()
        assert (refused["type"], refused["why"].count(PAGE.launch)) == ("REFUSED", 1), refused
        bus.effects.end(PAGE.keeper)
        await settled()
        assert (await confirm())["type"] == "RELEASED"
        await settled()
        assert [order.unit for _, order in bus.effects.begun] == ["0"], "it is started for who waited"


# --- what must be durable first ----------------------------------------------------------------
class Refusing(NoStates):
    """States whose disk fails as told."""

    def __init__(self) -> None:
        self.covered: set[str] = set()
        self.fails = ""
        self.numbers_through = 0

    def covers(self, key: str) -> bool:
        return key in self.covered

    async def cover(self, key: str) -> None:
        if self.fails:
            raise NotWritten(self.fails, full=True)
        self.covered.add(key)

    async def reserve_numbers(self, seq: int) -> None:
        if self.fails:
            raise NotWritten(self.fails, full=True)
        self.numbers_through = seq + 5


async def test_nobody_is_queued_for_what_has_no_state_file_and_nobody_else_suffers() -> None:
    states = Refusing()
    states.numbers_through = 1 << 40
    bus = Bus(states=states)
    async with bus.running():
        a = bus.client("a")
        assert (await a.ask("REQUEST machine/r - x"))["type"] == "GRANTED"
        states.fails = "no room"
        refused = await a.ask("REQUEST machine/other - x")
        assert (refused["code"], "no room" in refused["why"]) == ("JOURNAL_UNAVAILABLE", True)
        assert (await a.ask("RELEASE machine/r"))["type"] == "RELEASED"
        assert (await a.ask("REQUEST machine/r - x"))["type"] == "GRANTED", "its file is there"
        states.fails = ""
        assert (await a.ask("REQUEST machine/other - x"))["type"] == "GRANTED"


@pytest.mark.parametrize("found", [Found(), Found(Mark("b1", R, 5), file(facts()))])
async def test_a_start_that_has_no_room_for_its_first_record_serves_nobody(found: Found) -> None:
    """Else it would make state files beside an empty journal, and the next start would call that one lost."""
    store = MemoryStore()
    store.full = True
    with pytest.RaisesGroup(pytest.RaisesExc(Unusable, match="make room"), flatten_subgroups=True):
        async with Bus(store, found=found).running():
            pass
    store.full = False
    async with Bus(store.crash(), found=found).running() as bus:
        assert bus.supervisor.world.term == 1


async def test_no_number_is_given_above_the_mark(bus: Bus) -> None:
    states = Refusing()
    bus = Bus(states=states)
    async with bus.running():
        a = bus.client("a")
        for n in range(10):
            assert (await a.ask(f"REQUEST machine/r{n} - x"))["fence"] <= states.numbers_through
        states.fails = "a disk that takes nothing"
        answers = [await a.ask(f"RELEASE machine/r{n}") for n in range(10)]
        refused = [each for each in answers if each["type"] == "REFUSED"]
        assert refused
        assert {each["code"] for each in refused} == {"JOURNAL_UNAVAILABLE"}
        assert bus.supervisor.world.seq <= states.numbers_through
        states.fails = ""
        assert (await a.ask("REQUEST machine/new - x"))["type"] == "GRANTED", "it goes on by itself"
