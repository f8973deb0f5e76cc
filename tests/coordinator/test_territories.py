"""Leases through the supervisor: who hears what, what a restart keeps, and what the log says of it all."""

import random
from typing import Any, NamedTuple

import pytest
from tests.coordinator.bus import Bus, FakeCaller, passes, process, replayed, settled
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.territories import plain_repositories

from interlock.coordinator.records import decode
from interlock.coordinator.world import World
from interlock.protocol.claim import Claim, claims_overlap
from interlock.protocol.territory_events import LeaseBegan, LeaseMoved, LeaseOver

pytestmark = pytest.mark.anyio
TERRITORY = "territory/r1r1r1r1"


def new_bus(**given: Any) -> Bus:
    return Bus(repositories=plain_repositories(), **given)


def ask(*claims: str, **more: Any) -> dict[str, Any]:
    return {"type": "LEASE", "claims": claims, "worktree": "/r1/w", **more}


async def test_who_waits_hears_it_at_once_and_finds_it_in_the_inbox() -> None:
    async with new_bus().running() as bus:
        ann, bob = bus.client("ann"), bus.client("bob")
        lease = await ann.ask(ask("src/**"))
        assert (await bob.ask(ask("src/a.py")))["code"] == "OVERLAP"
        waits = await bob.ask(ask("src/a.py", wait_ms=60_000))
        assert waits["behind"][0]["agent"] == "ann"
        await ann.ask({"type": "RETURN", "lease": lease["lease"]})
        await settled()
        assert [body["lease"] for body in bob.heard("LEASED")] == [waits["lease"]]
        unread = bus.supervisor.world.inbox("bob").unread.values()
        assert [letter.body.lease for letter in unread] == [waits["lease"]]  # type: ignore[union-attr] # a LEASED


async def test_the_same_message_again_is_answered_with_what_is_true_now() -> None:
    async with new_bus().running() as bus:
        ann = bus.client("ann")
        first = await ann.ask(ask("a"), "m-1")
        assert (await ann.ask(ask("a"), "m-1"))["lease"] == first["lease"]
        await ann.ask({"type": "RETURN", "lease": first["lease"]})
        assert (await ann.ask(ask("a"), "m-1"))["how"] == "released"
        assert (await ann.ask(ask("b"), "m-1"))["code"] == "ID_CONFLICT"


async def test_two_repositories_are_two_territories() -> None:
    async with new_bus().running() as bus:
        ann, bob = bus.client("ann"), bus.client("bob")
        await ann.ask(ask("a"))
        assert (await bob.ask({**ask("a"), "worktree": "/r2/w"}))["type"] == "LEASED"
        assert (await bob.ask({**ask("a"), "worktree": "/elsewhere"}))["code"] == "BAD_MESSAGE"
        assert set(bus.supervisor.world.territories) == {TERRITORY, "territory/r2r2r2r2"}


async def test_leases_survive_a_restart_and_so_does_what_they_are_bound_to() -> None:
    store, wrapper = MemoryStore(), process()
    async with new_bus(store=store).running() as bus:
        await bus.client("ann", FakeCaller(chain=[wrapper])).ask(ask("a", run=True, wait_ms=1))
        await bus.client("bob").ask(ask("a", wait_ms=600_000))
        effects = bus.effects
    async with new_bus(store=store, effects=effects).running() as bus:
        territory = bus.supervisor.world.territories[TERRITORY]
        assert [each.agent for each in territory.held.values()] == ["ann"]
        effects.end(wrapper)
        await settled()
        territory = bus.supervisor.world.territories[TERRITORY]
        assert [each.agent for each in territory.held.values()] == ["bob"]
        assert (await replayed(store)).territories == bus.supervisor.world.territories


async def test_a_snapshot_keeps_leases_and_finds_them_again() -> None:
    async with new_bus().running() as bus:
        ann, bob = bus.client("ann"), bus.client("bob")
        await ann.ask(ask("src/**", "a.py:1-9"))
        await bob.ask(ask("src/a.py", wait_ms=60_000))
        world = World.decode(bus.supervisor.world.encode())
        assert world.territories == bus.supervisor.world.territories
        (lease,) = world.territories[TERRITORY].held.overlapping([Claim("src/b.py")])
        assert lease.agent == "ann"


