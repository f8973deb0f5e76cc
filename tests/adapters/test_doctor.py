"""Each finding of the doctor, on a home that is broken in that one way; and that a whole one has none."""

import contextlib
import fcntl
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import scratch
from tests.adapters.hooked import Repo
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import Bus, stranger

from interlock.adapters.doctor import checks, declared, home, login, machine
from interlock.adapters.doctor.checks import CHECKS, examine
from interlock.adapters.doctor.scene import Asked, Finding, Scene, lock_holder, look
from interlock.adapters.kept_list import now
from interlock.adapters.login_service import LoginService
from interlock.adapters.paths import Home
from interlock.adapters.process import identify
from interlock.adapters.territory.hook_files import install, remove
from interlock.adapters.territory.hook_place import hook_place
from interlock.adapters.tokens import LocalTokens
from interlock.adapters.trust import LocalRepositories
from interlock.coordinator.config import parse_config
from interlock.coordinator.repositories import Trusted, digest
from interlock.coordinator.states import Survivor


@pytest.fixture
def place() -> Iterator[Home]:
    """A home as a supervisor that has left leaves it."""
    with scratch.folder() as folder:
        made = Home(folder / "bus")
        made.create()
        with contextlib.closing(sqlite3.connect(made.database)) as database:
            database.execute("CREATE TABLE records (body)")
        made.lock.write_text(json.dumps({"pid": 4_000_000}))
        yield made


def findings(place: Home, **environ: str) -> list[Finding]:
    return examine(look(place, environ))


def test_a_whole_home_has_no_findings(place: Home) -> None:
    assert findings(place) == []


def test_no_home_at_all_has_no_findings(tmp_path: Path) -> None:
    assert findings(Home(tmp_path / "nothing")) == []


def nothing_changed(of: Path) -> dict[str, Any]:
    return {
        str(each): (os.lstat(each).st_mtime_ns, os.lstat(each).st_mode, os.lstat(each).st_size)
        for each in of.rglob("*")
    }


def log_line(place: Home, event: str, **fields: object) -> None:
    entry = {"event": event, "level": "error", "timestamp": datetime.now(UTC).isoformat(), **fields}
    with open(place.logs / "supervisor.log", "a") as file:
        file.write(json.dumps(entry) + "\n")


def planted_link(place: Home) -> None:
    (place.states / "x.md").symlink_to("/etc/passwd")


def all_of(*steps: Callable[[Home], object]) -> Callable[[Home], object]:
    return lambda place: [step(place) for step in steps]


def fails(place: Home) -> None:
    for _ in range(3):
        log_line(place, "task_failed", why="it broke")


def folder(place: Home, *names: str) -> Path:
    made = place.root / "inboxes"
    made.mkdir(mode=0o700, exist_ok=True)
    for name in names:
        made = made / name
        made.mkdir(mode=0o700, exist_ok=True)
    return made


def old(path: Path, seconds: float = 300) -> None:
    if not path.exists():
        path.write_text("STATUS")
    os.utime(path, (time.time() - seconds,) * 2)


def rejected(place: Home, agent: str, name: str, why: str) -> None:
    path = folder(place, agent, "rejected") / name
    path.write_text("NOSUCH")
    path.with_name(f"{name}.why").write_text(f"{why}\n")


def trusts(place: Home, what: str) -> None:
    """A repository that a person has trusted, and what has become of it."""
    common, file = place.root.parent / "shop" / ".git", place.root.parent / "shop" / "bus.toml"
    if what != "gone":
        common.mkdir(parents=True)
    if what == "changed":
        file.write_text("# another\n")
    LocalRepositories(place).trust(Trusted("0" * 32, str(common), str(file), digest(b"# one\n"), now()))


def has_a_token(place: Home, store: str = "") -> None:
    place.config.write_text('[bus]\nidentity = "token"\n')
    token = LocalTokens(place).create("ann", ())
    Path(token.file).chmod(0o644)
    if store:
        LocalTokens(place).store.write_text(store)


