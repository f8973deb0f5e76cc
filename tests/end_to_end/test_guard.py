"""`bus guard` with real processes of two agents: no stranger's process ever dies, one's own does."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import PYTHON, Bus, alive, ends, free_port

NAME = "nappingalot"  # a program that nobody else runs
LISTENS = (
    "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print('up'); time.sleep(999)"
)


class World(NamedTuple):
    """Args: theirs, mine: pids of the two agents' programs. port: that bob listens at. folder: where all of it is."""

    bus: Bus
    folder: Path
    theirs: int
    port: int


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("guard")
    program = folder / NAME
    program.symlink_to(os.path.realpath(sys.executable))
    port = free_port()
    with shared_bus() as bus:
        for agent in ("ann", "bob"):
            bus.ok("join", agent)
        theirs = bus.start(
            "run",
            "--",
            "sh",
            "-c",
            f'echo $$; exec {program} -u -c "{LISTENS}" {port} bobs-server',
            agent="bob",
            cwd=folder,
        )
        pid = int(theirs.out.until("\n"))
        theirs.out.until("up")
        (folder / "server.pid").write_text(f"{pid}\n")
        yield World(bus, folder, pid, port)
        theirs.kill()
        theirs.end()


def keeper_of(world: World, agent: str) -> int:
    commands = world.bus("--json", "ps").json["commands"]
    return int(next(each["keeper_pid"] for each in commands if each["agent"] == agent))


SELECTIONS = [
    "pkill {name}", "pkill -9 {name}", "pkill -x {name}", "pkill -f bobs-server", "pkill -f '{name}.*bobs'",
    "pkill napping", "pkill -i NAPPING", "pkill -n {name}", "pkill -u $USER {name}", "pkill -F server.pid",
    "killall {name}", "killall -9 {name}", "killall -q {name}", "killall -r 'nap.*lot'", "killall -I NAPPINGALOT",
    "kill $(pgrep {name})", "kill -9 $(pgrep -f bobs-server)", "kill $(pidof {name})", "kill `pgrep {name}`",
    "pgrep {name} | xargs kill", "pgrep -f bobs-server | xargs -r kill -9", "pgrep {name} | xargs -I P kill P",
    "for p in $(pgrep {name}); do kill $p; done", "P=$(pgrep {name}); kill $P", "P=`pgrep {name}` && kill -9 $P",
    "ps aux | grep bobs-server | grep -v grep | awk '{{print $2}}' | xargs kill",
    "kill $(ps -ef | awk '/bobs-server/ {{print $2}}')", "ps -eo pid,args | grep '[b]obs' | cut -c1-8 | xargs kill -9",
    "kill $(lsof -t -i:{port})", "lsof -ti tcp:{port} | xargs kill -9", "lsof -ti :{port} | xargs -r kill",
    "fuser -k {port}/tcp", "fuser -k -n tcp {port}", "fuser -KILL -k {port}/tcp", "npx kill-port {port}",
    "npx --yes kill-port {port}", "fkill :{port}", "fkill {name}", "kill {pid}", "kill -9 {pid}", "kill -TERM {pid}",
    "kill -s KILL {pid}", "kill $(cat server.pid)", "xargs kill < server.pid", "env A=1 pkill {name}",
    "nohup pkill {name}", "timeout 5 pkill -9 {name}", "sudo pkill {name}", "sudo -n killall {name}",
    "eval 'pkill {name}'",
    "sh -c 'pkill {name}'", "bash -lc 'sleep 0; (pkill {name}; true)'", "true && pkill {name} || true",
    "sleep 0; killall {name} &", "taskkill /F /IM {name}.exe", "taskkill //IM {name}", "taskkill /PID {pid}",
    "powershell -Command 'Stop-Process -Name {name}'", "pwsh -c 'Get-Process {name} | Stop-Process'",
    "find . -maxdepth 0 -exec pkill {name} ';'", "busybox pkill {name}",
    # what somebody found who was asked to get past it
    "ss -ltnp | grep ':{port}' | cut -d= -f2 | cut -d, -f1 | xargs kill", "kill $(ps -C {name} -o pid=); echo | grep x",
    "ss -lptn 'sport = :{port}' | grep -o 'pid=[0-9]*' | cut -d= -f2 | xargs kill",
    "ps -e | grep '{name}$' | xargs kill",
    "ps -eo pid,comm | awk '$2 ~ /^{name}$/ {{print $1}}' | xargs kill", "ps aux | grep -i NAPPINGALOT | xargs kill",
    "ps aux | grep 'foobar\\|{name}' | awk '{{print $2}}' | xargs kill", "pkill -f '\\<{name}\\>'",
    "kill $(lsof -ti:{port}-{above})", "cd . && kill $(cat server.pid)", "kill $(cat ./server.pid)",
    "read p < server.pid; kill $p", "kill $(head -1 server.pid)", "kill $(tr -dc 0-9 < server.pid)",
    "kill $(grep -l {name} /proc/[0-9]*/comm | cut -d/ -f3)", "pgrep {name} | while read p; do kill $p; done",
    "P={pid}; kill $P", "for p in {pid} 999999999; do kill $p; done", "kill {{{pid},999999999}}", "kill $(({pid}))",
    "su -c 'kill {pid}'", "setpriv --reuid=0 kill {pid}", "script -qc 'kill {pid}' /dev/null", "uv run pkill {name}",
    "cmd /c taskkill /F /IM {name}.exe", "lsof -t +D . | xargs kill",
]  # fmt: skip


