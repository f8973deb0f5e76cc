"""The bus as a service of the login: files, the manager's commands, socket activation, and the way back."""

import fcntl
import json
import os
import plistlib
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import PYTHON, WAIT_S, Bus, Running, alive, ends

from interlock.adapters import paths
from interlock.adapters.login_service import LoginService, ServiceError

ACTIVATE = """
import os, sys
fd = int(sys.argv[1])
if fd != 3:
    os.dup2(fd, 3, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])
os.execv(sys.argv[3], sys.argv[3:])
"""


class Manager:
    """What systemd does with our two units: it listens, and starts the service for whoever connects."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.service = LoginService(paths.Home(bus.home), "linux")
        unit = next(text for path, text in self.service.files().items() if path.suffix == ".service")
        line = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
        self.command = shlex.split(line.removeprefix("ExecStart=").replace("%%", "%"))
        self.listening = socket.socket(socket.AF_UNIX)
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(str(bus.folder / "notify"))

    def listen(self, path: Path | None = None) -> None:
        """As systemd does: what is in the way goes."""
        path = path or self.bus.home / "bus.sock"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)
        self.listening.bind(str(path))
        self.listening.listen(128)

    def start(self, sockets: str = "1") -> Running:
        """Start the service with the socket, as the unit says."""
        environment = {**self.bus.environment, "NOTIFY_SOCKET": str(self.bus.folder / "notify")}
        environment.pop("BUS_HOME")
        fd = self.listening.fileno()
        os.set_inheritable(fd, True)
        process = subprocess.Popen(
            [str(PYTHON), "-c", ACTIVATE, str(fd), sockets, *self.command], env=environment, text=True, cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(fd,),
            start_new_session=True,
        )  # fmt: skip
        self.bus.started.append(process)
        return Running(process)

    def start_for_whoever_connects(self) -> Running:
        assert select.select([self.listening], [], [], WAIT_S)[0], "nobody has connected"
        return self.start()

    def until_told(self, what: str) -> None:
        """Wait for a message of the service that begins so."""
        self.notified.settimeout(WAIT_S)
        while not self.notified.recv(4096).startswith(what.encode()):
            pass

    def until_ready(self) -> None:
        self.until_told("READY=1")

    def close(self) -> None:
        self.listening.close()
        self.notified.close()


@pytest.fixture
def manager(bus: Bus) -> Iterator[Manager]:
    manager = Manager(bus)
    yield manager
    manager.close()


def test_a_connection_starts_the_service_and_restarts_lose_nothing(bus: Bus, manager: Manager) -> None:
    # given
    manager.listen()
    asking = bus.start("up")
    # when
    service = manager.start_for_whoever_connects()
    manager.until_ready()
    # then
    assert f"pid {service.pid}" in asking.end().out
    assert bus.supervisor() == service.pid
    bus.ok("request", "machine/x", agent="A")
    # when: systemctl --user restart
    service.kill(signal.SIGTERM)
    assert service.end().code == 0
    assert (bus.home / "bus.sock").is_socket()
    asking = bus.start("check", "machine/x", agent="A")
    service = manager.start_for_whoever_connects()
    # then: nobody has noticed
    assert asking.end().code == 0
    # when: it is killed, and a command comes before the next start
    service.kill(signal.SIGKILL)
    service.end()
    asking = bus.start("check", "machine/x", agent="A")
    service = manager.start_for_whoever_connects()
    assert asking.end().code == 0
    # when: bus down, and a stray connection all the same
    assert f"down: pid {service.pid}" in bus.ok("down")
    assert service.end().code == 0
    stray = socket.socket(socket.AF_UNIX)
    stray.connect(str(bus.home / "bus.sock"))
    done = manager.start_for_whoever_connects().end()
    # then
    assert (done.code, "bus up" in done.err) == (69, True)
    assert stray.recv(1) == b""
    assert not select.select([manager.listening], [], [], 0)[0]
    stray.close()


def test_an_activated_service_takes_over_from_one_whose_socket_it_was_given(bus: Bus, manager: Manager) -> None:
    # given: a supervisor of the old kind, whose path the manager takes: nobody can reach it any more
    bus.ok("request", "machine/x", agent="A")
    old = bus.supervisor()
    manager.listen()
    # when
    service = manager.start()
    # then
    manager.until_ready()
    assert ends(old)
    assert bus.supervisor() == service.pid
    bus.ok("check", "machine/x", agent="A")


def test_an_activated_service_signals_nobody_on_the_word_of_a_file(bus: Bus, manager: Manager) -> None:
    # given: the lock is held, and its file names a process that never was a supervisor
    bus.home.mkdir(mode=0o700)
    stranger = bus.launch(["sleep", "600"])
    (bus.home / "bus.lock").write_text(json.dumps({"pid": stranger.pid, "start_ticks": 1, "boot": "x"}))
    with (bus.home / "bus.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        manager.listen()
        service = manager.start()
        manager.until_told("STATUS=waiting")
    # then
    manager.until_ready()
    assert bus.supervisor() == service.pid
    assert alive(stranger.pid)


@pytest.mark.parametrize(
    ("path", "sockets", "says"), [("other.sock", "1", "other.sock"), ("bus.sock", "2", "2 sockets")]
)
def test_a_socket_that_is_not_ours_is_not_served(
    bus: Bus, manager: Manager, path: str, sockets: str, says: str
) -> None:
    bus.home.mkdir(mode=0o700)
    manager.listen(bus.home / path)
    done = manager.start(sockets).end()
    assert (done.code, says in done.err, len(done.err.splitlines())) == (78, True, 1)
    assert not (bus.home / "bus.db").exists()


@contextmanager
def systemctl(bus: Bus, script: str) -> Iterator[Path]:
    """A systemctl that notes what it is asked. Its notes."""
    folder, notes = bus.folder / "bin", bus.folder / "notes"
    folder.mkdir()
    (folder / "systemctl").write_text(f'#!/bin/sh\necho "$*" >> {notes}\n{script}\n')
    (folder / "systemctl").chmod(0o755)
    bus.environment["PATH"] = f"{folder}:{bus.environment['PATH']}"
    yield notes


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_install_hands_over_says_how_to_undo_it_and_is_undone(bus: Bus, home: Home) -> None:
    with systemctl(bus, 'case "$*" in *is-active*) exit 3;; esac') as notes:
        # given
        bus.ok("request", "machine/x", agent="A")
        before = bus.supervisor()
        # when
        said = bus.ok("up", "--install-service")
        # then
        assert not alive(before)
        assert "bus up --uninstall-service" in said
        units = sorted((bus.folder / ".config/systemd/user").iterdir())
        name = units[0].stem
        assert [unit.name for unit in units] == [f"{name}.service", f"{name}.socket"]
        assert f"--user enable --now {name}.socket" in notes.read_text()
        assert f"ListenStream={bus.home}/bus.sock\n" in units[1].read_text()
        assert "KillMode=process\n" in units[0].read_text()
        bus.ok("check", "machine/x", agent="A")
        # when: again
        assert "as it was" in bus.ok("up", "--install-service")
        # when
        bus.ok("down")
        assert notes.read_text().endswith(f"--user stop {name}.socket\n")
        bus.ok("up")
        assert f"--user start {name}.socket\n" in notes.read_text()
        # when
        bus.ok("up", "--uninstall-service")
        # then
        assert f"--user disable --now {name}.socket {name}.service" in notes.read_text()
        assert not [unit for unit in units if unit.exists()]
        assert bus.ok("up", "--uninstall-service").startswith("no service")


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_where_the_manager_does_not_answer_it_is_said_and_undone_all_the_same(bus: Bus, home: Home) -> None:
    with systemctl(bus, "echo 'Failed to connect to bus: No medium found' >&2; exit 1"):
        done = bus("up", "--install-service")
        assert (done.code, "Failed to connect to bus" in done.err, len(done.err.splitlines())) == (69, True, 1)
        bus.ok("up", "--uninstall-service")
        assert not list((bus.folder / ".config/systemd/user").iterdir())


def test_no_file_of_others_is_overwritten_or_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    service = LoginService(paths.Home(tmp_path / "bus"), "linux")
    theirs = next(iter(service.files()))
    theirs.parent.mkdir(parents=True)
    theirs.write_text("[Socket]\n")
    with pytest.raises(ServiceError, match="move it away"):
        service.write()
    assert service.remove() == []
    assert theirs.read_text() == "[Socket]\n"
    assert len(list(theirs.parent.iterdir())) == 1


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not there")
def test_systemd_takes_the_units_of_a_home_with_an_odd_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    service = LoginService(paths.Home(tmp_path / 'my %h "bus" $HOME \\x'), "linux")
    service.write()
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", *map(str, service.files())], env=environment, text=True,
        capture_output=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert (done.returncode, [line for line in done.stderr.splitlines() if "interlock" in line]) == (0, [])


def test_the_launch_agent_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    service = LoginService(paths.Home(tmp_path / "a <b> & c"), "darwin")
    service.write()
    (path,) = service.files()
    agent = plistlib.loads(path.read_bytes())
    assert path.parent == tmp_path / "Library/LaunchAgents"
    assert agent["ProgramArguments"][-4:] == ["--home", str(tmp_path / "a <b> & c"), "up", "--as-service"]
    assert (agent["RunAtLoad"], agent["KeepAlive"], agent["AbandonProcessGroup"]) == (
        True,
        {"SuccessfulExit": False},
        True,
    )
    assert service.installed()
    assert not service.write()
    assert service.remove() == [path]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("name", [b"\xff", b"a\nb", b"a\x85b", b"\x01"])
def test_a_home_whose_name_is_no_visible_text_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes, platform: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    service = LoginService(paths.Home(tmp_path / os.fsdecode(name)), platform)
    with pytest.raises(ServiceError, match="visible characters"):
        service.write()
    assert not list(tmp_path.rglob("*interlock*"))