async def test_a_process_is_let_go_once_no_lease_lives_by_it() -> None:
    async with new_bus().running() as bus:
        wrapper = process()
        ann = bus.client("ann", FakeCaller(chain=[wrapper]))
        lease = await ann.ask(ask("a", run=True))
        bus.supervisor.let_go()
        assert bus.effects.watched(wrapper) == 1
        await ann.ask({"type": "RETURN", "lease": lease["lease"]})
        bus.supervisor.let_go()
        assert bus.effects.watched(wrapper) == 0


async def test_an_agent_that_has_lost_its_memory_is_told_of_its_leases() -> None:
    async with new_bus().running() as bus:
        ann = bus.client("ann")
        lease = await ann.ask(ask("src/**"))
        me = await ann.ask({"type": "ME"}, to="supervisor")
        assert [(each["lease"], each["claims"]) for each in me["leases"]] == [(lease["lease"], ["src/**"])]


async def test_the_end_of_an_agent_ends_its_leases() -> None:
    async with new_bus().running() as bus:
        host = process()
        ann = bus.client("ann", FakeCaller(bound=host))
        await ann.ask({"type": "JOIN", "agent": "ann"}, to="supervisor")
        assert (await ann.ask(ask("a")))["bound_to"] == "its agent"
        bus.effects.end(host)
        await settled()
        assert not bus.supervisor.world.territories[TERRITORY].held


async def test_a_lease_expires_with_the_clock_and_its_agent_is_told() -> None:
    async with new_bus().running() as bus:
        ann = bus.client("ann")
        await ann.ask(ask("a", ttl_ms=10_000))
        await passes(10)
        await settled()
        letters = bus.supervisor.world.inbox("ann").unread.values()
        assert [letter.body.how for letter in letters] == ["expired"]  # type: ignore[union-attr] # a LEASE ENDED


async def test_the_map_shows_who_has_what_who_waits_and_where_most_do() -> None:
    async with new_bus().running() as bus:
        ann, bob = bus.client("ann"), bus.client("bob")
        await ann.ask(ask("src/**", purpose="login"))
        await bob.ask(ask("src/a.py", wait_ms=60_000))
        shown = (await bob.ask({"type": "TERRITORY", "directory": "/r1"}, to="supervisor"))["map"]
        assert [(each["agent"], each["claims"], each["waiting"]) for each in shown["leases"]] == [
            ("ann", ["src/**"], 1)
        ]
        assert [each["behind"][0]["agent"] for each in shown["waiting"]] == ["ann"]
        assert shown["hot"] == [{"pattern": "src/a.py", "waits": 1, "waiting_now": 1}]
        assert (shown["depth"], shown["stats"]["queued"]) == (1, 1)


async def test_who_verifies_needs_no_name_and_counts_no_nonsense() -> None:
    async with new_bus().running() as bus:
        nobody = bus.client("")
        body = {"type": "RECORD_VERIFIED", "directory": "/r1", "pairs": 9, "violations": {"no_lease": 2}}
        assert "code" not in await nobody.ask(body, to="supervisor")
        for wrong in ({"pairs": -1}, {"violations": {"no_lease": 10**30}}, {"violations": {"bad luck": 1}}):
            assert (await nobody.ask({**body, **wrong}, to="supervisor"))["code"] == "BAD_MESSAGE"
        shown = (await nobody.ask({"type": "TERRITORY", "directory": "/r1"}, to="supervisor"))["map"]["stats"]
        assert (shown["pairs_checked"], shown["verified"]["failed"], shown["violations"]) == (9, 1, {"no_lease": 2})


# --- 16 agents --------------------------------------------------------------------------------
class Crowd(NamedTuple):
    """How the random acquires of many agents went."""

    granted: int
    waited: int
    killed: int