HARMS: list[tuple[str, Callable[[Home], object], str, str]] = [
    ("home", lambda p: p.root.chmod(0o755), "is open to others (mode 755)", "chmod 700 "),
    (
        "home",
        all_of(lambda p: p.launches.rmdir(), lambda p: p.launches.symlink_to("/tmp")),
        "is no folder but a link",
        "mv ",
    ),
    ("home", lambda p: p.config.symlink_to("/etc/hosts"), "is a symbolic link", "cp "),
    ("home", all_of(lambda p: p.database.unlink(), lambda p: p.database.mkdir()), "is no regular file", "mv "),
    ("foreign", lambda p: (p.root / "notes.txt").touch(), "holds what is not the bus's: 'notes.txt'", "move them"),
    ("configuration", lambda p: p.config.write_text("[buss]\n"), "unknown key 'buss'", "${EDITOR:-vi} "),
    ("configuration", lambda p: os.mkfifo(p.config), "no regular file", "${EDITOR:-vi} "),
    ("down", lambda p: p.down.touch(), "was taken down with bus down", "bus up"),
    ("database", lambda p: p.database.write_bytes(b"x"), "is cut short", "bus up --recover"),
    ("database", lambda p: os.truncate(p.database, 5_000), "is cut short", "bus up --recover"),
    (
        "database",
        lambda p: p.database.write_bytes(b"something else " * 999),
        "or no database",
        "bus up --recover",
    ),
    (
        "database",
        all_of(lambda p: os.truncate(p.database, 0), lambda p: (p.root / "bus.db-wal").write_bytes(b"x")),
        "but its log is not",
        "bus up --recover",
    ),
    (
        "database",
        all_of(lambda p: p.database.unlink(), lambda p: (p.states / "x.md").touch()),
        "the next start recovers",
        "bus up",
    ),
    ("state_files", planted_link, "x.md is a link or no regular file", "mv "),
    ("socket", lambda p: p.socket().write_text("planted"), "is not a socket of yours", "rm "),
    (
        "dead_letters",
        lambda p: log_line(p, "dead_letter", actor="machine/x"),
        "1 messages met a fault of the bus",
        "grep dead_letter ",
    ),
    ("inboxes", lambda p: folder(p, "ann").chmod(0o770), "others can write to ", "chmod 700 "),
    ("inboxes", lambda p: (folder(p) / "bob").symlink_to("/tmp"), "no folder but a link", "mv "),
    (
        "inboxes",
        lambda p: (folder(p, "ann") / "new").touch(),
        "no folder but a link or a file",
        "mv ",
    ),
    (
        "rejected",
        all_of(lambda p: old(folder(p, "ann", "rejected") / "a\n"), lambda p: rejected(p, "ann", "b", "no such verb")),
        "2 files posted in ",
        "rm -r ",
    ),
    ("posts", lambda p: old(folder(p, "ann", "out") / "ask"), "ann/out wait since up to 5 min", "bus up"),
    ("posts", lambda p: old(folder(p, "coordinator", "new") / "ask"), "coordinator/new wait since up to", "bus up"),
    ("relays", lambda p: old(folder(p, "ann", "relay", "0011"), seconds=300), "1 streams of commands", "rm -r "),
    ("trust", lambda p: (p.root / "trusted.json").write_text("{"), "trusted.json: no trust store", "mv "),
    ("trust", lambda p: trusts(p, "gone"), "1 trusted repositories are not there any more", "bus forget --gone"),
    ("trust", lambda p: trusts(p, "changed"), "has changed since it was trusted", "bus config trust "),
    ("trust", lambda p: trusts(p, "file gone"), "is gone, and so is what it declared", "bus config untrust "),
    ("token", has_a_token, "tokens/ann, the token of ann, is open to others (mode 644)", "chmod 600 "),
    ("token", lambda p: has_a_token(p, "{"), ".known.json: no list of tokens", "mv "),
    (
        "spare",
        lambda p: p.config.write_text('[bus]\nspare = ["bash", "java gradle"]\n'),
        "names bash, which",
        "${EDITOR",
    ),
    ("log", fails, "task_failed 3 times in the last day, the last: it broke", "grep task_failed "),
]


@pytest.mark.parametrize(("about", "harm", "what", "mend"), HARMS, ids=[f"{row[0]}: {row[2]}"[:40] for row in HARMS])
def test_what_is_broken_is_found_with_what_mends_it_and_left_as_it_is(
    place: Home, about: str, harm: Callable[[Home], object], what: str, mend: str
) -> None:
    harm(place)
    before = nothing_changed(place.root)

    found = [each for each in findings(place) if each.about == about]

    assert len(found) == 1, findings(place)
    assert what in found[0].what
    assert mend in found[0].mend
    assert nothing_changed(place.root) == before


@pytest.mark.parametrize(
    ("environ", "what"),
    [
        ({"BUS_HOME": "relative/home"}, "is relative"),
        ({"BUS_AUTOSTART": "0"}, "forbids to start one"),
        ({"BUS_LAUNCH": "run-1-aa", "BUS_FENCE": "7"}, "BUS_FENCE, BUS_LAUNCH come from a launch that is over"),
        ({"BUS_HOEM": "/x"}, "BUS_HOEM mean nothing to the bus"),
    ],
)
def test_odd_variables_are_found(place: Home, environ: dict[str, str], what: str) -> None:
    [found] = findings(place, **environ)
    assert (found.about, what in found.what) == ("environment", True)


