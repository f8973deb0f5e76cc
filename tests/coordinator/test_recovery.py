"""A lost journal makes no second holder and no number twice: what is believed at the start, and what is then done."""

from typing import Any

import msgspec
import pytest
from tests.coordinator.bus import Bus, as_bytes, process, replayed, settled
from tests.coordinator.memory_store import MemoryStore

from interlock.coordinator.config import Config, parse_config
from interlock.coordinator.recovery import judge, number_floor, remains_of
from interlock.coordinator.states import Found, Mark, NoStates, StateFacts, Survivor
from interlock.coordinator.store import NotWritten, Unusable
from interlock.coordinator.world import World
from interlock.protocol.limits import NUMBERS_RESERVED
from interlock.protocol.resource_commands import Recover
from interlock.protocol.resource_state import Launch, Server, Ticket, Unit, UnitState

pytestmark = pytest.mark.anyio

R = NUMBERS_RESERVED
SERVER = parse_config('[resources.web]\nstart = "run"\nports = [7080]\n', "bus.toml")
DEFINITION = SERVER.resources["machine/web"]


def facts(key: str = "machine/r", seq: int = 7, bus: str = "b1", **rest: Any) -> StateFacts:
    return StateFacts(bus, key, seq, R, 1_700_000_000_000, **rest)


def file(*all_of_them: StateFacts | None) -> dict[str, StateFacts | None]:
    return {f"machine/r{n}" if each is None else each.key: each for n, each in enumerate(all_of_them)}


ALIVE = Survivor("web-3-aa", process(), "machine/web")
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


def held(name: str = "", **rest: Any) -> Unit:
    ticket = Ticket("m1", "ann", 1, 1, "/w1", "try\nit", "web", 0)
    return Unit(name, UnitState.HELD, ticket, 5, **rest)


def test_the_evidence_says_who_had_it_and_who_waited() -> None:
    waiting = tuple(Ticket(f"m{n}", f"w{n}", 1, n, "-", "", "r", 0) for n in range(20))
    known = facts(units=(held(),), queue=waiting, waiting=400)

    [remains] = remains_of("machine/r", Found(None, file(known)), Config().lock()).values()

    assert 'held, fence 5, by ann from /w1 for "try it"' in remains.known
    assert "400 waited: w0, w1" in remains.known
    assert "w9" not in remains.known


def test_what_nobody_confirmed_is_still_known_after_the_next_loss_and_does_not_grow() -> None:
    why = "the database was lost"
    unit = Unit("", UnitState.RECOVERY_REQUIRED, why=f"{why}; held, fence 5, by ann, {'x' * 5_000}")
    [remains] = remains_of("machine/r", Found(None, file(facts(units=(unit,)))), Config().lock(), why).values()
    assert remains.known.startswith("held, fence 5, by ann, xxx")
    assert len(remains.known) < 1_000


def test_a_file_that_cannot_be_read_says_so() -> None:
    [remains] = remains_of("machine/r", Found(None, {"machine/r": None}), Config().lock()).values()
    assert remains.known == "its state file cannot be read"


def test_a_server_that_survived_is_kept_as_it_was_known() -> None:
    assert DEFINITION.server is not None
    server = Server(ALIVE.launch, ALIVE.keeper, "/w1", DEFINITION.server, "c0ffee", 1)
    known = facts("machine/web", units=(held(server=server),))

    remains = remains_of("machine/web", Found(None, file(known), (ALIVE,)), DEFINITION)

    assert remains[""].server == server
    assert f"its server still runs from /w1 (keeper pid {ALIVE.keeper.pid})" in remains[""].known


@pytest.mark.parametrize("unreadable", [True, False])
def test_a_server_of_which_no_file_tells_is_kept_as_nobodys(unreadable: bool) -> None:
    files: dict[str, StateFacts | None] = {"machine/web": None} if unreadable else {}
    found = Found(Mark("b", 1, 1), files, (ALIVE,))
    server = remains_of("machine/web", found, DEFINITION)[""].server
    assert server is not None
    assert (server.keeper, server.worktree) == (ALIVE.keeper, "")


