"""Queues that starved, dropped, forgot or overtook somebody. The cases: index.md."""

import pytest
from tests.coordinator.bus import Bus, passes, settled
from tests.museum.looking import KEY, MINUTE_S, holders, queue, units, unread

from interlock.coordinator.config import parse_config
from interlock.protocol.resource_state import UnitState

pytestmark = pytest.mark.anyio


async def test_requests_of_the_same_moment_were_all_granted(bus: Bus) -> None:
    async with bus.running():
        clients = [bus.client(f"a{number}") for number in range(8)]
        ids = [await client.post(f"REQUEST {KEY} -") for client in clients]
        said = [(await client.answer(each))["body"] for client, each in zip(clients, ids, strict=True)]
        assert [each["type"] for each in said].count("GRANTED") == 1
        assert sorted(each["position"] for each in said if each["type"] == "QUEUED") == list(range(1, 8))


async def test_each_time_it_came_free_several_contenders_had_it(bus: Bus) -> None:
    async with bus.running():
        clients = {f"a{number}": bus.client(f"a{number}") for number in range(20)}
        for _ in range(50):
            for client in clients.values():
                await client.post(f"REQUEST {KEY} -")
            await settled()
            [owner] = holders(bus)
            assert (len(queue(bus)), owner in queue(bus)) == (19, False)
            assert (await clients[owner].ask(f"RELEASE {KEY}"))["type"] == "RELEASED"
            await settled()


async def test_who_would_not_wait_barged_past_the_one_who_was_next(bus: Bus) -> None:
    async with bus.running():
        a, b, c = (bus.client(name) for name in "abc")
        hasty = {"type": "REQUEST", "resource": KEY, "queue": False}
        for turns in range(2):
            await a.ask(f"REQUEST {KEY} -")
            await b.ask(f"REQUEST {KEY} -")
            if turns:
                await a.post(f"RELEASE {KEY}")
            asked = await c.post(hasty)
            if not turns:
                await a.post(f"RELEASE {KEY}")
            assert (await c.answer(asked))["body"]["code"] == "RESOURCE_BUSY"
            await settled()
            assert holders(bus) == ["b"]
            await b.ask(f"RELEASE {KEY}")


async def test_who_asked_again_lost_its_place(bus: Bus) -> None:
    async with bus.running():
        holder, a, b = (bus.client(name) for name in ("holder", "a", "b"))
        await holder.ask(f"REQUEST {KEY} -")
        await a.ask(f"REQUEST {KEY} -", "the-same")
        await b.ask(f"REQUEST {KEY} -")
        for number in range(60):  # every ten seconds, from a connection of its own each time
            await passes(10)
            await holder.ask("STATUS")  # it is there
            again = f"REQUEST {KEY} - still {number}" if number % 2 else f"REQUEST {KEY} -"
            assert (await bus.client("a").ask(again))["position"] == 1
            assert (await bus.client("a").ask(f"REQUEST {KEY} -", "the-same"))["position"] == 1
        assert queue(bus) == ["a", "b"]


async def test_the_oldest_waiter_was_passed_over_and_the_second_dropped(bus: Bus) -> None:
    names = [f"a{number}" for number in range(100)]
    async with bus.running():
        clients = [bus.client(name) for name in names]
        for client in clients:
            await client.post(f"REQUEST {KEY} -")
        await settled()
        assert holders(bus) + queue(bus) == names
        for name, client in zip(names, clients, strict=True):
            assert holders(bus) == [name]
            await client.ask(f"RELEASE {KEY}")
            await settled()


async def test_a_queue_for_one_thing_held_up_another(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} -")
        await b.ask(f"REQUEST {KEY} -")
        assert (await b.ask("REQUEST machine/other -"))["type"] == "GRANTED"


async def test_a_holder_in_a_tight_loop_starved_the_waiter(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} -")
        await b.ask(f"REQUEST {KEY} -")
        for holder, waiting in [(a, "b"), (b, "a")] * 100:
            ids = [await holder.post(f"{verb} {KEY}{rest}") for verb, rest in (("RELEASE", ""), ("REQUEST", " -"))]
            assert [(await holder.answer(each))["body"]["type"] for each in ids] == ["RELEASED", "QUEUED"]
            assert holders(bus) == [waiting]


async def test_when_many_units_came_free_at_once_some_waiters_slept_on() -> None:
    names = ", ".join(f'"{number}"' for number in range(6))
    bus = Bus(config=parse_config(f"[resources.r]\nunits = [{names}]\n", "bus.toml"))
    async with bus.running():
        clients = {f"a{number}": bus.client(f"a{number}") for number in range(86)}
        for client in clients.values():
            await client.post("REQUEST r -")
        await settled()
        served: list[str] = []
        while owners := holders(bus):
            served += owners
            for owner in owners:
                await clients[owner].post("RELEASE r")
            await settled()
            idle = [unit for unit in units(bus) if unit.state is UnitState.FREE]
            assert not (idle and queue(bus)), "a unit is free while somebody waits"
        assert served == list(clients)


async def test_a_restart_lost_places_and_holders(bus: Bus) -> None:
    names = [f"a{number}" for number in range(200)]
    async with bus.running():
        for name in names:
            await bus.client(name).post(f"REQUEST {KEY} - {name}")
        await settled()
        before = bus.supervisor.world.resources[KEY]
    for _ in range(3):
        bus = Bus(bus.store.crash(), clock=bus.clock)
        async with bus.running():
            await settled()
            after = bus.supervisor.world.resources[KEY]
            assert (after.queue, after.units[0].ticket) == (before.queue, before.units[0].ticket)
            assert after.units[0].fence == before.units[0].fence
    async with bus.running():
        await bus.client(names[0]).ask(f"RELEASE {KEY}")
        assert (holders(bus), queue(bus)) == (names[1:2], names[2:])


async def test_polls_piled_up_while_the_holder_was_busy(bus: Bus) -> None:
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} - a long test, 30m")
        await b.ask(f"REQUEST {KEY} -")
        await passes(29 * MINUTE_S)
        assert await unread(a) == ["STILL USING?"]
        await passes(12 * MINUTE_S)
        assert holders(bus) == ["b"]
        late = await a.ask(f"EXTEND {KEY}, 5m")
        assert (late["code"], "not yours any more" in late["why"]) == ("NOT_HOLDER", True), late
