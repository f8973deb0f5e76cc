"""Starting a supervisor: whoever needs one has one, also in the moment in which the last one is still being killed."""

import json
import os
from pathlib import Path

import pytest

from interlock.adapters.cli import starting
from interlock.adapters.paths import Home


def test_who_is_deaf_and_gone_when_looked_at_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It no longer listened, and had its lock yet: the next one left, and nobody began another for twenty seconds."""
    home = Home(tmp_path / "bus")
    home.create()
    home.lock.write_text(json.dumps({"pid": 2**22 - 1, "start_ticks": 1, "boot": "another"}))
    words = iter([b"RUNNING\n", b"RUNNING\n", b"READY 1\n"])
    monkeypatch.setattr(starting, "start_process", lambda home, fd: os.write(fd, next(words)))
    monkeypatch.delenv("BUS_LAUNCH", raising=False)
    assert starting.start(home)
    assert not list(words)
