"""Starts, sockets and supervisors that stood in each other's way or said nothing. The cases: index.md."""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests import scratch
from tests.adapters.peer import Peer, body
from tests.end_to_end import conftest
from tests.end_to_end.playground import BUS, WAIT_S, Bus, ends, together

from interlock.adapters.cli import connection, tail
from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, Options

own_bus = conftest.bus  # one of a test's own, to be killed
HELLO = b'{"welcome": {"agent": "a", "notices": []}}\n'


def test_a_pid_in_a_lock_file_that_somebody_else_has_now_forbade_every_start(own_bus: Bus) -> None:
    own_bus.home.mkdir(mode=0o700)
    facts = {"pid": os.getpid(), "start_ticks": 1, "boot": "x", "socket": "/nowhere"}
    (own_bus.home / "bus.lock").write_text(json.dumps(facts))
    own_bus.ok("status")
    assert own_bus.supervisor() != os.getpid()
    assert psutil.pid_exists(os.getpid())


def test_what_a_killed_daemon_left_kept_the_next_one_out_or_let_two_in(own_bus: Bus) -> None:
    own_bus.ok("request", "machine/x", agent="A")
    dead = own_bus.kill_supervisor()
    pids = together([lambda: own_bus("up", "--json").json["pid"] for _ in range(5)])
    assert len(set(pids)) == 1
    assert dead not in pids
    own_bus.ok("check", "machine/x", agent="A")


def test_a_daemon_that_ended_late_removed_the_next_ones_socket(own_bus: Bus) -> None:
    own_bus.ok("up")
    path = own_bus.home / "bus.sock"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as successor:
        successor.bind(str(path))
        inode = path.stat().st_ino
        os.kill(own_bus.supervisor(), 15)
        assert psutil.wait_procs([psutil.Process(own_bus.supervisor())], WAIT_S)[0]
        assert path.stat().st_ino == inode
    path.unlink()


def test_the_socket_was_open_to_others_for_a_moment(own_bus: Bus) -> None:
    subprocess.run(
        ["sh", "-c", 'umask 0; exec "$0" up', str(BUS)], env=own_bus.environment, cwd=own_bus.folder, check=True,
        capture_output=True, timeout=WAIT_S,
    )  # fmt: skip
    for path in (own_bus.home, *own_bus.home.rglob("*")):
        assert not path.stat().st_mode & 0o077, path


def test_it_listened_on_the_network(real: Bus) -> None:
    supervisor = psutil.Process(real.supervisor())
    for process in (supervisor, *supervisor.children(recursive=True)):
        assert process.net_connections("inet") == []


def test_without_free_descriptors_the_listener_closed_and_holders_were_forgotten(real: Bus, peer: Peer) -> None:
    supervisor, path = psutil.Process(real.supervisor()), str(real.home / "bus.sock")
    peer.hello("b59")
    assert body(peer.ask(to="coordinator", text="REQUEST machine/b59 -"))["type"] == "GRANTED"
    _, hard = before = supervisor.rlimit(psutil.RLIMIT_NOFILE)
    supervisor.rlimit(psutil.RLIMIT_NOFILE, (supervisor.num_fds() + 10, hard))
    crowd = [socket.socket(socket.AF_UNIX) for _ in range(100)]
    try:
        for each in crowd:
            each.connect(path)
        for _ in range(20):
            assert body(peer.ask(to="coordinator", text="EXTEND machine/b59"))["type"] == "EXTENDED"
    finally:
        for each in crowd:
            each.close()
        supervisor.rlimit(psutil.RLIMIT_NOFILE, before)
    with Peer(path) as later:
        later.hello("b59-later")
        assert body(later.ask(to="coordinator", text="REQUEST machine/b59 -"))["type"] == "QUEUED"


# --- one that does not answer ----------------------------------------------------------------
@pytest.fixture
def short_home() -> Iterator[Path]:
    with scratch.folder() as folder:
        yield folder


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 0.05)
    monkeypatch.setattr(connection, "AGAIN_S", 0.05)


@pytest.mark.usefixtures("impatient")
def test_clients_of_a_stopped_daemon_were_told_that_they_are_nobody(short_home: Path) -> None:
    """It takes connections, as the kernel does for it, and says nothing."""
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(short_home / "bus.sock"))
        stopped.listen()
        with pytest.raises(Failure, match="the supervisor does not answer") as failed:
            connection.Connection(Options("a", "--as", str(short_home))).open()
    assert failed.value.exit_code == 69


@pytest.mark.usefixtures("impatient")
def test_a_command_hung_for_ever_on_a_daemon_that_was_stopped_under_it(
    short_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Given, "options", Options("a", "--as", str(short_home)))
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(short_home / "bus.sock"))
        stopped.listen()

        def welcome() -> None:
            client, _ = stopped.accept()
            with client:
                client.sendall(HELLO)
                while client.recv(4096):
                    pass

        thread = threading.Thread(target=welcome, daemon=True)
        thread.start()
        with pytest.raises(Failure, match="the supervisor does not answer: bus tail again") as failed:
            tail.command(False, 0, "", "", None, "")  # type: ignore[arg-type]  # the default
    thread.join(WAIT_S)
    assert failed.value.exit_code == 69


# --- starts that fail --------------------------------------------------------------------------
def test_a_start_that_failed_left_a_process_and_said_nothing_of_use(own_bus: Bus) -> None:
    """Late in the start, when threads run: what is in the way is named, and nothing is left."""
    (own_bus.home / "bus.sock").mkdir(mode=0o700, parents=True)
    own_bus.home.chmod(0o700)
    for words in (["up"], ["up", "--foreground"]):
        done = own_bus(*words)
        assert done.code == 73, done
        said = done.err.splitlines()[-1]
        assert f"{own_bus.home}/bus.sock cannot be listened on (" in said
        assert "Traceback" not in done.err
        assert all(ends(each.pid) for each in own_bus.processes())
    (own_bus.home / "bus.sock").rmdir()
    own_bus.ok("status")
