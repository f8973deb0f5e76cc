"""A server of other people ends whatever it does, and one that is not there is told how to come by."""

import sys
from pathlib import Path

import psutil
import pytest
from scripts.benching.others import server
from scripts.benching.others.server import NotInstalled, OwnServer, find

DEAF = (
    "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "child = subprocess.Popen(['sleep', '600']); print('up', flush=True); child.wait()"
)


def test_a_server_that_does_not_listen_to_its_end_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "END_S_MAX", 0.1)
    log = tmp_path / "log"

    def is_up() -> None:
        if log.read_text() != "up\n":
            raise OSError("not yet")

    with OwnServer([sys.executable, "-c", DEAF], log, is_up) as deaf:
        processes = [psutil.Process(pid) for pid in deaf.pids()]
        assert len(processes) == 2
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert not alive


def test_a_server_that_does_not_come_up_says_its_last_line(tmp_path: Path) -> None:
    def is_up() -> None:
        raise OSError("refused")

    failing = OwnServer(
        [sys.executable, "-c", "print('one', flush=True); raise SystemExit('no room')"], tmp_path / "log", is_up
    )
    with pytest.raises(RuntimeError, match=r"did not come up \(refused\): \['no room'\]"), failing:
        pass


def test_a_program_is_found_in_its_folders_or_is_told_how_to_install(tmp_path: Path) -> None:
    program = tmp_path / "some-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find("some-server", "apt-get install some-server", [tmp_path]) == str(program)
    with pytest.raises(NotInstalled, match="apt-get install some-server"):
        find("some-server", "apt-get install some-server")
