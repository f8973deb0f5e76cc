"""Most exhibits run in virtual time, on a bus in memory; `real` is one running bus for those that need a machine."""

from collections.abc import Iterator

import pytest
from tests.adapters.peer import Peer
from tests.adapters.shared_bus import shared_bus
from tests.coordinator.conftest import anyio_backend, bus, clock, effects, logged, store  # noqa: F401 - fixtures
from tests.end_to_end.playground import Bus


@pytest.fixture(scope="session")
def real() -> Iterator[Bus]:
    with shared_bus() as running:
        yield running


@pytest.fixture
def peer(real: Bus) -> Iterator[Peer]:
    with Peer(str(real.home / "bus.sock")) as peer:
        yield peer
