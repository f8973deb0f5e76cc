"""Waiting for what tells nobody: a file, a process that is not our child. The one place where a test may sleep.

It looks again and again, and fails at a deadline that only a test that fails ever reaches. Wait for an event instead
wherever there is one: a line, a frame, an exit, `Follower.until`.
"""

import time
from collections.abc import Awaitable, Callable

import anyio

WAIT_S = 60  # a machine under load is slow; nobody waits so long for what comes
LOOK_S = 0.01


def until(is_true: Callable[[], object], what: Callable[[], object] = lambda: "it") -> None:
    """Look until it is true.

    Args:
        is_true: anything that is true in the end. what: what there is instead, for the message of a failure.
    """
    end = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < end, f"not true within {WAIT_S} s: {what()}"
        time.sleep(LOOK_S)


def pause(seconds: float = LOOK_S) -> None:
    """Between two looks of a client that has nothing else, and looks for as long as it lives."""
    time.sleep(seconds)


async def until_true(is_true: Callable[[], object], what: Callable[[], object] = lambda: "it") -> None:
    """The same, while others run."""
    end = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < end, f"not true within {WAIT_S} s: {what()}"
        await anyio.sleep(LOOK_S)


async def until_said(ask: Callable[[], Awaitable[object]], wanted: object) -> None:
    """Ask until that is the answer."""
    end = time.monotonic() + WAIT_S
    while (answer := await ask()) != wanted:
        assert time.monotonic() < end, f"not {wanted!r} within {WAIT_S} s: {answer!r}"
        await anyio.sleep(LOOK_S)
