"""One bus for all tests of a file: each uses names and keys of its own, so that none depends on another."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.end_to_end.playground import Bus
from tests.scratch import SCRATCH


@contextlib.contextmanager
def shared_bus(toml: str = "") -> Iterator[Bus]:
    """A running bus; at the end nothing of it may be left. Args: toml: its configuration."""
    with tempfile.TemporaryDirectory(prefix="ilk-", dir=SCRATCH, ignore_cleanup_errors=True) as folder:
        bus = Bus(Path(os.path.realpath(folder)))
        bus.home.mkdir(mode=0o700)
        (bus.home / "bus.toml").write_text(toml)
        bus.ok("up")
        try:
            yield bus
        finally:
            left = bus.clean_up()
        assert not left, f"still there: {left}"
