"""Several resources by the Python door: all or none for the length of a block."""

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import WAIT_S
from tests.end_to_end.playground import Bus as Command

from interlock.client import BlockingBus, Bus, Grant, Lost, Refused

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def command() -> Iterator[Command]:
    with shared_bus("[resources.declared]\n") as bus:
        yield bus


@pytest.fixture
async def ann(command: Command, request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    async with Bus(agent=f"ann-{abs(hash(request.node.name)) % 10**8}", home=str(command.home)) as bus:
        yield bus


@pytest.fixture
async def bob(command: Command, request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    async with Bus(agent=f"bob-{abs(hash(request.node.name)) % 10**8}", home=str(command.home)) as bus:
        yield bus


def names(test: str) -> tuple[str, str]:
    return f"machine/{test}-1", f"machine/{test}-2"


async def holders(bus: Bus, *resources: str) -> list[str]:
    found = [await bus.status(each) for each in resources]
    return [holder["agent"] for [row] in found for holder in row["holders"]]


async def test_both_are_held_in_the_block_and_given_back_after_it(ann: Bus) -> None:
    one, two = names("both")
    async with ann.hold_all(two, one, purpose="tests", time="20m") as (second, first):
        assert (first.key, second.key) == (one, two)
        assert first.fence != second.fence
        assert await holders(ann, one, two) == [ann.agent] * 2
        await first.check()
    assert await holders(ann, one, two) == []


async def test_who_waits_holds_nothing_and_has_both_in_its_turn(ann: Bus, bob: Bus) -> None:
    one, two = names("waits")
    got = anyio.Event()

    async def both() -> None:
        async with bob.hold_all(one, two) as grants:
            assert len(grants) == 2
            got.set()

    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            async with ann.hold(two):
                tasks.start_soon(both)
                while not (await ann.status(one))[0]["queue"]:
                    await anyio.lowlevel.checkpoint()
                assert await holders(ann, one) == []
            await got.wait()
    assert await holders(ann, one, two) == []


async def test_a_cancelled_wait_leaves_nothing_behind(ann: Bus, bob: Bus) -> None:
    one, two = names("cancelled")
    async with ann.hold(two):
        with pytest.raises(Refused, match="did not become yours within"):
            async with bob.hold_all(one, two, timeout="200ms"):
                pytest.fail("it is not free")
        assert [row["queue"] for row in (await ann.status(one)) + (await ann.status(two))] == [[], []]


async def test_one_that_is_lost_is_said_at_the_end(ann: Bus) -> None:
    one, two = names("lost")
    hold = ann.hold_all(one, two)
    first, second = await hold.__aenter__()
    await ann.release(one)
    await first.lost.wait()
    assert not second.lost.is_set()
    with pytest.raises(Lost):
        await hold.__aexit__(None, None, None)
    assert await holders(ann, one, two) == []


async def test_a_circle_is_a_refusal_with_its_code(ann: Bus, bob: Bus) -> None:
    one, two = names("circle")
    async with ann.hold(one), bob.hold(two):
        await bob.request(one)
        with pytest.raises(Refused, match="which you hold") as refused:
            await ann.request(two)
        assert refused.value.code == "DEADLOCK"
        await bob.cancel(one)


def test_a_program_without_an_event_loop_has_it_too(command: Command) -> None:
    one, two = names("blocking")
    with BlockingBus(agent="cid", home=str(command.home)) as bus:
        with bus.hold_all(one, two) as grants:
            assert [grant.key for grant in grants] == [one, two]
            for name in (one, two):
                with bus.hold(name, timeout="20s") as inner:
                    assert inner.shared
        assert [row["state"] for row in bus.status(one) + bus.status(two)] == ["free", "free"]


async def test_what_was_asked_for_as_one_without_a_block_is_given_back_as_one(ann: Bus) -> None:
    one, two = names("as-one")
    grant = await ann.request(f"{one},{two}", purpose="tests")
    assert isinstance(grant, Grant)
    assert await holders(ann, one, two) == [ann.agent] * 2
    await grant.release()
    assert await holders(ann, one, two) == []
