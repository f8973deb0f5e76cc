"""What agents' lives hang on: a program's process where it can be seen, else its connections."""

import ast
import inspect
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.coordinator.bus import Bus, Client, FakeCaller, process, settled

from interlock.coordinator import consequences
from interlock.coordinator.consequences import Consequences
from interlock.protocol.limits import SESSION_CUT_MS
from interlock.protocol.registry import Agent

pytestmark = pytest.mark.anyio
KEY = "machine/r"
A_MOMENT_S = 0.01
CUT_S = SESSION_CUT_MS / 1000


async def program(bus: Bus, name: str, secret: str = "secret-1", **more: Any) -> Client:
    """A program that nobody can see the process of."""
    client = bus.client(name)
    joined = await client.ask({"type": "JOIN", "agent": name, "session": secret, **more}, to="supervisor")
    assert joined["type"] == "JOINED", joined
    return client


def cut(bus: Bus, client: Client) -> None:
    client.session.close()
    bus.supervisor.forget(client.session)


def agent(bus: Bus, name: str) -> Agent:
    return bus.supervisor.world.registry.agents[name]


async def presence(bus: Bus, name: str) -> str:
    reply = await bus.client("").ask({"type": "AGENTS"}, to="supervisor")
    return str(next(each["presence"] for each in reply["agents"] if each["agent"] == name))


async def test_a_cut_session_is_unknown_then_gone_and_the_next_is_served(bus: Bus) -> None:
    async with bus.running():
        a, b = await program(bus, "a"), bus.client("b")
        await a.ask(f"REQUEST {KEY} - x")
        await b.ask(f"REQUEST {KEY} - y")
        assert await presence(bus, "a") == "alive"
        cut(bus, a)
        await anyio.sleep(CUT_S - A_MOMENT_S)
        assert await presence(bus, "a") == "unknown"
        assert (await b.ask(f"REQUEST {KEY} - y"))["type"] == "QUEUED"
        await anyio.sleep(2 * A_MOMENT_S)
        assert await presence(bus, "a") == "gone"
        assert (await b.ask(f"REQUEST {KEY} - y"))["type"] == "GRANTED"


async def test_back_in_time_with_the_same_secret_is_the_same_incarnation(bus: Bus) -> None:
    async with bus.running():
        a = await program(bus, "a")
        fence = (await a.ask(f"REQUEST {KEY} - x"))["fence"]
        cut(bus, a)
        await anyio.sleep(CUT_S - A_MOMENT_S)
        a = await program(bus, "a")
        await anyio.sleep(2 * CUT_S)
        assert agent(bus, "a").incarnation == 1
        assert (await a.ask({"type": "CHECK", "resource": KEY}, to="supervisor"))["fence"] == fence


async def test_an_agent_lives_as_long_as_one_of_its_connections(bus: Bus) -> None:
    async with bus.running():
        one, other = await program(bus, "a"), await program(bus, "a")
        cut(bus, one)
        await anyio.sleep(2 * CUT_S)
        assert not agent(bus, "a").gone
        cut(bus, other)
        await anyio.sleep(2 * CUT_S)
        assert agent(bus, "a").gone


async def test_after_a_restart_the_time_is_counted_from_the_start(bus: Bus) -> None:
    async with bus.running():
        await program(bus, "a")
        await program(bus, "b", "secret-2")
    bus = Bus(bus.store.crash(), effects=bus.effects, clock=bus.clock)
    await anyio.sleep(10 * CUT_S)
    async with bus.running():
        await anyio.sleep(CUT_S - A_MOMENT_S)
        await program(bus, "b", "secret-2")
        assert not agent(bus, "a").gone
        await anyio.sleep(2 * A_MOMENT_S)
        assert agent(bus, "a").gone
        assert not agent(bus, "b").gone


async def test_a_connection_that_ends_while_it_joins_is_not_missed(bus: Bus) -> None:
    async with bus.running():
        client = bus.client("a")
        join = {"type": "JOIN", "agent": "a", "session": "secret-1"}
        bus.go(client.post, join, "", "supervisor")
        await anyio.lowlevel.checkpoint()  # the question is under way, and not decided
        cut(bus, client)
        await anyio.sleep(2 * CUT_S)
        assert agent(bus, "a").gone


async def test_a_program_whose_process_is_seen_is_gone_with_it_at_once_and_not_before(bus: Bus) -> None:
    mine = process()
    async with bus.running():
        a = bus.client("a", FakeCaller(chain=[mine]))
        joined = await a.ask({"type": "JOIN", "agent": "a", "session": "secret-1"}, to="supervisor")
        assert joined["bound_to"] == f"python (pid {mine.pid})"
        cut(bus, a)
        await anyio.sleep(2 * CUT_S)
        assert await presence(bus, "a") == "alive"
        bus.effects.end(mine)
        await settled()
        assert agent(bus, "a").gone


async def test_a_program_of_an_agent_speaks_for_it_and_does_not_bind_it(bus: Bus) -> None:
    claude, mine = process(), process()
    async with bus.running():
        await bus.client("a", FakeCaller(claude)).ask(f"REQUEST {KEY} - x")
        tool = bus.client("a", FakeCaller(chain=[mine, claude]))
        await tool.ask({"type": "JOIN", "agent": "a", "session": "secret-1"}, to="supervisor")
        assert agent(bus, "a").process == claude
        left = await tool.ask({"type": "LEAVE", "session": True}, to="supervisor")
        assert "does not hang" in left["why"]
        bus.effects.end(mine)
        await settled()
        assert not agent(bus, "a").gone


