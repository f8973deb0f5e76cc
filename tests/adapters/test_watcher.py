"""The process watcher: each who watches hears of an end, once; who has let go does not, and nothing of it is left."""

import contextlib
import os
import signal
import sys

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.adapters.launching import known
from tests.polling import until_true

from interlock.adapters.watcher import Watcher

pytestmark = pytest.mark.anyio


def pidfds() -> int:
    """How many this process has open."""
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # it was open for the listing itself
            found += "pidfd" in os.readlink(f"/proc/self/fd/{fd}")
    return found


async def test_who_watches_hears_of_the_end_and_who_has_let_go_does_not() -> None:
    heard = list[str]()
    async with anyio.create_task_group() as tasks, await anyio.open_process(["sleep", "60"]) as process:
        watcher, identity = Watcher(tasks), known(process.pid)
        watcher.watch(identity, lambda: heard.append("one"))
        let_go = watcher.watch(identity, lambda: heard.append("two"))
        watcher.watch(identity, lambda: heard.append("three"))
        let_go()
        let_go()
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await until_true(lambda: len(heard) == 2)
    assert heard == ["one", "three"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and counts pidfds")
async def test_who_is_let_go_by_all_is_watched_no_longer_and_can_be_again() -> None:
    heard = list[str]()
    async with anyio.create_task_group() as tasks, await anyio.open_process(["sleep", "60"]) as process:
        watcher, identity, before = Watcher(tasks), known(process.pid), pidfds()
        for begun in (False, True):
            let_go = watcher.watch(identity, lambda: heard.append("never"))
            if begun:
                await until_true(lambda: pidfds() == before + 1)
            let_go()
            await until_true(lambda: pidfds() == before)
        watcher.watch(identity, lambda: heard.append("never"))()
        watcher.watch(identity, lambda: heard.append("at last"))
        await checkpoint()
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await until_true(lambda: heard)
    assert heard == ["at last"]
