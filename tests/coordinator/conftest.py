"""Every test here runs in virtual time, so waiting costs nothing and order never changes."""

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.coordinator.bus import Bus, FakeEffects
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.virtual_time import VirtualClock, VirtualLoop


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    """What was logged, instead of printing it."""
    with capture_logs() as entries:
        yield entries


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def effects() -> FakeEffects:
    return FakeEffects()


@pytest.fixture
def bus(store: MemoryStore, clock: VirtualClock, effects: FakeEffects) -> Bus:
    return Bus(store, effects=effects, clock=clock)
