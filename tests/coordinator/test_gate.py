"""The gate over a real supervisor: policies, admissions, what ends them, and restarts between any two steps."""

from typing import Any

import msgspec
import pytest
from tests.coordinator.bus import Bus, Client, FakeCaller, FakeEffects, as_bytes, process, replayed, settled
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.virtual_time import VirtualClock

from interlock.coordinator.config import parse_config
from interlock.coordinator.toml_values import ConfigError
from interlock.coordinator.world import World
from interlock.protocol.gate_state import CommandState
from interlock.protocol.identity import Identity
from interlock.protocol.resource_commands import Govern
from interlock.protocol.resource_state import UnitState

pytestmark = pytest.mark.anyio
KEY, OTHER = "machine/build", "machine/flash"
CONFIG = parse_config('[agents.boss]\nallow = ["resource.control"]\n', "bus.toml")


@pytest.fixture
def bus(store: MemoryStore, clock: VirtualClock, effects: FakeEffects) -> Bus:
    return Bus(store, CONFIG, effects, clock)


async def supervise(client: Client, what: str, **fields: Any) -> dict[str, Any]:
    return await client.ask({"type": what, **fields}, to="supervisor")


async def joined(bus: Bus, name: str, caller: FakeCaller | None = None) -> Client:
    client = bus.client(name, caller)
    assert (await supervise(client, "JOIN", agent=name))["type"] == "JOINED"
    return client


async def policy(boss: Client, key: str = KEY, participants: str = "ann", **fields: Any) -> dict[str, Any]:
    body = {"resource": key, "controller": "boss", "participants": participants.split(), **fields}
    return await supervise(boss, "SET_POLICY", **body)


async def run_ticket(client: Client, key: str) -> int:
    """The fence of a `bus run`'s grant."""
    body = {"type": "REQUEST", "resource": key, "worktree": "-", "run": True}
    answer = await client.ask(body)
    assert answer["type"] == "GRANTED", answer
    return int(answer["fence"])


async def chosen(boss: Client, client: Client, key: str) -> int:
    """The fence of a `bus run`'s grant, which its controller has chosen."""
    id_ = await client.post({"type": "REQUEST", "resource": key, "worktree": "-", "run": True})
    assert (await client.answer(id_))["body"]["type"] == "QUEUED"
    assert (await boss.ask(f"GRANT {id_}"))["type"] == "TEXT"
    return int(client.heard("GRANTED")[-1]["fence"])


async def admit(client: Client, launch: str, keeper: Identity, **fields: Any) -> dict[str, Any]:
    body = {"launch": launch, "keeper": msgspec.to_builtins(keeper), "command": "make", "digest": "d1", **fields}
    return await supervise(client, "ADMIT", **body)


def commands(bus: Bus) -> dict[str, str]:
    return {launch: str(each.state) for launch, each in bus.supervisor.world.gate.commands.items()}


def launches_of(bus: Bus, key: str) -> list[str]:
    return [launch for unit in bus.supervisor.world.resource(key).units for launch in unit.launches]


# --- policies -------------------------------------------------------------------------------
async def test_a_policy_is_set_changed_and_taken_away_under_an_epoch_that_only_grows(bus: Bus) -> None:
    async with bus.running():
        boss = await joined(bus, "boss")
        first, second = await policy(boss), await policy(boss, participants="ann bob", profile="build")
        assert [(each["type"], each["epoch"]) for each in (first, second)] == [("POLICY", 1), ("POLICY", 2)]
        assert (await policy(boss, epoch=1))["code"] == "STALE_POLICY"
        (row,) = (await supervise(boss, "POLICIES"))["policies"]
        assert (row["resource"], row["epoch"], row["controller"], row["profile"]) == (KEY, 2, "boss", "build")
        assert (row["participants"], row["controller_gone"]) == (["ann", "bob"], False)
        gone = await supervise(boss, "SET_POLICY", resource=KEY)
        assert (gone["type"], gone["epoch"], "controller" in gone) == ("POLICY", 3, False)
        assert (await supervise(boss, "POLICIES", resource=KEY))["code"] == "TARGET_ENDED"
        assert (await policy(boss))["epoch"] == 4


