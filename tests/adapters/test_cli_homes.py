"""Homes, start and stop, and a configuration that is wrong: what cannot be is one sentence, and nothing is begun."""

import json
import os
from pathlib import Path

import psutil
import pytest
from tests.end_to_end.conftest import bus
from tests.end_to_end.playground import WAIT_S, Bus, alive

from interlock.adapters.paths import BadHome, Home

__all__ = ["bus"]  # the fixture: each of these needs a home of its own


def test_autostart_can_be_forbidden_and_then_nothing_is_made(bus: Bus) -> None:
    done = bus("status", env={"BUS_AUTOSTART": "0"})
    assert (done.code, "bus up" in done.err) == (69, True)
    assert not bus.home.exists()


def test_after_bus_down_only_bus_up_starts_it_again(bus: Bus) -> None:
    # given
    bus.ok("status")
    pid = bus.supervisor()
    assert f"pid {pid}" in bus.ok("down")
    # then
    assert not alive(pid)
    assert bus("status").code == 69
    assert "bus up" in bus("request", "machine/x", agent="A").err
    assert bus.ok("down").strip() == "not running"
    # when
    bus.ok("up")
    # then
    bus.ok("status")
    assert bus.ok("up").startswith("already running")
    assert bus("up", "--json").json["started"] is False


def test_a_supervisor_stands_alone_whoever_started_it(bus: Bus) -> None:
    """For real, and not as a fork: of its starter it keeps no session, folder, stream or agent's environment."""
    # when
    command = bus.start("up", env={"BUS_AGENT": "ann", "BUS_TOKEN": "t", "SECRET": "s"})
    # then: who waits for the command's output waits for nobody else
    assert command.end().code == 0
    pid = bus.supervisor()
    assert os.getsid(pid) not in {os.getsid(0), command.pid}
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in range(3)] == [os.devnull] * 3
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert not [name for name in (b"BUS_AGENT=", b"BUS_TOKEN=", b"SECRET=") if name in environment]
    assert bus.status("machine/x")["state"] == "free"


def test_nothing_is_lost_over_down_and_up(bus: Bus) -> None:
    # given
    bus.ok("request", "machine/x", "--for", "mine", agent="A")
    assert bus("request", "machine/x", agent="B").code == 75
    bus.ok("send", "B", "still here?", agent="A")
    before = bus.status("machine/x")
    # when
    bus.ok("down")
    bus.ok("up")
    # then
    after = bus.status("machine/x")
    assert after["fence"] == before["fence"]
    assert [each["agent"] for each in after["queue"]] == ["B"]
    assert "still here?" in bus.ok("inbox", agent="B")


@pytest.mark.parametrize("home", ["/etc/hostname", "/etc/hostname/x", "/proc/x"])
@pytest.mark.parametrize("verb", ["up", "status"])
def test_a_home_that_cannot_be_is_one_sentence(bus: Bus, home: str, verb: str) -> None:
    done = bus("--home", home, verb)
    assert done.code == 73
    assert len(done.err.splitlines()) == 1
    assert "set BUS_HOME to a directory of yours" in done.err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_somebody_elses_home_is_refused(bus: Bus) -> None:
    bus.home.mkdir(mode=0o755)
    os.chown(bus.home, 12345, -1)
    done = bus("up")
    assert (done.code, "belongs to user 12345" in done.err) == (73, True)


@pytest.mark.parametrize("name", ["log", "launches", "bus.db", "bus.lock", "bus.toml", "bus.down"])
def test_nothing_in_a_home_is_followed_through_a_link(bus: Bus, name: str) -> None:
    # given
    bus.home.mkdir(mode=0o700)
    victim = bus.folder / "victim"
    victim.mkdir() if name in {"log", "launches"} else victim.write_text("mine\n")
    (bus.home / name).symlink_to(victim)
    # when
    done = bus("status") if name == "bus.down" else bus("up")
    # then
    assert done.code in ({69} if name == "bus.down" else {73})
    assert len(done.err.splitlines()) == 1
    assert (list(victim.iterdir()) if victim.is_dir() else victim.read_text()) in ([], "mine\n")


def test_a_home_behind_a_link_and_one_that_is_too_open_work(bus: Bus) -> None:
    """As `/tmp` and `/var` are links on some systems: the home is its real path, whatever it is called by."""
    # given
    bus.home.mkdir()
    bus.home.chmod(0o777)
    link = bus.folder / "link"
    link.symlink_to(bus.home)
    # when
    bus.ok("up", env={"BUS_HOME": str(link)})
    # then
    assert bus("up", "--json").json["home"] == str(bus.home)
    assert bus.home.stat().st_mode & 0o777 == 0o700


