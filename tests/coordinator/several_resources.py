"""A bus with a few locks and a pool, for tests of what concerns several of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from tests.coordinator.bus import Bus, Client, FakeCaller, process, replayed

CONFIG = """[resources.a]
[resources.b]
[resources.c]
[resources.pool]
units = ["0", "1"]
"""


def agents(bus: Bus, *names: str) -> list[Client]:
    return [bus.client(name, FakeCaller(process())) for name in names]


@asynccontextmanager
async def lived(bus: Bus) -> AsyncIterator[Bus]:
    """It runs; at the end, what was lived is what is replayed."""
    with anyio.fail_after(600):
        async with bus.running():
            yield bus
            await bus.supervisor.dispatcher.quiet()
            assert (await replayed(bus.store)).encode() == bus.supervisor.world.encode()
