"""Clocks that stood still, jumped or ran backwards, and what was made of them. The cases: index.md."""

import re
import time

import pytest
from tests.coordinator.bus import Bus, passes
from tests.coordinator.virtual_time import VirtualClock
from tests.museum.looking import KEY, MINUTE_S, supervise

from interlock.adapters import system_clock

pytestmark = pytest.mark.anyio
NEGATIVE = re.compile(r"(?<!\w)-\d")


async def test_a_clock_set_back_made_ages_negative(bus: Bus, clock: VirtualClock) -> None:
    async with bus.running():
        a, b, c = (bus.client(name) for name in "abc")
        await a.ask("REQUEST machine/lost - x, 5m")
        await c.ask("REQUEST machine/lost -")
        await passes(20 * MINUTE_S)
        await c.ask("REQUEST machine/lost -")
        await a.ask(f"REQUEST {KEY} - x, 5m")
        await b.ask(f"REQUEST {KEY} - y")
        await b.ask("hello", to="a")
        clock.wall -= 3_600_000 * 24
        said = [
            await b.ask(f"REQUEST {KEY} - y"),
            await b.ask(f"RELEASE {KEY} fence=1"),
            await c.ask(f"RELEASE {KEY}"),
            await a.ask("EXTEND machine/lost"),
            await a.ask(f"STATUS {KEY}"),
            await supervise(a, type="CHECK", resource="machine/lost"),
            await supervise(a, type="CHECK", resource=KEY),
            await supervise(a, type="ME"),
            await supervise(a, type="INBOX"),
            await supervise(b, type="STATUS"),
            await supervise(b, type="AGENTS"),
            await supervise(b, type="WAIT", resource=KEY),
        ]
        for frame in [*a.frames, *b.frames, *c.frames]:
            assert not NEGATIVE.search(str(frame)), frame
        assert {each["type"] for each in said} >= {"QUEUED", "REFUSED", "STATUS_REPLY", "ME_REPLY", "INBOX_REPLY"}


async def test_a_holder_thought_that_time_had_stood_still_while_the_machine_slept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CLOCK_MONOTONIC stops in suspend; what deadlines are counted by may not."""
    slept_s = 3_600
    real = time.clock_gettime_ns

    def after_a_sleep(clock: int) -> int:
        return real(clock) + (slept_s * 10**9 if clock == time.CLOCK_BOOTTIME else 0)

    steady = system_clock.SystemClock()
    before = steady.mono_ms()
    monkeypatch.setattr(time, "clock_gettime_ns", after_a_sleep)
    assert steady.mono_ms() - before >= slept_s * 1000
