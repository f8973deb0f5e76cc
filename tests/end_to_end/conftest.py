"""Each test here has a bus of its own: a short folder, a port, and a check at the end that nothing of it is left."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import scratch
from tests.end_to_end.playground import Bus, Follower, Repository, free_port


class Home:
    """A fresh BUS_HOME. `write` makes its bus.toml."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(mode=0o700)

    def write(self, toml: str) -> None:
        (self.root / "bus.toml").write_text(toml)


@contextlib.contextmanager
def a_bus() -> Iterator[Bus]:
    """The command in its own folder; everything it started must be gone at the end."""
    with scratch.folder(ignore_cleanup_errors=True) as folder:
        bus = Bus(folder)
        try:
            yield bus
        finally:
            left = bus.clean_up()
        assert not left, f"still there after bus down --stop-servers: {left}"


@pytest.fixture
def bus() -> Iterator[Bus]:
    """One for a test."""
    with a_bus() as bus:
        yield bus


@pytest.fixture
def home(bus: Bus) -> Home:
    return Home(bus.home)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def repository(bus: Bus) -> Repository:
    return Repository(bus)


@pytest.fixture
def follow(bus: Bus) -> Callable[[], Follower]:
    """Starts a follower of the whole log, when the test wants one."""
    return lambda: Follower(bus)