def test_a_launch_that_lives_may_have_its_variables(place: Home) -> None:
    me = identify(os.getpid())
    assert me is not None
    up = {"event": "up", "identity": {name: getattr(me, name) for name in me.__struct_fields__}, "subreaper": True}
    (place.launches / "run-1-aa.jsonl").write_text(json.dumps(up) + "\n")
    scene = look(place, {"BUS_LAUNCH": "outer:run-1-aa", "BUS_FENCE": "7"})
    assert list(machine.environment(scene)) == []
    assert [each.launch for each in scene.survivors] == ["run-1-aa"]


def test_a_full_disk_and_a_network_file_system_are_found(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1024))
    monkeypatch.setattr(machine, "network_file_system", lambda _: "nfs4")
    assert [each.about for each in findings(place)] == ["network", "disk"]


def test_somebody_elses_files_are_found(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    scene = Scene(place, {})
    assert all("belongs to user" in each.what for each in (*home.folders(scene), *home.files(scene)))
    assert len(list(home.folders(scene))) == 4


def test_a_stream_whose_command_lives_is_left_alone(place: Home) -> None:
    stream = folder(place, "ann", "relay", "0011")
    program = "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(1,flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(stream / "up")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as alive:
        assert alive.stdout is not None
        alive.stdout.readline()
        old(stream)
        assert findings(place) == []
        alive.communicate(b"\n")
    assert [each.about for each in findings(place)] == ["relays"]


def test_a_window_that_tmux_cannot_open_is_found(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "tmux_problem", lambda: "tmux is not installed: install tmux, or do without")
    assert findings(place) == []
    place.config.write_text("[resources.web]\nstart = 'x'\nports = [7080]\nterminal = 'tmux'\n")
    [found] = findings(place)
    assert (found.about, found.mend) == ("tmux", "install tmux, or do without")
    assert found.what == "web would run in a window of tmux, but tmux is not installed"


def test_a_login_service_that_calls_another_bus_is_found(
    place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    service = LoginService(place, "linux")
    monkeypatch.setattr(login, "LoginService", lambda home: LoginService(home, "linux"))
    assert service.write()
    assert findings(place) == []
    unit = next(path for path in service.present() if path.suffix == ".service")
    text = unit.read_text()
    for written, what in (
        (text.replace(sys.executable, "/old/venv/bin/python"), "calls /old/venv/bin/python, which is gone"),
        (text.replace("TimeoutStopSec=60", "TimeoutStopSec=9"), "starts another version, or another home"),
    ):
        unit.write_text(written)
        [found] = findings(place)
        assert (found.about, what in found.what, found.mend) == ("service", True, "bus up --install-service")
    unit.unlink()
    [found] = findings(place)
    assert found.what.startswith("of the login service only ")


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (lambda hooks, git: (hooks / "pre-push").unlink(), "pre-push is gone"),
        (lambda hooks, git: (hooks / "pre-commit").chmod(0o644), "pre-commit is not executable"),
        (
            lambda hooks, git: (hooks / "pre-commit").write_text("#!/bin/sh\n"),
            "pre-commit was replaced by another tool",
        ),
        (
            lambda hooks, git: git("config", "core.hooksPath", "/dev/null"),
            "git looks into /dev/null now (core.hooksPath)",
        ),
    ],
)
def test_hooks_that_were_switched_off_are_found(
    place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path, Any], object], what: str
) -> None:
    repo = Repo(tmp_path / "r", place.root)
    monkeypatch.chdir(repo.folder)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.setenv(name, repo.environment[name])
    install(hook_place(str(repo.folder)), bus=sys.executable)
    assert findings(place) == []
    harm(repo.folder / ".git/hooks", repo.git)
    [found] = findings(place)
    assert (found.about, found.mend.partition(",")[0]) == ("hooks", "bus hooks install")
    assert found.what == f"the hooks of {repo.folder / '.git'} are switched off: {what}"
    remove(hook_place(str(repo.folder)))
    assert findings(place) == []