async def test_the_last_connection_of_a_program_takes_its_agent_along_where_it_says_so(bus: Bus) -> None:
    async with bus.running():
        one, other = await program(bus, "a"), await program(bus, "a")
        await one.ask({"type": "LEAVE", "session": True}, to="supervisor")
        assert not agent(bus, "a").gone
        cut(bus, one)
        await other.ask({"type": "LEAVE", "session": True}, to="supervisor")
        assert agent(bus, "a").gone


async def test_who_is_taken_over_loses_its_connection(bus: Bus) -> None:
    async with bus.running():
        first = await program(bus, "a")
        await program(bus, "a", "secret-2", takeover=True)
        assert first.session.closed.is_set()
        assert agent(bus, "a").incarnation == 2


async def test_who_comes_back_while_the_disk_is_full_is_not_gone(bus: Bus) -> None:
    async with bus.running():
        a = await program(bus, "a")
        cut(bus, a)
        await settled()
        bus.store.full = True
        client = bus.client("a")
        join = {"type": "JOIN", "agent": "a", "session": "secret-1"}
        assert (await client.ask(join, to="supervisor"))["code"] == "JOURNAL_UNAVAILABLE"
        bus.store.full = False
        await anyio.sleep(2 * CUT_S)
        assert not agent(bus, "a").gone


async def test_an_attended_hold_ends_with_the_process_that_asked_whatever_its_agent_is_bound_to(bus: Bus) -> None:
    claude, mine = process(), process()
    async with bus.running():
        tool = bus.client("a", FakeCaller(claude, chain=[mine, claude]))
        attended = {"type": "REQUEST", "resource": KEY, "worktree": "-", "attended": True}
        assert (await tool.ask(attended))["type"] == "GRANTED"
        b = bus.client("b")
        await b.ask(f"REQUEST {KEY} - y")
        bus.effects.end(mine)
        await settled()
        assert (await b.ask(f"REQUEST {KEY} - y"))["type"] == "GRANTED"
        assert not agent(bus, "a").gone


async def test_a_follower_hears_that_a_hold_has_ended_whoever_ended_it(bus: Bus) -> None:
    async with bus.running():
        a, same = bus.client("a"), bus.client("a")
        await a.ask({"type": "WAIT", "resource": "*", "follow": True}, to="supervisor")
        fence = (await a.ask(f"REQUEST {KEY} - x"))["fence"]
        await same.ask(f"RELEASE {KEY}")
        await settled()
        assert [body["fence"] for body in a.heard("RELEASED")] == [fence]
        fence = (await a.ask(f"REQUEST {KEY} - x"))["fence"]
        await same.ask({"type": "LEAVE"}, to="supervisor")
        await settled()
        assert [body["fence"] for body in a.heard("RELEASED")][1:] == [fence]
        assert not bus.supervisor.world.inbox("a").unread, "it is news, and no letter"


async def test_the_secret_is_in_no_event(bus: Bus) -> None:
    async with bus.running():
        await program(bus, "a", "secret-1")
        assert all(b"secret-1" not in row.body for row in bus.store.durable)


async def test_a_program_that_binds_another_process_is_answered_and_stays_connected(bus: Bus) -> None:
    """It once lost its connection instead of an answer: it was taken for one that had the name before."""
    caller = FakeCaller(chain=[process(77)])
    async with bus.running():
        client = bus.client("a", caller)
        with anyio.fail_after(60):
            joined = await client.ask({"type": "JOIN", "agent": "a", "session": "s", "pid": 5}, to="supervisor")
            assert (joined["type"], joined["bound_to"]) == ("JOINED", "pid 5")
            assert (await client.ask(f"REQUEST {KEY} - x"))["type"] == "GRANTED"
        assert not client.session.closed.is_set()


async def test_who_is_gone_is_not_looked_up_any_more(bus: Bus) -> None:
    """Else each name that ever waited stays in memory; it was struck off only when it was heard of again."""
    async with bus.running():
        holder = bus.client("holder")
        await holder.ask(f"REQUEST {KEY} - x")
        for number in range(20):
            waiter = bus.client(f"guest-{number}")
            await waiter.ask(f"REQUEST {KEY} - y")
            if number % 2:  # what is held ends otherwise than what is waited for
                await waiter.ask(f"REQUEST machine/own-{number} - z")
            await waiter.ask({"type": "LEAVE"}, to="supervisor")
        await bus.supervisor.dispatcher.quiet()
        counts = bus.supervisor.counts()
        assert (counts["agents"], counts["agents here"], counts["agents with resources"]) == (21, 1, 1)


def test_the_events_that_are_looked_at_are_those_that_there_is_something_to_do_for() -> None:
    """One that the table forgot was never looked at, whatever stood there for it."""
    cases = [each for each in ast.walk(ast.parse(inspect.getsource(consequences))) if isinstance(each, ast.MatchClass)]
    handled = {ast.unparse(each.cls) for each in cases}
    assert handled == {event.__name__ for event in Consequences.NOTICED}
