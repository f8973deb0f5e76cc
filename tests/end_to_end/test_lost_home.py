"""A supervisor whose home is taken away leaves by itself, though nobody says a word to it; and rests until then."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.end_to_end.playground import WAIT_S, Bus, ends


def delete(home: Path) -> None:
    """As `rm -rf`, again where the supervisor, which leaves meanwhile, has still written something."""
    while home.exists():
        shutil.rmtree(home, ignore_errors=True)


LOSSES: dict[str, Callable[[Path], object]] = {
    "deleted": delete,
    "moved": lambda home: home.rename(home.with_name("elsewhere")),
    "lock deleted": lambda home: (home / "bus.lock").unlink(),
    "lock replaced": lambda home: (home / "new").replace(home / "bus.lock"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="noticed by inotify; elsewhere when somebody connects")
@pytest.mark.parametrize("loss", LOSSES)
def test_a_supervisor_without_its_home_leaves_in_order(bus: Bus, loss: str) -> None:
    # given
    running = bus.start("up", "--foreground")
    running.err.until("ready")
    pid = bus.supervisor()
    (bus.home / "new").touch()
    os.chmod(bus.home / "bus.lock", 0o600)  # looked at, and nothing is wrong
    bus.ok("request", "machine/x", agent="A")
    assert bus.supervisor() == pid
    # when
    LOSSES[loss](bus.home)
    # then
    assert running.end(WAIT_S).code == 0
    assert ends(pid)
    assert not (bus.home / "bus.sock").exists()
    assert bus.home.exists() == loss.startswith("lock")
