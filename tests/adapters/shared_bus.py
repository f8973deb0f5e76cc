"""One bus for all tests of a file: each uses names and keys of its own, so that none depends on another."""

import contextlib
from collections.abc import Iterator

from tests.end_to_end.conftest import Home, a_bus
from tests.end_to_end.playground import Bus


@contextlib.contextmanager
def shared_bus(toml: str = "") -> Iterator[Bus]:
    """A running bus; at the end nothing of it may be left. Args: toml: its configuration."""
    with a_bus() as bus:
        Home(bus.home).write(toml)
        bus.ok("up")
        yield bus