@pytest.mark.parametrize("told_by", ["its file", "its keeper"])
def test_a_command_that_survived_stands_in_the_way(told_by: str) -> None:
    run = Survivor("run-5-bb", process(), "machine/r" if told_by == "its keeper" else "")
    launch = Launch(run.launch, run.keeper, "make test", 0)
    files = file(facts(units=(held(launches={run.launch: launch}),))) if told_by == "its file" else {}

    remains = remains_of("machine/r", Found(Mark("b", 1, 1), files, (run,)), Config().lock())

    assert [each.keeper for each in remains[""].launches.values()] == [run.keeper]
    assert "still runs" in remains[""].known


def test_a_server_whose_resource_is_declared_otherwise_now_stands_in_the_way() -> None:
    alive = msgspec.structs.replace(ALIVE, unit="")
    remains = remains_of("machine/web", Found(None, {}, (alive,)), Config().lock(("0", "1")))
    assert [*remains["0"].launches] == [ALIVE.launch]
    assert not remains["1"].launches


def test_a_command_of_a_unit_that_is_not_declared_any_more_stands_in_the_way_of_the_first() -> None:
    run = Survivor("run-5-bb", process(), "")
    launch = Launch(run.launch, run.keeper, "make", 0)
    found = Found(None, file(facts(units=(held("9", launches={run.launch: launch}),))), (run,))
    remains = remains_of("machine/r", found, Config().lock(("0", "1")))
    assert [*remains["0"].launches] == [run.launch]


POOL = parse_config('[resources.pages]\nunits = ["0", "1"]\nstart = "run {unit}"\n', "bus.toml")
PAGES = POOL.resources["machine/pages"]
PAGE = Survivor("pages-9-cc", process(), "machine/pages")  # its keeper is of old: it does not say its unit
RUN = Survivor("run-9-dd", process(), "machine/pages")


@pytest.mark.parametrize(
    ("survivor", "unit", "in_file", "kept_by", "stands_on"),
    [
        (PAGE, "1", None, ["1"], []),  # the file is older than the launch
        (PAGE, "1", "0", ["1"], []),
        (PAGE, None, "1", ["1"], []),
        (PAGE, None, None, [], ["0", "1"]),
        (PAGE, "7", None, [], ["0"]),  # no unit any more: what stands on one of them stands in a new definition's way
        (RUN, "1", None, [], ["1"]),
        (RUN, None, "1", [], ["1"]),
        (RUN, None, None, [], ["0", "1"]),
    ],
)
def test_what_survived_is_on_its_own_unit_and_where_nobody_knows_that_on_all(
    survivor: Survivor, unit: str | None, in_file: str | None, kept_by: list[str], stands_on: list[str]
) -> None:
    assert PAGES.server is not None
    units = [held("0"), held("1")]
    if in_file is not None:
        launch = Launch(survivor.launch, survivor.keeper, "make", 0)
        server = Server(survivor.launch, survivor.keeper, "/w1", PAGES.server)
        what: dict[str, Any] = {"launches": {launch.launch: launch}} if survivor is RUN else {"server": server}
        units[int(in_file)] = held(in_file, **what)
    found = Found(
        None, file(facts("machine/pages", units=tuple(units))), (msgspec.structs.replace(survivor, unit=unit),)
    )

    remains = remains_of("machine/pages", found, PAGES)

    assert [name for name, each in remains.items() if each.server is not None] == kept_by
    assert [name for name, each in remains.items() if each.launches] == stands_on
    unsure = ["on a unit that is not known" in each.known for each in remains.values()]
    assert unsure == [len(stands_on) == 2] * 2


def test_what_was_on_all_units_for_want_of_a_name_is_so_again_after_the_next_loss() -> None:
    launch = {RUN.launch: Launch(RUN.launch, RUN.keeper, "make", 0)}
    units = tuple(Unit(name, UnitState.RECOVERY_REQUIRED, launches=launch) for name in ("0", "1"))
    remains = remains_of("machine/pages", Found(None, file(facts("machine/pages", units=units)), (RUN,)), PAGES)
    assert [[*each.launches] for each in remains.values()] == [[RUN.launch]] * 2


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
