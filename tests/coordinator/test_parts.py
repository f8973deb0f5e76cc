"""The small parts: mailbox, timer, rates, ids."""

import uuid

import anyio
import pytest
from tests.coordinator.virtual_time import VirtualClock

from interlock.coordinator import rates
from interlock.coordinator.ids import new_id, uuid_v7
from interlock.coordinator.mailbox import Mailbox
from interlock.coordinator.rates import SWEPT_AT_LEAST, Buckets
from interlock.coordinator.records import message_id
from interlock.coordinator.timer import Timer
from interlock.protocol.limits import MESSAGES_BURST, MESSAGES_BURST_TO_ONE
from interlock.protocol.outcome import Deadline

pytestmark = pytest.mark.anyio


# --- mailbox ----------------------------------------------------------------------------------
def test_a_mailbox_keeps_order_and_refuses_what_is_over() -> None:
    box = Mailbox[int](4, 1)
    assert [box.put(n) for n in range(4)] == [True, True, True, False]
    assert box.put(9, urgent=True)
    assert not box.put(10, urgent=True)
    assert box.take_all() == [0, 1, 2, 9]
    assert len(box) == 0


def test_what_is_put_back_comes_first_in_its_order() -> None:
    box = Mailbox[int](3, 0)
    box.put(5)
    box.put_back([1, 2, 3])
    assert box.take_all() == [1, 2, 3, 5]


# --- timer ------------------------------------------------------------------------------------
class Fired:
    """A timer that runs, and what it said when (ms since it began)."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.began = clock.mono_ms()
        self.said: list[tuple[str, int]] = []
        self.timer = Timer(clock, lambda address: self.said.append((address, clock.mono_ms() - self.began)))

    def arm(self, address: str, in_ms: int | None) -> None:
        deadline = None if in_ms is None else Deadline(self.clock.boot(), self.clock.mono_ms() + in_ms)
        self.timer.arm(address, deadline)


async def test_each_deadline_is_told_once_at_its_time(clock: VirtualClock) -> None:
    fired = Fired(clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fired.timer.run)
        for address, in_ms in (("late", 5_000), ("soon", 1_000), ("never", 9_000)):
            fired.arm(address, in_ms)
        await anyio.sleep(2)
        fired.arm("never", None)
        await anyio.sleep(100)
        tasks.cancel_scope.cancel()
    assert fired.said == [("soon", 1_000), ("late", 5_000)]


async def test_what_is_armed_again_and_again_takes_no_more_room(clock: VirtualClock) -> None:
    """A hold's poll is minutes away, and each hand-over arms it anew: old deadlines must not wait for their time."""
    fired = Fired(clock)
    for number in range(10_000):
        fired.arm("a", 180_000 + number)
        fired.arm(f"gone-{number}", 180_000)
        fired.arm(f"gone-{number}", None)
    assert fired.timer.size() < 1_000
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fired.timer.run)
        fired.arm("b", 200_000)
        await anyio.sleep(1_000)
        tasks.cancel_scope.cancel()
    assert fired.said == [("a", 189_999), ("b", 200_000)]


async def test_the_last_word_about_an_address_counts(clock: VirtualClock) -> None:
    fired = Fired(clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fired.timer.run)
        fired.arm("a", 1_000)
        fired.arm("a", 3_000)
        fired.arm("b", 5_000)
        await anyio.sleep(0.1)
        fired.arm("b", 1_900)
        await anyio.sleep(10)
        fired.arm("a", 3_000)
        fired.arm("a", 3_000)
        await anyio.sleep(10)
        tasks.cancel_scope.cancel()
    assert fired.said == [("b", 2_000), ("a", 3_000), ("a", 13_100)]


async def test_a_deadline_of_another_boot_is_due_at_once(clock: VirtualClock) -> None:
    fired = Fired(clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fired.timer.run)
        fired.timer.arm("a", Deadline("boot-0", 10**12))
        await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert fired.said == [("a", 0)]


