"""Faults of asyncio and anyio that cost others locks: what they hang on is not used here. The cases: index.md."""

import re
from pathlib import Path

import pytest
from tests.coordinator.bus import Bus, settled
from tests.museum.looking import KEY, holders

ROOT = Path(__file__).parents[2]
LOSE = {
    "asyncio.wait_for": "it can hide a cancellation, or lose what it waited for: anyio.fail_after",
    "asyncio.create_subprocess_exec": "cancelled, it can hang the loop: the keeper, by subprocess.Popen",
    "asyncio.create_subprocess_shell": "cancelled, it can hang the loop: the keeper, by subprocess.Popen",
    "anyio.open_process": "cancelled, it can hang the loop: the keeper, by subprocess.Popen",
    "anyio.run_process": "cancelled, it can hang the loop: the keeper, by subprocess.Popen",
    "asyncio.run_coroutine_threadsafe": "given up, its coroutine goes on: the blocking client's own portal",
    "asyncio.Lock": "a waiter that is cancelled can lose the wake-up: decisions need no lock",
    "asyncio.Condition": "a waiter that is cancelled can lose the wake-up: an anyio.Event",
    "asyncio.Semaphore": "a waiter that is cancelled can lose the wake-up: the resource machine's own queue",
    "anyio.Condition": "a waiter that is cancelled can lose the wake-up: an anyio.Event",
    "anyio.Semaphore": "a waiter that is cancelled can lose the wake-up: the resource machine's own queue",
}
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("folder", ["protocol", "coordinator", "adapters"])
def test_a_cancelled_wait_lost_a_wake_up_or_hid_the_cancellation(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        text = path.read_text()
        used = [name for name in LOSE if name in text and re.search(rf"\b{re.escape(name)}\b", text)]
        assert not used, f"{path}: {used[0]}: {LOSE[used[0]]}"
        named = re.search(r"^from (asyncio|anyio) import ", text, re.MULTILINE)
        assert not named, f"{path}: import {named and named[1]} and say where a name comes from"


@pytest.mark.parametrize("late", [False, True])
async def test_a_grant_to_a_waiter_that_was_just_cancelled_was_lost(bus: Bus, late: bool) -> None:
    """Given back and called off in the same moment, in either order: the next one has it."""
    async with bus.running():
        a, b, c = (bus.client(name) for name in "abc")
        for client in (a, b, c):
            await client.ask(f"REQUEST {KEY} -")
        acts = [(a, f"RELEASE {KEY}"), (b, f"RELEASE {KEY}" if late else f"CANCEL {KEY}")]
        ids = [(who, await who.post(text)) for who, text in (acts if late else reversed(acts))]
        for who, each in ids:
            assert (await who.answer(each))["body"]["type"] in {"RELEASED", "CANCELLED"}
        await settled()
        assert holders(bus) == ["c"]