def test_a_home_with_a_path_too_long_for_a_socket_works(bus: Bus) -> None:
    # given
    long = bus.folder / ("x" * (150 - len(str(bus.folder)) - 1))
    assert len(str(long)) == 150
    bus.home = long
    bus.environment["BUS_HOME"] = str(long)
    # when
    bus.ok("request", "machine/x", agent="A")
    # then
    path = Path(json.loads((long / "bus.lock").read_text())["socket"])
    assert len(str(path)) < 100
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"garbage\n", b'{"pid": 1}\n', b"\xff\x00" * 100])
def test_what_the_lock_file_says_decides_nothing(bus: Bus, content: bytes) -> None:
    bus.home.mkdir(mode=0o700)
    (bus.home / "bus.lock").write_bytes(content)
    bus.ok("up")
    assert bus.supervisor() != 1


def test_a_dead_supervisors_socket_is_in_nobodys_way(bus: Bus) -> None:
    bus.ok("up")
    dead = bus.kill_supervisor()
    assert (bus.home / "bus.sock").exists()
    bus.ok("status")
    assert bus.supervisor() != dead


def test_a_stopped_supervisor_is_alive_and_a_second_one_refuses(bus: Bus) -> None:
    # given
    bus.ok("up")
    supervisor = psutil.Process(bus.supervisor())
    supervisor.suspend()
    try:
        # when
        done = bus("up")
    finally:
        supervisor.resume()
    # then
    assert (done.code, str(supervisor.pid) in done.err) == (69, True)
    bus.ok("status")


def test_after_an_upgrade_bus_up_says_that_the_old_supervisor_still_runs(bus: Bus) -> None:
    # given: a supervisor of another version
    other = bus.folder / "other" / "interlock-9.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: interlock\nVersion: 9.9.9\n")
    bus.ok("up", env={"PYTHONPATH": str(other.parent)})
    bus.ok("request", "machine/x", agent="A")
    # when
    done = bus("up")
    # then
    assert (done.code, "version 9.9.9" in done.err, "bus down, then bus up" in done.err) == (0, True, True)
    # when
    bus.ok("down")
    assert bus("up").err == ""
    bus.ok("check", "machine/x", agent="A")


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('[bus]\npoll_evry = "3m"\n', "bus.toml:2: [bus] unknown key 'poll_evry'; did you mean 'poll_every'?"),
        ("[bus]\n\nkeep=\n", "bus.toml:3: not TOML"),
    ],
)
def test_a_wrong_configuration_is_said_at_the_start(bus: Bus, toml: str, says: str) -> None:
    # given
    bus.home.mkdir(mode=0o700)
    (bus.home / "bus.toml").write_text(toml)
    # then
    for words in (["up"], ["status"], ["up", "--foreground"]):
        done = bus(*words)
        assert done.code == 78
        assert says in done.err
        assert len(done.err.splitlines()) == 1 or words[-1] == "--foreground"


def test_a_wrong_change_keeps_the_last_good_configuration_and_is_said(bus: Bus) -> None:
    # given
    bus.home.mkdir(mode=0o700)
    toml = bus.home / "bus.toml"
    toml.write_text("[resources.first]\n")
    bus.ok("request", "first", agent="A")
    # when
    toml.write_text('[resources.first]\nkind = "srv"\n[resources.second]\n')
    # then
    done = bus("extend", "first", agent="A")
    assert done.code == 0
    assert "bus.toml:2" in done.err
    assert "last good configuration stays in force" in done.err
    assert bus("request", "second", agent="A").code == 64
    # when
    toml.write_text("[resources.first]\n[resources.second]\n")
    # then
    done = bus("request", "second", agent="A")
    assert (done.code, done.err) == (0, "")


def test_a_changed_definition_applies_when_the_resource_is_next_free(bus: Bus) -> None:
    # given
    bus.home.mkdir(mode=0o700)
    toml = bus.home / "bus.toml"
    toml.write_text('[resources.gpu]\nunits = ["0"]\n')
    bus.ok("request", "gpu", agent="A")
    # when
    toml.write_text('[resources.gpu]\nunits = ["0", "1"]\n')
    # then
    assert bus("request", "gpu", agent="B").code == 75
    # when
    bus.ok("release", "gpu", agent="A")
    bus.ok("wait", "gpu", "--timeout", "5s", agent="B")
    bus.ok("request", "gpu", "--wait", "5s", agent="C")
    # then
    assert {each["unit"] for each in bus.status("gpu")["holders"]} == {"0", "1"}


def test_a_foreground_supervisor_ends_with_ctrl_c(bus: Bus) -> None:
    running = bus.start("up", "--foreground")
    running.out.until("up: home")
    bus.ok("status")
    running.kill(2)
    assert running.process.wait(WAIT_S) == 0


@pytest.mark.parametrize("name", ["log", "launches", "shared-resources"])
def test_what_is_in_the_way_of_a_folder_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("in the way")
    with pytest.raises(BadHome, match=rf"^cannot create {tmp_path}/{name} \(File exists\)"):
        Home(tmp_path).create()