async def test_what_the_machine_slept_through_is_told_as_soon_as_anything_runs(clock: VirtualClock) -> None:
    fired = Fired(clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fired.timer.run)
        fired.arm("a", 1_000)
        await anyio.sleep(0.5)
        clock.suspend(3_600_000)
        await anyio.sleep(1)
        tasks.cancel_scope.cancel()
    assert fired.said == [("a", 3_601_000)]


async def test_sleep_moves_the_steady_clock_too(clock: VirtualClock) -> None:
    before = clock.mono_ms(), clock.wall_ms()
    clock.suspend(5_000)
    assert (clock.mono_ms(), clock.wall_ms()) == (before[0] + 5_000, before[1] + 5_000)


# --- rates ------------------------------------------------------------------------------------
async def test_a_burst_passes_then_the_rate_holds(clock: VirtualClock) -> None:
    buckets = Buckets(clock, 10, 100)
    assert [buckets.take("a") for _ in range(101)] == [True] * 100 + [False]
    assert buckets.take("b"), "everybody has a bucket of their own"
    await anyio.sleep(0.5)
    assert [buckets.take("a") for _ in range(6)] == [True] * 5 + [False]
    await anyio.sleep(3_600)
    assert [buckets.take("a") for _ in range(101)] == [True] * 100 + [False], "no more than a burst is saved up"


def test_a_wall_clock_that_jumps_gives_nothing(clock: VirtualClock) -> None:
    buckets = Buckets(clock, 10, 100)
    for _ in range(100):
        buckets.take("a")
    clock.wall += 10**9
    assert not buckets.take("a")


def test_the_limits_are_those_of_the_contract(clock: VirtualClock) -> None:
    agents, pairs = rates.of_agents(clock), rates.of_pairs(clock)
    assert sum(agents.take("a") for _ in range(2 * MESSAGES_BURST)) == MESSAGES_BURST == 5_000
    assert sum(pairs.take("a>b") for _ in range(2 * MESSAGES_BURST_TO_ONE)) == MESSAGES_BURST_TO_ONE == 100


async def test_buckets_of_those_who_were_here_before_are_forgotten_and_empty_ones_are_not(clock: VirtualClock) -> None:
    """Each name that was ever said kept its bucket until there were 131,072, and each pair of names: 100 MB."""
    buckets = Buckets(clock, 10, 100)
    for wave in range(20):
        for n in range(SWEPT_AT_LEAST // 2):
            buckets.take(f"{wave}.{n}")
        while buckets.take("greedy"):
            pass
        await anyio.sleep(20 if wave < 19 else 0)
    assert buckets.size() <= 2 * SWEPT_AT_LEAST
    assert not buckets.take("greedy")


def test_many_at_once_are_looked_through_a_few_times_only(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    buckets, looks = Buckets(clock, 10, 100), list[int]()
    look = buckets._forget_full

    def counted(now_ms: int) -> None:
        looks.append(now_ms)
        look(now_ms)

    monkeypatch.setattr(buckets, "_forget_full", counted)
    for n in range(16 * SWEPT_AT_LEAST):
        buckets.take(f"new{n}")
    assert len(looks) == 4
    assert buckets.size() == 16 * SWEPT_AT_LEAST


# --- ids --------------------------------------------------------------------------------------
def test_an_id_is_a_version_7_uuid_that_sorts_by_time() -> None:
    made = [uuid_v7(at_ms, 2**80 - 1) for at_ms in (1, 2, 1_800_000_000_000)]
    assert made == sorted(made)
    for each in (*made, new_id()):
        assert (uuid.UUID(each).version, uuid.UUID(each).variant) == (7, uuid.RFC_4122)


def test_a_message_id_follows_from_its_place_and_from_nothing_else() -> None:
    places = [(index, entry, n) for index in (1, 2, 256) for entry in (0, 1) for n in (0, 1)]
    made = [message_id(1_800_000_000_000, *place) for place in places]
    assert len(set(made)) == len(places)
    assert made == [message_id(1_800_000_000_000, *place) for place in places]
