"""`bus uninstall`: shows, asks, refuses while somebody would lose something, and leaves nothing behind."""

import shutil
from pathlib import Path

from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import Bus, Repository, server_config
from tests.end_to_end.terminal import at_terminal

from interlock.adapters import paths
from interlock.adapters.homes import socket_path
from interlock.adapters.kept_list import now
from interlock.adapters.trust import LocalRepositories
from interlock.coordinator.repositories import Trusted


def test_it_refuses_asks_and_then_leaves_nothing_behind(
    bus: Bus, home: Home, port: int, repository: Repository
) -> None:
    # given: a server, a service, completion, and a file of the user's own in the home
    home.write(server_config(port))
    (bus.home / "notes.txt").write_text("mine\n")
    one = repository.worktree("one")
    before = {path for path in bus.folder.rglob("*") if ".git" not in path.parts}
    bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    bus.ok("completion", "bash", "--install")
    bus("up", "--install-service")  # written, and enabled where there is a service manager
    # then: held
    done = bus("uninstall", "--yes")
    assert (done.code, "machine/server-loop is held by A" in done.err) == (75, True)
    bus.ok("down")
    assert bus("uninstall", "--yes").code == 75
    assert bus("status").code == 69  # it is down as before
    bus.ok("up")
    bus.ok("release", agent="A")
    # then: not at a terminal
    done = bus("uninstall")
    assert (done.code, "--yes" in done.err) == (64, True)
    # then: a person says no
    seen = at_terminal(bus, "uninstall", keys=b"n\r", when="[y/N]")
    assert (seen.code, "nothing was removed" in seen.screen, "notes.txt is not of bus" in seen.screen) == (
        75,
        True,
        True,
    )
    assert (bus.home / "bus.db").exists()
    # when
    seen = at_terminal(bus, "uninstall", keys=b"y\r", when="[y/N]")
    # then
    assert seen.code == 0, seen.screen
    assert not bus.processes()
    made = {path for path in bus.folder.rglob("*") if ".git" not in path.parts} - before
    left = {path for path in made if not path.is_dir()} - {one / "started"}
    assert not left, left
    assert [path.name for path in bus.home.iterdir()] == ["notes.txt"]
    # when: again
    assert bus.ok("uninstall", "--yes").startswith("nothing of a bus")


def test_a_home_that_is_none_is_left_alone(bus: Bus) -> None:
    """BUS_HOME may be set to anything: only what a bus makes is removed, and only from a home of a bus."""
    for name in ("log", "launches"):
        (bus.home / name).mkdir(parents=True)
        (bus.home / name / "mine").write_text("mine\n")
    assert bus.ok("uninstall", "--yes").startswith("nothing of a bus")
    assert (bus.home / "log" / "mine").exists()


def test_what_still_runs_is_not_left_without_its_home(bus: Bus, home: Home) -> None:
    # given
    running = bus.start("run", "--resource", "machine/x", "--", "sh", "-c", "echo up; exec sleep 600", agent="A")
    running.out.until("up")
    # when
    done = bus("uninstall", "--yes", "--anyway")
    # then
    assert (done.code, "keeper pid" in done.err) == (75, True)
    assert (bus.home / "launches").is_dir()
    # when
    running.kill(15)
    running.end()
    bus.ok("uninstall", "--yes", "--anyway")
    assert not bus.home.exists()


def test_a_short_directory_s_socket_goes_too(bus: Bus) -> None:
    bus.home = bus.folder / ("x" * 120)
    bus.environment["BUS_HOME"] = str(bus.home)
    bus.ok("up")
    socket = Path(socket_path(str(bus.home)))
    assert socket.is_socket()
    assert socket.parent != bus.home
    bus.kill_supervisor()  # which leaves it there
    removed = bus("uninstall", "--yes", "--json").json["removed"]
    assert str(bus.home / "bus.db") in removed
    assert not socket.exists()
    assert not bus.home.exists()


def test_all_that_a_used_home_holds_is_known_and_goes(bus: Bus, home: Home, port: int, repository: Repository) -> None:
    """Servers, windows, commands, folders, state files, trust, a backup, a database set aside, what a crash leaves."""
    # given
    window = 'terminal = "tmux"\n' if shutil.which("tmux") else ""
    home.write(server_config(port, more=window))
    bus.ok("request", "server-loop", "--wait", "20s", cwd=repository.worktree("one"), agent="A")
    bus.ok("run", "--resource", "machine/x", "--", "true", agent="B")
    bus.ok("join", "C", "--files")
    bus.ok("backup", str(bus.folder / "copy.db"))
    LocalRepositories(paths.Home(bus.home)).trust(Trusted("0" * 32, "/x/.git", "/x/bus.toml", "0" * 64, now()))
    for left in (".trusted.json.0011", ".backup-0011", ".backup-0012.part"):
        (bus.home / left).touch()
    bus.ok("release", agent="A")
    bus.ok("down", "--stop-servers")
    bus.ok("up", "--recover")
    # then
    found = [each["about"] for each in bus("doctor", "--quick", "--json").json["findings"]]
    assert "recovery" in found
    assert "foreign" not in found
    assert {"tmux"} <= {path.name for path in bus.home.iterdir()} or not window
    assert any(".aside-" in path.name for path in bus.home.iterdir())
    # when
    (bus.home / "bus.toml.mine").touch()
    bus.ok("uninstall", "--yes", "--anyway")
    # then
    assert [path.name for path in bus.home.iterdir()] == ["bus.toml.mine"]
