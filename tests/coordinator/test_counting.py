"""As whom an agent counts besides: what it says of where it stands gives it nothing that its own token does not."""

from typing import Any

import pytest
from tests.coordinator.bus import Bus, Client, FakeCaller, FakeEffects, process
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.test_authority import Shelf
from tests.coordinator.test_gate import KEY, admit, chosen, policy, supervise
from tests.coordinator.virtual_time import VirtualClock

from interlock.coordinator.authority import Authority, digest_of
from interlock.coordinator.config import parse_config
from interlock.protocol.identity import Identity

pytestmark = pytest.mark.anyio


@pytest.fixture
def bus(store: MemoryStore, clock: VirtualClock, effects: FakeEffects) -> Bus:
    made = Bus(store, parse_config('[bus]\nidentity = "token"\n', "bus.toml"), effects, clock)
    made.supervisor.authority = Authority(lambda: made.supervisor.config, Shelf(boss="b", ann="a", eve="e"))
    return made


async def joined(bus: Bus, name: str, caller: FakeCaller | None = None) -> Client:
    client = bus.client(name, caller)
    client.session.proof = client.session.shown = digest_of(name[0])
    assert (await supervise(client, "JOIN", agent=name))["type"] == "JOINED"
    return client


async def uses(client: Client, launch: str, fence: int, **fields: Any) -> str:
    answer = await admit(client, launch, process(), holds={KEY: fence}, epochs={KEY: 1}, **fields)
    return str(answer.get("code", answer["type"]))


@pytest.fixture
def keeper() -> Identity:
    return process()


async def test_with_tokens_nobody_goes_under_anothers_hold_by_saying_that_it_is_inside(
    bus: Bus, keeper: Identity
) -> None:
    async with bus.running():
        boss, ann, eve = await joined(bus, "boss"), await joined(bus, "ann"), await joined(bus, "eve")
        await policy(boss)
        fence = await chosen(boss, ann, KEY)
        assert (await admit(ann, "l1", keeper, holds={KEY: fence}, epochs={KEY: 1}))["type"] == "ADMITTED"
        assert await uses(eve, "l2", fence, inside=["l1"]) == "STALE_FENCE"
        assert (await supervise(eve, "COVER", inside=["l1"]))["epochs"] == {}
        assert await uses(ann, "l3", fence, inside=["l1"]) == "ADMITTED"  # her own token says as much
        # whoever is seen there is there, whatever it says
        eve.session.caller = FakeCaller(chain=[process(), keeper])
        assert (await supervise(eve, "COVER"))["epochs"] == {KEY: 1}
        assert await uses(eve, "l4", fence) == "ADMITTED"


async def test_nobody_takes_the_keeper_of_another_command_for_its_own(bus: Bus, keeper: Identity) -> None:
    async with bus.running():
        ann, eve = await joined(bus, "ann"), await joined(bus, "eve")
        assert (await admit(ann, "l1", keeper))["type"] == "ADMITTED"
        assert (await admit(eve, "l2", keeper))["code"] == "ID_CONFLICT"
        assert (await admit(ann, "l1", keeper))["type"] == "ADMITTED"  # asked again


async def test_with_tokens_nobody_counts_as_another_by_binding_itself_to_that_ones_process(bus: Bus) -> None:
    host = process()
    async with bus.running():
        boss, ann = await joined(bus, "boss"), await joined(bus, "ann", FakeCaller(host))
        eve = await joined(bus, "eve", FakeCaller(host))
        await policy(boss)
        ask = {"type": "REQUEST", "resource": KEY, "worktree": "-", "run": True}
        assert (await eve.ask(ask))["code"] == "SCOPE_DENIED"
        assert (await ann.ask(ask))["type"] == "QUEUED"
        eve.session.caller = FakeCaller(host, [process(), host])
        assert (await eve.ask(ask))["type"] == "QUEUED"


async def test_whoever_comes_through_its_own_folder_speaks_for_nobody_else_either(bus: Bus, keeper: Identity) -> None:
    bus.supervisor.config = parse_config('[agents.boss]\nallow = ["resource.control"]\n', "bus.toml")
    async with bus.running():
        boss, ann, eve = await joined(bus, "boss"), await joined(bus, "ann"), await joined(bus, "eve")
        await policy(boss)
        fence = await chosen(boss, ann, KEY)
        assert (await admit(ann, "l1", keeper, holds={KEY: fence}, epochs={KEY: 1}))["type"] == "ADMITTED"
        eve.session.owner = "eve"
        assert await uses(eve, "l2", fence, inside=["l1"]) == "STALE_FENCE"
        eve.session.owner = ""  # in the open it could say as well that it is ann
        assert await uses(eve, "l3", fence, inside=["l1"]) == "ADMITTED"


async def test_a_name_that_has_not_joined_is_not_out_of_the_policy_of_whose_process_it_runs_below(
    store: MemoryStore, clock: VirtualClock, effects: FakeEffects
) -> None:
    host = process()
    bus = Bus(store, parse_config('[agents.boss]\nallow = ["resource.control"]\n', "bus.toml"), effects, clock)
    async with bus.running():
        boss, ann = bus.client("boss"), bus.client("ann", FakeCaller(host, [process(), host]))
        for client in (boss, ann):
            assert (await supervise(client, "JOIN", agent=client.session.agent))["type"] == "JOINED"
        await policy(boss)
        bound = bus.supervisor.world.registry.living("ann")
        assert bound is not None
        assert bound.process == host
        new = bus.client("never-joined", FakeCaller(chain=[process(), host]))
        assert (await supervise(new, "COVER"))["epochs"] == {KEY: 1}
        elsewhere = bus.client("elsewhere", FakeCaller(chain=[process(), process()]))
        assert (await supervise(elsewhere, "COVER"))["epochs"] == {}