def test_hooks_that_call_a_bus_that_is_gone_are_found(
    place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = Repo(tmp_path / "r", place.root)
    monkeypatch.chdir(repo.folder)
    install(hook_place(str(repo.folder)), bus="/gone/bus")
    [found] = findings(place)
    assert found.what.endswith(" call /gone/bus, which is gone")


def test_a_check_that_fails_says_so_and_keeps_no_other_from_its_turn(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(scene: Scene) -> Iterator[Finding]:
        raise RuntimeError("oh")
        yield

    place.down.touch()
    monkeypatch.setattr(checks, "CHECKS", (odd, *CHECKS))
    assert [each.about for each in findings(place)] == ["doctor", "down"]


# --- what a supervisor says ----------------------------------------------------------------------
WELL = {"version": "", "pid": 1, "frozen": [], "state_files": "", "launches": []}


def asked(place: Home, **facts: Any) -> list[Finding]:
    from importlib.metadata import version

    health = {**WELL, "version": version("interlock"), **facts.pop("health", {})}
    config = parse_config("[resources.web]\nstart = 'x'\nports = [7080]\n", "bus.toml")
    survivors = facts.pop("survivors", ())
    given = Asked(health, facts.get("resources", []), facts.get("agents", []), facts.get("commands", []))
    seen = Scene(place, {}, given, "", 1, config, "", survivors, time.time() + 60, facts.get("verified"))
    return examine(seen)


IN_DOUBT = {
    "resource": "machine/web", "declared": True, "units": [{"unit": "", "state": "recovery_required"}], "holders": [],
    "why": "the database was lost",
}  # fmt: skip
DOWN = {"resource": "machine/web", "declared": True, "units": [], "holders": [{"agent": "ann"}], "down": True}
LEFT_ALONE = {"resource": "machine/web", "declared": True, "policy": {"controller": "boss", "controller_gone": True}}
LOST = {"launch": "run-1-aa", "state": "recovery_required", "command": "make", "agent": "ann", "why": "its keeper died"}
UNBOUND = {"agent": "ann", "presence": "unknown", "holds": ["web"], "unread": 2_000}


@pytest.mark.parametrize(
    ("facts", "about", "mend"),
    [
        ({"resources": [IN_DOUBT]}, ["recovery"], "bus recover web"),
        ({"resources": [DOWN]}, ["server_down"], "bus --as ann restart web"),
        ({"resources": [LEFT_ALONE]}, ["controller"], "bus policy set"),
        ({"commands": [LOST, {**LOST, "state": "started"}]}, ["command"], "bus recover run-1-aa"),
        ({"agents": [UNBOUND]}, ["unbound", "unread"], "bus join ann --pid PID, with the pid of its program"),
        ({"health": {"frozen": ["machine/x failed and is frozen: read"]}}, ["frozen"], "bus down && bus up"),
        ({"health": {"version": "0.0.1"}}, ["version"], "bus down && bus up"),
        ({"health": {"state_files": "cannot be written"}}, ["state_files"], "ls -la "),
        ({"verified": {"broken": "the chain is broken at record 3"}}, ["database"], "bus down; put a backup"),
        ({"verified": {"records": 3, "seq": 3}}, [], ""),
        ({"verified": {"replayed": {"differs": "what the bus holds is not what"}}}, ["replay"], "bus down && bus up"),
        ({"verified": {"replayed": {"differs": "the snapshot of record 3 is"}}}, ["replay"], "bus down; put a backup"),
    ],
)  # fmt: skip
def test_what_the_supervisor_tells_is_found(place: Home, facts: Any, about: list[str], mend: str) -> None:
    found = asked(place, **facts)
    assert [each.about for each in found] == about
    assert not found or found[0].mend.startswith(mend)


def test_a_launch_that_nobody_knows_of_is_found(place: Home) -> None:
    me = identify(os.getpid())
    assert me is not None
    (place.launches / "run-1-aa.jsonl").touch()
    [found] = asked(place, survivors=(Survivor("run-1-aa", me), Survivor("just-now", me)))
    assert (found.about, found.mend) == ("launches", f"kill -TERM {me.pid}")
    assert asked(place, survivors=(Survivor("run-1-aa", me),), health={"launches": ["run-1-aa"]}) == []


def test_a_stranger_on_the_port_of_a_declared_server_is_found(place: Home) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place.config.write_text(f"[resources.web]\nstart = 'x'\nports = [{port}]\n")
    with stranger(port) as pid:
        [found] = findings(place)
        assert (found.about, found.mend) == ("port", f"kill {pid}, if it is yours")
        assert f"port {port} of web is held by pid {pid}" in found.what


# --- processes -------------------------------------------------------------------------------------
HOLDER = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(place: Home) -> Iterator["subprocess.Popen[str]"]:
    """A process that holds the home's lock and answers nobody."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place.lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    place.lock.write_text(json.dumps({"pid": process.pid}))
    yield process
    process.communicate("")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/locks")
def test_who_holds_the_lock_is_read_and_not_tried(place: Home, holder: "subprocess.Popen[str]") -> None:
    assert lock_holder(place) == holder.pid
    [found] = findings(place)
    assert (found.about, found.mend) == ("supervisor", f"kill -TERM {holder.pid}; bus up")
    assert "its socket" in found.what
    with open(place.lock) as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_stopped_supervisor_is_found(place: Home, holder: "subprocess.Popen[str]") -> None:
    os.kill(holder.pid, 19)
    os.waitpid(holder.pid, os.WUNTRACED)
    [found] = findings(place)
    os.kill(holder.pid, 18)
    assert (found.about, found.mend) == ("supervisor", f"kill -CONT {holder.pid}")


# --- the command -----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as shared:
        yield shared


def test_the_command_says_that_all_is_well_and_that_the_log_is_whole(bus: Bus) -> None:
    done = bus("doctor")
    assert (done.code, done.err) == (0, "")
    assert "the log is whole" in done.out
    assert "nothing is wrong" in done.out
    facts = bus("--json", "doctor").json
    assert (facts["ok"], facts["findings"], facts["facts"]["supervisor"]) == (True, [], bus.supervisor())


def test_the_command_shows_each_finding_with_what_mends_it_and_exits_1(bus: Bus) -> None:
    (bus.home / "stray.txt").touch()
    try:
        done, told = bus("doctor", "--quick"), bus("--json", "doctor", "--quick")
        assert (done.code, told.code) == (1, 1)
        assert "foreign: " in done.out
        assert "\n    move them elsewhere\n" in done.out
        assert [each["about"] for each in told.json["findings"]] == ["foreign"]
    finally:
        (bus.home / "stray.txt").unlink()


def test_the_command_starts_nothing_and_mends_nothing(bus: Bus) -> None:
    other = Bus(bus.folder / "other")
    other.folder.mkdir()
    done = other("doctor")
    assert (done.code, other.home.exists()) == (0, False)
    assert "no supervisor answers" in done.out


def test_verify_replays_the_log_of_a_running_bus_and_names_what_it_agrees_with(bus: Bus) -> None:
    bus.ok("--as", "a", "request", "machine/verified", "--for", "x")
    bus.ok("--as", "a", "release", "machine/verified")
    done = bus("doctor", "--verify", "--json")
    log = done.json["facts"]["log"]
    assert (done.code, log["replayed"]["first"], log["replayed"]["live"]) == (0, 1, True)
    line = bus.ok("doctor", "--verify").splitlines()[1]
    assert line.startswith("the log is whole: ")
    assert line.endswith("equals what the bus holds")


HARMED = {  # what somebody does to the file, and what is said of it
    "UPDATE record SET body = cast(replace(body, 'machine/down', 'machine/other') AS BLOB)": "broken at record ",
    "DELETE FROM record WHERE idx = 2": "broken at record 3",
    "UPDATE record SET body = (SELECT body FROM record WHERE idx = 3) WHERE idx = 2": "broken at record 2",
    "UPDATE record SET body = 'text' WHERE idx = 2": "is damaged (record 2 holds",
    "UPDATE snapshot SET body = cast(replace(body, 'machine/down', 'machine/other') AS BLOB)":
        "not what the records before it make: machine/down, machine/other",
}  # fmt: skip


@pytest.mark.slow
def test_verify_reads_a_copy_of_the_file_of_a_bus_that_is_down() -> None:
    with shared_bus() as bus:
        bus.ok("--as", "a", "request", "machine/down", "--for", "x")
        bus.ok("down")
        (bus.home / "bus.down").unlink()
        before, whole = nothing_changed(bus.home), (bus.home / "bus.db").read_bytes()
        # when nothing is wrong
        done = bus("doctor", "--verify")
        # then
        assert (done.code, nothing_changed(bus.home)) == (0, before)
        assert "equals the snapshot of record " in done.out
        for statements, says in HARMED.items():
            # when
            with contextlib.closing(sqlite3.connect(bus.home / "bus.db")) as database:
                database.executescript(statements)
            # then
            found = examine(look(Home(bus.home), {}, say=lambda through, last: None))
            assert [says in each.what for each in found] == [True], (statements, found)
            assert "backup in its place" in found[0].mend or "good copy in its place" in found[0].what
            for part in ("-wal", "-shm"):
                (bus.home / f"bus.db{part}").unlink(missing_ok=True)
            (bus.home / "bus.db").write_bytes(whole)


def test_verify_and_quick_are_one_or_the_other(bus: Bus) -> None:
    done = bus("doctor", "--verify", "--quick")
    assert (done.code, "say one of them" in done.err) == (64, True)