@pytest.mark.parametrize("text", SELECTIONS)
def test_no_strangers_process_ever_dies(world: World, text: str) -> None:
    line = text.format(name=NAME, port=world.port, pid=world.theirs, above=world.port + 3)
    done = world.bus("guard", "--", "sh", "-c", line, cwd=world.folder, agent="ann")
    assert done.code == 77, done
    assert ("SCOPE_DENIED" in done.err, done.out) == (True, "")
    assert alive(world.theirs)
    assert "of bob" in done.err or "nobody can tell which process" in done.err


@pytest.mark.parametrize(
    "words", [["pkill", NAME], ["killall", NAME], ["fuser", "-k", "{port}/tcp"], ["kill", "{pid}"]]
)
def test_nor_where_no_shell_is_between(world: World, words: list[str]) -> None:
    words = [word.format(port=world.port, pid=world.theirs) for word in words]
    done = world.bus("guard", *words, cwd=world.folder, agent="ann")
    assert (done.code, alive(world.theirs)) == (77, True)


def test_what_is_ones_own_is_named_and_ends(world: World) -> None:
    mine = world.bus.start(
        "run", "--", "sh", "-c", f"echo $$; exec {world.folder / NAME} -c 'import time; time.sleep(999)'",
        cwd=world.folder, agent="ann",
    )  # fmt: skip
    pid = int(mine.out.until("\n"))
    done = world.bus("guard", "--", "pkill", NAME, cwd=world.folder, agent="ann")
    assert (done.code, f"kill {pid}" in done.err, alive(pid), alive(world.theirs)) == (77, True, True, True)
    assert world.bus.start("guard", "--", "sh", "-c", f"kill {pid}", cwd=world.folder, agent="ann").end().code == 0
    assert mine.end().code == 128 + 15
    assert ends(pid)
    assert alive(world.theirs)


def test_a_child_of_the_very_shell_needs_no_bus(world: World, tmp_path: Path) -> None:
    script = 'sleep 987 & bus guard -- sh -c "kill $!" && wait $!; echo $?'
    path = f"{PYTHON.parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "BUS_HOME": str(tmp_path / "none"), "BUS_AUTOSTART": "0"}
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, "REFUSED" in done.stderr) == ("143\n", False)


def test_the_program_that_runs_the_session_is_never_in_the_set(world: World) -> None:
    """Nor where it has joined as the very agent that asks."""
    runs_all = world.folder / "runs-it-all"
    runs_all.symlink_to(os.path.realpath(shutil.which("bash") or "/bin/sh"))
    script = "bus join cyd --pid $$ >&2; bus --as cyd guard -- pkill runs-it-all; echo $?"
    env = {**world.bus.environment, "PATH": f"{PYTHON.parent}:{os.environ['PATH']}"}
    done = world.bus.launch([str(runs_all), "-c", script], env=env).end()
    assert (done.code, done.out, "what you run in yourself" in done.err) == (0, "77\n", True)