async def crowd(bus: Bus, agents: int, each: int, seed: int) -> Crowd:
    """Each agent acquires, keeps a few, and returns; processes die meanwhile. All that wait are served in the end."""
    chance = random.Random(seed)
    files = [f"{top}/{middle}/f{number}.py" for top in "abcde" for middle in "vwxyz" for number in range(40)]
    clients = {f"a{n}": bus.client(f"a{n}") for n in range(agents)}
    waited = killed = 0
    asked = 0
    while asked < each * agents:
        name = chance.choice(list(clients))
        client, territory = clients[name], bus.supervisor.world.territory(TERRITORY)
        mine = territory.held.of(name)
        waits = territory.waiting.of(name)
        if len(mine) > 3 or (mine and chance.random() < 0.3):
            await client.ask({"type": "RETURN", "lease": chance.choice(mine)})
        if len(waits) > 1:  # it does something else meanwhile
            if chance.random() < 0.1:
                await client.ask({"type": "RETURN", "lease": chance.choice(waits)})
            continue
        asked += 1
        claims = {_claim(chance, files) for _ in range(chance.randint(1, 3))}
        wrapper = process()
        bus.supervisor.forget(client.session)
        clients[name] = client = bus.client(name, FakeCaller(chain=[wrapper]))
        body = ask(*claims, wait_ms=3_600_000, shared=chance.random() < 0.2, bound=chance.random() < 0.5)
        waited += (await client.ask(body))["type"] == "LEASE QUEUED"
        if chance.random() < 0.1:
            killed += 1
            bus.effects.end(wrapper)
    await settled()
    for _ in range(each * agents * 4):  # whoever waits for long enough is served, as others give back
        territory = bus.supervisor.world.territory(TERRITORY)
        if not territory.waiting:
            break
        lease = next(iter(territory.held.values()))
        await clients[lease.agent].ask({"type": "RETURN", "lease": lease.id})
    assert not bus.supervisor.world.territory(TERRITORY).waiting
    return Crowd(bus.supervisor.world.territory(TERRITORY).stats.acquired, waited, killed)


def _claim(chance: random.Random, files: list[str]) -> str:
    path = chance.choice(files)
    match chance.randint(0, 9):
        case 0:
            return f"{path[:4]}**"
        case 1:
            return f"{path[0]}/*/{path[4:]}"
        case 2:
            first = chance.randint(1, 50)
            return f"{path}:{first}-{first + chance.randint(0, 20)}"
        case _:
            return path


def two_in_force_at_once(store: MemoryStore) -> list[str]:
    """Overlapping exclusive leases of different agents, by the order of the log alone."""
    in_force: dict[str, tuple[str, tuple[Claim, ...], bool]] = {}
    found = []
    for row in store.durable:
        for entry in decode(row.body).entries:
            for event in entry.events:
                match event:
                    case LeaseBegan(agent, lease) | LeaseMoved(agent, lease):
                        for id_, (other, claims, shared) in in_force.items():
                            apart = other == agent or id_ == lease.id or (shared and lease.shared)
                            if not apart and any(claims_overlap(a, b) for a in claims for b in lease.claims):
                                found.append(f"{id_} of {other} and {lease.id} of {agent}")
                        in_force[lease.id] = (agent, lease.claims, lease.shared)
                    case LeaseOver(lease=id_):
                        in_force.pop(id_, None)
    return found


@pytest.mark.parametrize(
    ("each", "seed"), [(20, 1), (20, 2), pytest.param(500, 3, marks=pytest.mark.slow)], ids=["20", "20 others", "500"]
)
async def test_of_16_agents_no_two_are_in_force_at_once_and_all_are_served(each: int, seed: int) -> None:
    store = MemoryStore()
    async with new_bus(store=store).running() as bus:
        went = await crowd(bus, 16, each, seed)
        assert min(went) > each
        assert two_in_force_at_once(store) == []
        assert (await replayed(store)).territories == bus.supervisor.world.territories


async def test_the_check_sees_two_in_force_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.protocol.territory.is_blocked", lambda territory, lease: False)
    store = MemoryStore()
    async with new_bus(store=store).running() as bus:
        await bus.client("ann").ask(ask("a"))
        await bus.client("bob").ask(ask("*"))
        assert two_in_force_at_once(store) == ["L3 of ann and L5 of bob"]
