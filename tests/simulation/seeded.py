"""What the product draws from the system comes from the seed while a story is told."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch


@contextmanager
def seeded_ids(chance: random.Random) -> Iterator[None]:
    """Ids, which are made of chance and time, and of nothing else of `os` and `time`."""
    loop = asyncio.get_running_loop()
    times = SimpleNamespace(time=lambda: 1_800_000_000 + loop.time())
    with patch("interlock.coordinator.ids._chance", chance), patch("interlock.coordinator.ids.time", times):
        yield


@contextmanager
def snapshots_often(chance: random.Random) -> Iterator[None]:
    with patch("interlock.coordinator.journal.SNAPSHOT_EVERY_RECORDS", chance.choice([3, 20, 10_000])):
        yield