@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        (["echo", "pkill", "x"], 0, "pkill x\n"), (["sh", "-c", "exit 5"], 5, ""),
        (["printf", "%s", r"C:\x\y"], 0, r"C:\x\y"), (["no-such-program"], 127, ""),
        (["/"], 126, ""), (["sh", "-c", "pkill nobody-has-this-name; true"], 0, ""),
        (["sh", "-c", "pgrep sh >&2; true"], 0, ""), (["pkill", "--help"], None, None),
        (["sh", "-c", "sleep 900 & P=$!; ps -o rss= -p $P >&2; ss -ltn | grep :1 | head -5 >&2; kill $P"], 0, ""),
        (["bash", "-c", "sleep 900 & kill $(jobs -p)"], 0, ""),
        (["git", "commit", "-m", "kill it", "--dry-run"], None, None),
        (["xargs", "kill"], 77, ""), (["sh", "-c", "pkill '"], 77, ""), ([], 64, ""),
    ],
)  # fmt: skip
def test_anything_else_is_simply_executed(world: World, words: list[str], code: int | None, out: str) -> None:
    """None: whatever it says where it is installed."""
    done = world.bus.start("guard", "--", *words, agent="ann").end()
    assert code is not None or "REFUSED" not in done.err
    assert code is None or (done.code, done.out) == (code, out)


def test_the_server_that_the_bus_runs_for_its_holder_is_not_for_a_kill(bus: Bus) -> None:
    """Not even for that holder: there is `bus restart`, and `bus release`."""
    bus.home.mkdir(mode=0o700)
    (bus.home / "bus.toml").write_text(
        '[resources.web]\nkind = "server"\nstart = "echo on; sleep 986"\nready_line = "on"\n'
    )
    bus.ok("request", "web", "--worktree", str(bus.folder), "--wait", "1m", agent="ann")
    done = bus("guard", "--", "pkill", "-f", "sleep 986", cwd=bus.folder, agent="ann")
    assert (done.code, "the server of web, which ann has" in done.err) == (77, True)
    bus.ok("release", "web", agent="ann")


def test_who_is_connected_to_a_port_is_no_less_a_stranger_than_who_listens(world: World) -> None:
    """`lsof -i :3000` means both ends: a browser, and another agent's test run."""
    serve = (
        "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True);"
        "c = s.accept(); time.sleep(999)"
    )
    mine = world.bus.start("run", "--", sys.executable, "-c", serve, cwd=world.folder, agent="ann")
    port = int(mine.out.until("\n"))
    call = (
        f"import socket, time; c = socket.create_connection(('127.0.0.1', {port})); print('up', flush=True);"
        "time.sleep(999)"
    )
    theirs = world.bus.start("run", "--", sys.executable, "-c", call, cwd=world.folder, agent="bob")
    theirs.out.until("up")
    done = world.bus("guard", "--", "sh", "-c", f"lsof -ti:{port} | xargs kill", cwd=world.folder, agent="ann")
    assert (done.code, "of bob" in done.err, "end what is yours alone: kill" in done.err) == (77, True, True)
    for each in (mine, theirs):
        each.kill()
        each.end()


# --- bus stop-process -------------------------------------------------------------------------
def test_a_process_of_ones_own_is_stopped_and_the_connection_is_said(world: World) -> None:
    script = "trap '' TERM; echo $$; while :; do sleep 0.1; done"
    running = world.bus.start("run", "--", "sh", "-c", script, cwd=world.folder, agent="ann")
    pid = int(running.out.until("\n"))
    words = ("stop-process", str(pid), "--wait", "300ms")
    done = world.bus(*words, agent="ann")
    assert (done.code, "has not ended within 300ms" in done.err, alive(pid)) == (75, True, True)
    done = world.bus("--json", *words, "--kill", agent="ann")
    assert (done.code, done.json["stopped"], done.json["signal"]) == (0, pid, "SIGKILL")
    assert "(sh) of ann" in done.json["connection"]
    assert running.end().code == 128 + 9
    done = world.bus(*words, agent="ann")
    assert (done.code, f"no process {pid} is here" in done.err) == (77, True)


def test_any_other_is_left_running_and_it_is_said_whose_it_is(world: World) -> None:
    done = world.bus("stop-process", str(world.theirs), agent="ann")
    assert (done.code, "is left running" in done.err, "of bob" in done.err) == (77, True, True)
    assert alive(world.theirs)
    supervisor = world.bus.supervisor()
    done = world.bus("stop-process", str(supervisor), "--kill", agent="ann")
    assert (done.code, "nobody's that the bus knows" in done.err, alive(supervisor)) == (77, True, True)
    assert "hangs from" in world.bus("stop-process", str(keeper_of(world, "bob")), agent="bob").err
    assert world.bus("stop-process", "0", agent="ann").code == 77
    assert world.bus("stop-process", "node", agent="ann").code == 64
