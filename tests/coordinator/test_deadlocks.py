"""No circle of waiting: over resources, pools, sets and leases, whatever comes first, however many at once."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from tests.coordinator.bus import Bus, Client, settled
from tests.coordinator.several_resources import CONFIG, agents, lived
from tests.coordinator.territories import plain_repositories

from interlock.coordinator.config import parse_config

pytestmark = pytest.mark.anyio


def running() -> AbstractAsyncContextManager[Bus]:
    return lived(Bus(config=parse_config(CONFIG, "bus.toml"), repositories=plain_repositories()))


def lease(*claims: str, **more: Any) -> dict[str, Any]:
    return {"type": "LEASE", "claims": claims, "worktree": "/r1/w", "wait_ms": 600_000, **more}


async def test_the_second_of_two_is_refused_and_nothing_else_changes() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await ann.ask("REQUEST a - x")
        await bob.ask("REQUEST b - x")
        assert (await bob.ask("REQUEST a - x"))["type"] == "QUEUED"
        before = bus.supervisor.world.seq
        why = "bob holds b and waits for a, which you hold: release a, then ask for both together: bus request a b"
        assert await ann.ask("REQUEST b - x") == {"type": "REFUSED", "code": "DEADLOCK", "why": why}
        assert bus.supervisor.world.seq == before
        await ann.ask("RELEASE a")
        assert (await ann.ask("REQUEST a,b - x"))["type"] == "QUEUED"


async def test_a_circle_of_three() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        for who, name in ((ann, "a"), (bob, "b"), (cid, "c")):
            await who.ask(f"REQUEST {name} - x")
        assert (await ann.ask("REQUEST b - x"))["type"] == "QUEUED"
        assert (await bob.ask("REQUEST c - x"))["type"] == "QUEUED"
        refused = await cid.ask("REQUEST a - x")
        assert refused["code"] == "DEADLOCK"
        assert refused["why"].startswith(
            "ann holds a and waits for b, which bob holds, who waits for c, which you hold"
        )


async def test_a_ticket_ahead_counts() -> None:
    """Nobody in the circle holds what closes it: a graph of holders would be closed later, by a grant."""
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await cid.ask("REQUEST b - x")
        await ann.ask("REQUEST a - x")
        assert (await bob.ask("REQUEST b - x"))["type"] == "QUEUED"
        assert (await bob.ask("REQUEST a - x"))["type"] == "QUEUED"
        refused = await ann.ask("REQUEST b - x")
        assert refused["code"] == "DEADLOCK"
        assert refused["why"].startswith("bob waits for b ahead of you and waits for a, which you hold")


async def test_another_unit_of_a_pool_comes_free() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await ann.ask("REQUEST pool - x")
        await cid.ask("REQUEST pool - x")
        await bob.ask("REQUEST b - x")
        assert (await bob.ask("REQUEST pool - x"))["type"] == "QUEUED"
        assert (await ann.ask("REQUEST b - x"))["type"] == "QUEUED"  # cid gives its unit back, and bob goes on
        refused = await cid.ask("REQUEST b - x")
        assert refused["code"] == "DEADLOCK"


async def test_who_waits_for_nobody_may_wait() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await ann.ask("REQUEST a - x")
        await bob.ask("REQUEST b - x")
        assert (await ann.ask("REQUEST b - x"))["type"] == "QUEUED"
        assert (await cid.ask("REQUEST a - x"))["type"] == "QUEUED"
        assert (await cid.ask("REQUEST b - x"))["type"] == "QUEUED"
        assert (await bob.ask("REQUEST c - x"))["type"] == "GRANTED"
        assert (await ann.ask("REQUEST b - x"))["type"] == "QUEUED"  # said again


async def test_a_set_ahead_counts() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await ann.ask("REQUEST a - x")
        await cid.ask("REQUEST b - x")
        assert (await bob.ask("REQUEST a,b - x"))["type"] == "QUEUED"
        assert (await ann.ask("REQUEST b - x"))["code"] == "DEADLOCK"
        assert (await ann.ask("REQUEST b,c - x"))["code"] == "DEADLOCK"


async def test_over_leases_and_resources_both_ways() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await ann.ask("REQUEST a - x")
        await bob.ask(lease("src/**"))
        assert (await bob.ask("REQUEST a - x"))["type"] == "QUEUED"
        refused = await ann.ask(lease("src/x.py"))
        assert refused["code"] == "DEADLOCK"
        assert "and waits for a, which you hold: release a, then ask for the lease again" in refused["why"]
        await bob.ask("CANCEL a")
        assert (await ann.ask(lease("src/x.py")))["type"] == "LEASE QUEUED"
        refused = await bob.ask("REQUEST a - x")
        assert refused["code"] == "DEADLOCK"
        assert refused["why"].startswith("ann holds a and waits for src/x.py, which you hold: bus lease release ")


async def test_a_lease_is_not_given_into_a_circle() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        held = await ann.ask(lease("src/**"))
        await bob.ask("REQUEST a - x")
        assert (await cid.ask("REQUEST a - x"))["type"] == "QUEUED"
        assert (await bob.ask(lease("src/x.py")))["type"] == "LEASE QUEUED"
        for message in (
            {"type": "TRANSFER", "lease": held["lease"], "agent": "cid"},
            {"type": "SPLIT", "lease": held["lease"], "agent": "cid", "claims": ["src/x.py"], "worktree": "/r1/w"},
        ):
            assert (await ann.ask(message))["code"] == "DEADLOCK"
        part = {"type": "SPLIT", "lease": held["lease"], "agent": "cid", "claims": ["src/y.py"], "worktree": "/r1/w"}
        assert (await ann.ask(part))["type"] == "LEASED"


async def test_a_bus_run_ends_by_itself() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        run = {"type": "REQUEST", "resource": "a", "run": True}
        await ann.ask(run)
        await bob.ask("REQUEST b - x")
        assert (await bob.ask("REQUEST a - x"))["type"] == "QUEUED"
        assert (await ann.ask("REQUEST b - x"))["type"] == "QUEUED"


async def test_requests_that_are_under_way_together_close_no_circle() -> None:
    """All are sent before the first is answered: of each pair in opposite order one at least is refused."""
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        answers: dict[str, dict[str, Any]] = {}

        async def say(who: Client, name: str, text: str) -> None:
            answers[name] = await who.ask(text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, ann, "ann a", "REQUEST a - x")
            tasks.start_soon(say, bob, "bob b", "REQUEST b - x")
            tasks.start_soon(say, ann, "ann b", "REQUEST b - x")
            tasks.start_soon(say, bob, "bob a", "REQUEST a - x")
        assert [answers["ann a"]["type"], answers["bob b"]["type"]] == ["GRANTED", "GRANTED"]
        assert sorted(answers[name].get("code", "") for name in ("ann b", "bob a")) == ["", "DEADLOCK"]


async def test_a_first_set_and_a_second_request_under_way_together_close_no_circle() -> None:
    async with running() as bus:
        ann, bob, cid = agents(bus, "ann", "bob", "cid")
        await ann.ask("REQUEST a - x")
        await cid.ask("REQUEST b - x")
        answers: dict[str, dict[str, Any]] = {}

        async def say(who: Client, name: str, text: str) -> None:
            answers[name] = await who.ask(text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, bob, "bob", "REQUEST a,b - x")
            tasks.start_soon(say, ann, "ann", "REQUEST b - x")
        if answers["ann"].get("code") != "DEADLOCK":  # it came first
            queue = [each.agent for each in bus.supervisor.world.resources["machine/b"].queue.values()]
            assert queue == ["ann", "bob"]


async def test_a_turn_is_given_back_whatever_becomes_of_the_request() -> None:
    async with running() as bus:
        ann, bob = agents(bus, "ann", "bob")
        await ann.ask("REQUEST a - x")
        await bob.ask("REQUEST b - x")
        for text in ("REQUEST b /x/../y x", "REQUEST nothing - x", "REQUEST b,nothing - x"):
            await ann.ask(text)
        assert (await ann.ask("REQUEST a,b - x"))["code"] == "RESOURCE_BUSY"
        assert (await ann.ask("REQUEST c - x"))["type"] == "GRANTED"
        await settled()
        assert not bus.supervisor.deadlocks._under_way
        assert bus.supervisor.deadlocks._turns.try_take(alone=True)
