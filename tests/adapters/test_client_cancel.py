"""Cancelled at any point, a hold leaves nothing behind: not a place, not a grant that was on its way.

The task under test is driven step by step: at its k-th wait it is cancelled, at once, or at the very moment at which
what it waits for has come. This is done for every k, until a run ends before its k-th wait.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any

import anyio
import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import Bus as Command

from interlock.client import Bus, Grant

pytestmark = pytest.mark.anyio
STEPS_MAX = 200


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the stepping below is asyncio's


@pytest.fixture(scope="module")
def command() -> Iterator[Command]:
    with shared_bus() as bus:
        yield bus


class Stepped:
    """Awaits `work`, and calls `cancel` at its k-th wait. Args: late: once what it waits for has come."""

    def __init__(self, work: Callable[[], Awaitable[None]], k: int, cancel: Callable[[], Any], *, late: bool) -> None:
        self.steps = 0
        self._work = work
        self._k = k
        self._cancel = cancel
        self._late = late

    def __await__(self) -> Generator[Any, Any, None]:
        inner = self._work().__await__()
        send: Callable[[], Any] = lambda: next(inner)  # noqa: E731 - it is made anew at each step
        while True:
            try:
                waits_for = send()
            except StopIteration:
                return
            self.steps += 1
            if self.steps == self._k and self._late and waits_for is not None:
                waits_for.add_done_callback(lambda _: self._cancel())
            elif self.steps == self._k:
                self._cancel()
            try:
                yield waits_for
                send = lambda: next(inner)  # noqa: E731 - likewise
            except BaseException as error:
                thrown = error
                send = lambda: inner.throw(thrown)  # noqa: B023, E731 - likewise


async def cancelled_at(k: int, work: Callable[[], Awaitable[None]], *, late: bool, native: bool) -> bool:
    """Run it cancelled at its k-th wait; False where it never came to that. Args: native: by Task.cancel()."""
    if native:
        stepped = Stepped(work, k, lambda: task.cancel(), late=late)  # noqa: PLW0108 - there is no task yet

        async def drive() -> None:
            await stepped

        task = asyncio.create_task(drive())
        await asyncio.wait([task])
        assert task.cancelled() or stepped.steps < k or task.exception() is None, task.exception()
    else:
        with anyio.CancelScope() as scope:
            stepped = Stepped(work, k, scope.cancel, late=late)
            await stepped
    return stepped.steps >= k


@pytest.mark.parametrize("native", [False, True], ids=["scope", "task"])
@pytest.mark.parametrize("late", [False, True], ids=["before it comes", "as it comes"])
@pytest.mark.parametrize("waited", [False, True], ids=["free", "held by another"])
async def test_a_hold_that_is_cancelled_leaves_nothing(
    command: Command, late: bool, waited: bool, native: bool
) -> None:
    name = f"{'late' if late else 'early'}{'-waited' * waited}{'-native' * native}"
    key = f"machine/{name}"
    async with (
        Bus(agent=f"{name}.a", home=str(command.home)) as bus,
        Bus(agent=f"{name}.b", home=str(command.home)) as rival,
    ):

        async def use() -> None:
            async with bus.hold(key, purpose="try"):
                await anyio.lowlevel.checkpoint()

        async def let_go(grant: Grant) -> None:
            """Give it to whoever waits, the moment somebody does."""
            while not (await rival.status(key))[0]["queue"]:
                await anyio.lowlevel.checkpoint()
            await grant.release()

        for k in range(1, STEPS_MAX):
            grant = None
            async with anyio.create_task_group() as tasks:
                if waited:
                    grant = await rival.request(key)
                    assert isinstance(grant, Grant)
                    tasks.start_soon(let_go, grant)
                again = await cancelled_at(k, use, late=late, native=native)
                tasks.cancel_scope.cancel()
            if isinstance(grant, Grant):
                await grant.release()
            async with rival.hold(key, timeout="20s") as mine:  # nothing stands before it
                assert not mine.shared
            assert not (await bus.me()).tickets, f"cancelled at wait {k}"
            if not again:
                return
        raise AssertionError("it never ended")


@pytest.mark.parametrize("native", [False, True], ids=["scope", "task"])
async def test_a_kept_place_is_there_once_or_not_at_all(command: Command, native: bool) -> None:
    key = f"machine/kept{'-native' * native}"
    async with (
        Bus(agent=f"kept.a{native}", home=str(command.home)) as bus,
        Bus(agent=f"kept.b{native}", home=str(command.home)) as rival,
        rival.hold(key),
    ):

        async def wait() -> None:
            async with bus.hold(key, keep_place=True):
                raise AssertionError("it is the rival's")

        places = set()
        for k in (1, 2, 3, 2, 3):  # asking, looking, waiting
            assert await cancelled_at(k, wait, late=False, native=native)
            tickets = (await bus.me()).tickets
            assert len(tickets) <= 1
            places |= {each.request_id for each in tickets}
        assert len(places) == 1
        await bus.cancel(key)


async def test_the_end_of_a_bus_gives_back_what_an_abandoned_hold_left(command: Command) -> None:
    async with Bus(agent="abandons", home=str(command.home)) as bus:
        await bus.hold("machine/abandoned").__aenter__()
    async with Bus(agent="next", home=str(command.home)) as bus, bus.hold("machine/abandoned", timeout="20s") as grant:
        assert not grant.shared