async def test_only_who_is_allowed_to_sets_a_policy_and_only_for_a_controller_that_is_here(bus: Bus) -> None:
    async with bus.running():
        ann, boss = await joined(bus, "ann"), await joined(bus, "boss")
        body = {"resource": KEY, "controller": "boss", "participants": ["ann"]}
        refused = await supervise(ann, "SET_POLICY", **body)
        assert (refused["code"], "[agents.ann]" in refused["why"]) == ("CAPABILITY_DENIED", True)
        assert (await supervise(boss, "SET_POLICY", **{**body, "controller": "carl"}))[
            "code"
        ] == "CONTROLLER_UNAVAILABLE"
        assert (await supervise(boss, "SET_POLICY", **body, profile="bild"))["why"].endswith("did you mean 'build'?")
        boss.session.claimed = True
        assert (await supervise(boss, "SET_POLICY", **body))["code"] == "CAPABILITY_DENIED"
        assert not bus.supervisor.world.gate.policies


async def test_a_grant_goes_only_from_who_may_to_a_ticket_that_there_is(bus: Bus) -> None:
    async with bus.running():
        ann, boss = await joined(bus, "ann"), await joined(bus, "boss")
        assert (await ann.ask("GRANT t1"))["code"] == "CAPABILITY_DENIED"
        assert (await boss.ask("GRANT t1"))["code"] == "TARGET_ENDED"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[agents.boss]\nallow = ["resource.contrl"]\n', "allow: 'resource.contrl' is no capability; did you mean"),
        ('[agents.boss]\nallow = "resource.control"\n', "bus.toml:2: [agents.boss] allow must be a list"),
        ('[agents.boss]\nallows = []\n', "bus.toml:2: [agents.boss] unknown key 'allows'; did you mean 'allow'?"),
        ('[agents."a/b"]\nallow = []\n', "'a/b' is no agent name"),
    ],
)  # fmt: skip
def test_a_capability_that_is_none_is_one_clear_sentence(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(text, "bus.toml")
    assert why in str(raised.value)


def test_a_repository_allows_nobody_anything() -> None:
    with pytest.raises(ConfigError, match=r"home's bus\.toml only"):
        parse_config('[agents.boss]\nallow = ["resource.control"]\n', "bus.toml", CONFIG)


# --- who is covered ---------------------------------------------------------------------------
async def test_cover_names_the_policies_of_whomever_the_asker_counts_as(bus: Bus) -> None:
    shared, keeper = process(), process()
    async with bus.running():
        boss = await joined(bus, "boss")
        ann = await joined(bus, "ann", FakeCaller(shared))
        sub = await joined(bus, "sub", FakeCaller(shared))
        eve, kid = await joined(bus, "eve"), await joined(bus, "kid", FakeCaller(process(), [process(), keeper]))
        await policy(boss)
        await policy(boss, OTHER, profile="build")
        assert (await supervise(ann, "COVER"))["epochs"] == {KEY: 1}
        assert (await supervise(sub, "COVER", recognised=True))["epochs"] == {KEY: 1, OTHER: 1}
        assert (await supervise(eve, "COVER", recognised=True))["epochs"] == {}
        fence = await chosen(boss, ann, KEY)
        assert (await admit(ann, "l1", keeper, holds={KEY: fence}, epochs={KEY: 1}))["type"] == "ADMITTED"
        assert (await supervise(eve, "COVER", inside=["l1"]))["epochs"] == {KEY: 1}
        assert (await supervise(kid, "COVER"))["epochs"] == {KEY: 1}  # the command's keeper is its ancestor


# --- admission --------------------------------------------------------------------------------
async def test_a_command_is_on_record_with_all_that_it_runs_under_until_its_tree_is_gone(bus: Bus) -> None:
    keeper = process()
    async with bus.running():
        ann = await joined(bus, "ann")
        holds = {key: await run_ticket(ann, key) for key in (KEY, OTHER)}
        answer = await admit(ann, "l1", keeper, holds=holds, directory="/w")
        assert (answer["type"], answer["launch"]) == ("ADMITTED", "l1")
        assert await admit(ann, "l1", keeper, holds=holds) == answer
        assert (await admit(ann, "l1", process(), holds=holds))["code"] == "ID_CONFLICT"
        leader = msgspec.to_builtins(process(77))
        await supervise(ann, "STARTED", launch="l1", leader=leader, group=77)
        await supervise(ann, "ENDED", launch="l1", leader_only=True)
        await settled()
        (row,) = (await supervise(ann, "COMMANDS"))["commands"]
        assert (row["state"], row["holds"], row["pid"], row["group"]) == ("draining", holds, 77, 77)
        assert launches_of(bus, KEY) == launches_of(bus, OTHER) == ["l1"]
        bus.effects.end(keeper)
        await settled()
        assert (commands(bus), launches_of(bus, KEY), launches_of(bus, OTHER)) == ({}, [], [])
        assert (bus.effects.read, bus.effects.forgotten) == (["l1"], ["l1"])


async def test_who_says_that_its_command_has_ended_is_answered_once_all_of_it_is_over(bus: Bus) -> None:
    keeper = process()
    async with bus.running():
        ann, eve = await joined(bus, "ann"), await joined(bus, "eve")
        holds = {key: await run_ticket(ann, key) for key in (KEY, OTHER)}
        await admit(ann, "l1", keeper, holds=holds)
        assert (await supervise(eve, "ENDED", launch="l1"))["code"] == "NOT_HOLDER"
        assert (await supervise(eve, "STARTED", launch="l1", leader=msgspec.to_builtins(keeper), group=1))["code"]
        assert commands(bus) == {"l1": "admitted"}
        assert (await supervise(ann, "ENDED", launch="l1"))["type"] == "RELEASED"
        free = [bus.supervisor.world.resource(key).units[0].state for key in holds]
        assert (commands(bus), free) == ({}, [UnitState.FREE, UnitState.FREE])
        bus.effects.end(keeper)
        await settled()
        assert (bus.effects.read, bus.effects.forgotten) == (["l1"], ["l1"])
        assert (await supervise(ann, "ENDED", launch="l1"))["type"] == "RELEASED"


async def test_of_two_alike_that_were_told_of_one_reservation_one_begins(bus: Bus) -> None:
    ask = {"type": "REQUEST", "resource": KEY, "worktree": "-"}
    async with bus.running():
        boss, ann = await joined(bus, "boss"), await joined(bus, "ann")
        await policy(boss)
        asked = await ann.post(ask)
        assert (await ann.answer(asked))["body"]["type"] == "QUEUED"
        assert (await boss.ask(f"GRANT {asked}"))["type"] == "TEXT"
        told = [await ann.ask({**ask, "run": True}) for _ in range(2)]
        assert told[0]["fence"] == told[1]["fence"]
        said = [await admit(ann, name, process(), holds={KEY: told[0]["fence"]}, epochs={KEY: 1}) for name in "ab"]
        assert [each.get("code", each["type"]) for each in said] == ["ADMITTED", "RESOURCE_BUSY"]
        assert (await ann.ask({**ask, "run": True}))["type"] == "QUEUED"


async def test_the_hold_that_a_wrapper_of_an_earlier_version_names_counts(bus: Bus) -> None:
    async with bus.running():
        ann = await joined(bus, "ann")
        fence = await run_ticket(ann, KEY)
        assert (await admit(ann, "l1", process(), resource=KEY, fence=fence + 1))["code"] == "STALE_FENCE"
        assert (await admit(ann, "l1", process(), resource=KEY, fence=fence))["type"] == "ADMITTED"
        assert launches_of(bus, KEY) == ["l1"]
        assert (await supervise(ann, "ENDED", launch="l1", resource=KEY))["type"] == "RELEASED"


async def test_one_refusal_takes_back_what_was_admitted_before(bus: Bus) -> None:
    async with bus.running():
        ann = await joined(bus, "ann")
        holds = {key: await run_ticket(ann, key) for key in (KEY, OTHER)}
        refused = await admit(ann, "l1", process(), holds={**holds, OTHER: 999})
        await settled()
        assert refused["code"] == "STALE_FENCE"
        assert (commands(bus), launches_of(bus, KEY), launches_of(bus, OTHER)) == ({}, [], [])
        assert bus.supervisor.world.resource(KEY).units[0].state is UnitState.FREE


async def test_a_policy_between_cover_and_admit_refuses_and_takes_the_holds_back(bus: Bus) -> None:
    async with bus.running():
        ann, boss = await joined(bus, "ann"), await joined(bus, "boss")
        assert (await supervise(ann, "COVER"))["epochs"] == {}
        fence = await run_ticket(ann, OTHER)
        await policy(boss)
        refused = await admit(ann, "l1", process(), holds={OTHER: fence})
        await settled()
        assert (refused["code"], KEY in refused["why"]) == ("STALE_POLICY", True)
        assert (commands(bus), launches_of(bus, OTHER)) == ({}, [])


async def test_what_a_taken_back_keeper_leaves_is_forgotten_once_it_is_gone(bus: Bus) -> None:
    keeper = process()
    async with bus.running():
        ann, boss = await joined(bus, "ann"), await joined(bus, "boss")
        fence = await run_ticket(ann, OTHER)
        await policy(boss)
        await admit(ann, "l1", keeper, holds={OTHER: fence})
        await settled()
        assert bus.effects.forgotten == []  # its keeper may still have to write there
        bus.effects.end(keeper)
        await settled()
        assert (bus.effects.read, bus.effects.forgotten, bus.supervisor.launches.size()) == ([], ["l1"], 0)


# --- blockers -----------------------------------------------------------------------------------
async def test_a_policy_adopts_what_runs_already_and_tells_its_resource_until_that_has_ended(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, told = process(), list[tuple[str, ...]]()
    async with bus.running():
        ann, boss = await joined(bus, "ann"), await joined(bus, "boss")
        await admit(ann, "l1", keeper)
        tell = bus.supervisor.tell

        def telling(address: str, command: Any, **rest: Any) -> bool:
            if isinstance(command, Govern):
                told.append(command.blockers)
            return tell(address, command, **rest)

        monkeypatch.setattr(bus.supervisor, "tell", telling)
        assert (await policy(boss))["blockers"] == ["l1"]
        (row,) = (await supervise(boss, "POLICIES"))["policies"]
        assert row["blockers"] == ["l1"]
        await settled()
        bus.effects.end(keeper)
        await settled()
        assert (told, commands(bus)) == ([("l1",), ()], {})


# --- doubt ----------------------------------------------------------------------------------------
async def in_doubt(bus: Bus, ann: Client, *keys: str) -> None:
    """A command whose keeper died without a word."""
    keeper = process()
    bus.effects.unproved.add("l1")
    holds = {key: await run_ticket(ann, key) for key in keys}
    assert (await admit(ann, "l1", keeper, holds=holds, directory="/w"))["type"] == "ADMITTED"
    bus.effects.end(keeper)
    await settled()
    assert commands(bus) == {"l1": "recovery_required"}


async def test_a_person_who_confirms_a_launch_frees_what_is_in_doubt_because_of_it(bus: Bus) -> None:
    async with bus.running():
        ann, person = await joined(bus, "ann"), bus.client("")
        await in_doubt(bus, ann, KEY, OTHER)
        assert bus.effects.forgotten == []
        evidence = await supervise(person, "RECOVER_LAUNCH", launch="l1")
        said = "\n".join(evidence["why"])
        assert all(each in said for each in ("make of ann", "/w", KEY, OTHER, "pid", "let go", "carries its mark"))
        assert await supervise(person, "RECOVER_LAUNCH", launch="l1", code="nonsense") == evidence
        confirmed = await supervise(person, "RECOVER_LAUNCH", launch="l1", code=evidence["code"])
        assert (confirmed["type"], KEY in confirmed["text"], OTHER in confirmed["text"]) == ("TEXT", True, True)
        states = [bus.supervisor.world.resource(key).units[0].state for key in (KEY, OTHER)]
        assert (commands(bus), states, bus.effects.forgotten) == ({}, [UnitState.FREE] * 2, ["l1"])
        assert (await supervise(person, "RECOVER_LAUNCH", launch="l1"))["code"] == "TARGET_ENDED"


async def test_to_recover_the_resource_strikes_off_the_command_that_is_in_doubt_there(bus: Bus) -> None:
    async with bus.running():
        ann, person = await joined(bus, "ann"), bus.client("")
        await in_doubt(bus, ann, KEY)
        evidence = await supervise(person, "RECOVER", resource=KEY)
        assert (await supervise(person, "RECOVER", resource=KEY, code=evidence["code"]))["type"] == "RELEASED"
        assert commands(bus) == {}


async def test_a_launch_is_not_confirmed_through_a_file(bus: Bus) -> None:
    async with bus.running():
        ann = await joined(bus, "ann")
        await in_doubt(bus, ann)
        evidence = await supervise(ann, "RECOVER_LAUNCH", launch="l1")
        ann.session.owner = "ann"
        refused = await supervise(ann, "RECOVER_LAUNCH", launch="l1", code=evidence["code"])
        assert (refused["code"], commands(bus)) == ("CAPABILITY_DENIED", {"l1": "recovery_required"})


# --- restarts ---------------------------------------------------------------------------------------
class Story:
    """Steps of one conversation, each under a supervisor of its own, over what the one before left durable."""

    def __init__(self) -> None:
        self.store, self.clock, self.effects = MemoryStore(), VirtualClock(), FakeEffects()

    def next(self) -> Bus:
        """What is not durable is lost, and so is every watch; the machine's processes go on."""
        gone, unproved = self.effects.gone, self.effects.unproved
        self.effects = FakeEffects()
        self.effects.gone, self.effects.unproved = gone, unproved
        self.store = self.store.crash()
        return Bus(self.store, CONFIG, self.effects, self.clock)


async def test_every_step_of_a_command_survives_a_restart() -> None:
    story, keeper = Story(), process()
    async with story.next().running() as bus:
        await policy(await joined(bus, "boss"))
    async with story.next().running() as bus:
        ann = await joined(bus, "ann")
        assert (await supervise(ann, "COVER"))["epochs"] == {KEY: 1}
        await policy(await joined(bus, "boss"), OTHER, "eve")
    async with story.next().running() as bus:
        ann = await joined(bus, "ann")
        fence = await run_ticket(ann, "machine/third")
    async with story.next().running() as bus:
        ann = await joined(bus, "ann")
        answer = await admit(ann, "l1", process(), holds={"machine/third": fence})
        assert answer["code"] == "STALE_POLICY"
        await supervise(await joined(bus, "boss"), "SET_POLICY", resource=KEY)
        fence = await run_ticket(ann, "machine/third")
        assert (await admit(ann, "l2", keeper, holds={"machine/third": fence}))["type"] == "ADMITTED"
    async with story.next().running() as bus:
        ann = await joined(bus, "ann")
        assert (await admit(ann, "l2", keeper, holds={"machine/third": fence}))["type"] == "ADMITTED"
        assert (await policy(await joined(bus, "boss")))["blockers"] == ["l2"]
    async with story.next().running() as bus:
        ann = await joined(bus, "ann")
        await supervise(ann, "STARTED", launch="l2", leader=msgspec.to_builtins(process()), group=3)
        await settled()
        await supervise(ann, "ENDED", launch="l2", leader_only=True)
        await settled()
    async with story.next().running() as bus:
        assert commands(bus) == {"l2": "draining"}
        assert bus.supervisor.world.gate.commands["l2"].blocks == (KEY,)
        lived = as_bytes(bus.supervisor.world)
        assert lived == as_bytes(await replayed(story.store))
    story.effects.gone.add(keeper)  # while no supervisor ran
    async with story.next().running() as bus:
        await settled()
        assert (commands(bus), launches_of(bus, "machine/third")) == ({}, [])
        assert (bus.effects.read, bus.effects.forgotten) == (["l2"], ["l2"])
    async with story.next().running() as bus:
        assert bus.supervisor.world.gate.epochs.as_dict() == {KEY: 3, OTHER: 1}


async def test_a_resource_that_was_not_told_before_the_end_is_told_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    async with story.next().running() as bus:
        boss = await joined(bus, "boss")
        tell = bus.supervisor.tell
        monkeypatch.setattr(
            bus.supervisor, "tell", lambda to, what, **rest: isinstance(what, Govern) or tell(to, what, **rest)
        )
        await policy(boss)
        await settled()
        assert bus.supervisor.world.resource(KEY).policy is None
    async with story.next().running() as bus:
        await settled()
        known = bus.supervisor.world.resource(KEY)
        assert (known.policy and known.policy.controller, known.epoch) == ("boss", 1)
        seq = bus.supervisor.world.seq
    async with story.next().running() as bus:
        await settled()
        assert bus.supervisor.world.seq == seq + 1, "it is told only where it does not know: all there is is `up`"


async def test_an_admission_that_was_cut_short_before_the_gate_is_finished_or_found_harmless() -> None:
    story, keeper = Story(), process()
    async with story.next().running() as bus:
        ann = await joined(bus, "ann")
        fence = await run_ticket(ann, KEY)
        supervisor = bus.supervisor

        async def dies(*_: Any) -> Any:
            raise RuntimeError("the supervisor is killed here")

        ask, asked = supervisor.ask, list[str]()

        async def asking(address: str, make: Any) -> Any:
            asked.append(address)
            return await (dies() if address == "gate" else ask(address, make))

        supervisor.ask = asking  # type: ignore[method-assign] # the moment between two records
        with pytest.raises(RuntimeError):
            await admit(ann, "l1", keeper, holds={KEY: fence})
        assert (asked, launches_of(bus, KEY), commands(bus)) == ([KEY, "gate"], ["l1"], {})
    async with story.next().running() as bus:
        ann = await joined(bus, "ann")
        assert (await admit(ann, "l1", keeper, holds={KEY: fence}))["type"] == "ADMITTED"
        assert commands(bus) == {"l1": str(CommandState.ADMITTED)}


async def test_a_keeper_that_dies_while_its_command_is_being_admitted_is_told_to_all_that_took_it(bus: Bus) -> None:
    keeper = process()
    async with bus.running():
        ann = await joined(bus, "ann")
        fence = await run_ticket(ann, KEY)
        ask = bus.supervisor.ask

        async def asking(address: str, make: Any) -> Any:
            if address == "gate":
                bus.effects.end(keeper)
                await settled()
                assert launches_of(bus, KEY) == []
            return await ask(address, make)

        bus.supervisor.ask = asking  # type: ignore[method-assign] # the moment between two records
        await admit(ann, "l1", keeper, holds={KEY: fence})
        await settled()
        assert (commands(bus), bus.effects.read, bus.effects.forgotten) == ({}, ["l1"], ["l1"])
        assert bus.supervisor.launches.size() == 0


async def test_a_world_of_before_the_gate_still_opens() -> None:
    raw = msgspec.json.decode(as_bytes(World()))
    del raw["gate"]
    assert World.decode(msgspec.json.encode(raw)) == World()
