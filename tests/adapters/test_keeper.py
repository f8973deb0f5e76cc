"""The keeper: nothing before GO, every descendant gone before it leaves, and a proof that survives the supervisor."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from tests.adapters.launching import PATIENCE_S, STUBBORN, Launch, all_gone, known, launched, lines
from tests.polling import until_true

from interlock.adapters import keeper_start, launches
from interlock.adapters.launches import (
    Ended,
    Gone,
    LaunchFailed,
    LaunchResult,
    Started,
    read_result,
    reap,
    server_environment,
    stop_tree,
)
from interlock.adapters.process import fact, identify, probe, send_signal
from interlock.protocol.identity import Presence

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="a sub-reaper and /proc"),
]


async def test_nothing_is_executed_without_go(tmp_path: Path) -> None:
    async with launched(tmp_path, "touch", str(tmp_path / "executed"), go=False) as launch:
        launch.keeper.close()
        await launch.keeper.wait()

        assert not (tmp_path / "executed").exists()
        assert lines(launch.result) == ["up", "not_started"]
        assert read_result(launch.result) == LaunchResult(
            not_started=True, keeper=launch.keeper.identity, subreaper=True
        )


@pytest.mark.parametrize("way", ["stop", "kill", "SIGTERM"])
async def test_stopped_before_go_it_executes_nothing(tmp_path: Path, way: str) -> None:
    async with launched(tmp_path, "touch", str(tmp_path / "executed"), go=False) as launch:
        if way == "SIGTERM":
            assert send_signal(launch.keeper.identity, signal.SIGTERM)
        else:
            assert launch.keeper.stop() if way == "stop" else launch.keeper.kill()
        await launch.keeper.wait()

        assert lines(launch.result) == ["up", "not_started"]
        assert not (tmp_path / "executed").exists()
        with pytest.raises(LaunchFailed):
            await launch.keeper.go()


async def test_the_file_tells_the_story_in_order(tmp_path: Path) -> None:
    async with launched(tmp_path, "sh", "-c", f"grep -c . {tmp_path}/launch-1.jsonl; exit 3") as launch:
        events = await launch.rest()

        # The command itself saw two lines or three: up, go, and perhaps started.
        assert await launch.output.line() in ("2", "3")
        assert lines(launch.result) == ["up", "go", "started", "ended", "gone"]
        assert [type(event) for event in events] == [Started, Ended, Gone]
        assert events[1] == Ended(code=3, signal=None)
        result = read_result(launch.result)
        assert (result.went, result.ended, result.gone, result.code, result.signal) == (True, True, True, 3, None)
        assert result.keeper == launch.keeper.identity
        assert result.leader is not None
        assert launch.result.stat().st_mode & 0o777 == 0o600


async def test_the_keeper_s_own_account_of_itself_is_right(tmp_path: Path) -> None:
    async with launched(tmp_path, "sleep", "600") as launch:
        started = await launch.until(Started)

        assert launch.keeper.identity == identify(launch.keeper.identity.pid)
        assert started.leader is not None
        assert started.leader == identify(started.leader.pid)


async def test_a_signal_that_killed_the_command_is_named(tmp_path: Path) -> None:
    async with launched(tmp_path, "sh", "-c", "kill -KILL $$") as launch:
        assert await launch.until(Ended) == Ended(code=None, signal=signal.SIGKILL)


async def test_what_cannot_be_executed_says_why(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    cases = [("no-such-command-anywhere", 127), (str(plain), 126), (str(tmp_path), 126), ("nul\0byte", 126)]
    for number, (command, code) in enumerate(cases):
        async with launched(tmp_path, command, launch=f"launch-{number}") as launch:
            events = await launch.rest()

            assert [type(event) for event in events] == [Ended, Gone]
            assert isinstance(events[0], Ended)
            assert (events[0].code, events[0].signal) == (code, None)
            assert events[0].error
            assert lines(launch.result) == ["up", "go", "ended", "gone"]


async def test_a_vanished_directory_ends_the_launch(tmp_path: Path) -> None:
    async with launched(tmp_path, "true", cwd=str(tmp_path / "vanished")) as launch:
        assert (await launch.until(Ended)).code == 127


async def test_a_command_is_looked_for_in_its_own_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "only-here"
    script.write_text("#!/bin/sh\nexit 5\n")
    script.chmod(0o755)
    async with launched(tmp_path, "only-here", env={"PATH": str(script.parent)}) as launch:
        assert (await launch.until(Ended)).code == 5


async def test_arguments_and_environment_arrive_byte_for_byte(tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff\xfe \xc3\xa9\n")
    code = "import os, sys; print(os.fsencode(sys.argv[1]).hex(), os.environb[b'ODD'].hex(), os.getcwd())"
    async with launched(tmp_path, sys.executable, "-c", code, odd, env={"ODD": odd}, cwd=str(tmp_path)) as launch:
        expected = os.fsencode(odd).hex()
        assert await launch.output.line() == f"{expected} {expected} {tmp_path}"


@pytest.mark.parametrize("way", ["SIGTERM", "stop", "kill"])
async def test_a_tree_that_hides_and_ignores_sigterm_is_gone_before_the_keeper(tmp_path: Path, way: str) -> None:
    async with launched(tmp_path, sys.executable, "-c", STUBBORN) as launch:
        members = await launch.output.pids(3)
        if way == "SIGTERM":
            assert send_signal(launch.keeper.identity, signal.SIGTERM)
            send_signal(launch.keeper.identity, signal.SIGTERM)  # a second one is harmless
        else:
            assert launch.keeper.stop() if way == "stop" else launch.keeper.kill()
        await launch.until(Gone)

        assert [probe(member) for member in members] == [Presence.GONE] * 3
        await launch.rest()
        assert read_result(launch.result).gone


async def test_a_tree_that_heeds_sigterm_is_not_killed(tmp_path: Path) -> None:
    # Python has finished its exec when it speaks: a shell's child that is hit between fork and exec forgets the signal.
    child = "import os, signal; os.write(1, b'ready\\n'); signal.pause()"
    script = f"trap 'exit 9' TERM; '{sys.executable}' -c \"{child}\" & wait"
    async with launched(tmp_path, "sh", "-c", script, stop_timeout_ms=PATIENCE_S * 1000) as launch:
        await launch.output.line()
        launch.keeper.stop()

        assert (await launch.until(Ended)).code == 9
        await launch.until(Gone)


async def test_a_stopped_process_is_woken_for_its_sigterm(tmp_path: Path) -> None:
    async with launched(tmp_path, "sh", "-c", "kill -STOP $$", stop_timeout_ms=PATIENCE_S * 1000) as launch:
        await launch.until(Started)
        launch.keeper.stop()

        assert await launch.until(Ended) == Ended(code=None, signal=signal.SIGTERM)


MOVING_TARGET = (  # each ends, and its child goes on
    "import os, signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "os.write(1, b'ready\\n')\n"
    "until = time.monotonic() + 600\n"
    "while time.monotonic() < until:\n"
    "    if os.fork(): os._exit(0)\n"
    "    os.setsid()\n"
    "    time.sleep(0.001)\n"
)
SLOW_TO_LOOK = """
import runpy, sys, time
sys.path.append({root!r})
from interlock.adapters.keeper import tree
look = tree.descendants

def slow():
    found, until = look(), time.monotonic() + 0.1
    while time.monotonic() < until:  # as on a machine with many processes and little time
        pass
    return found

tree.descendants = slow
sys.argv[0] = {keeper!r}
runpy.run_path({keeper!r}, run_name="__main__")
"""


@pytest.mark.parametrize("slow", [False, True])
async def test_a_tree_that_grows_while_it_is_stopped_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    if slow:
        keeper = keeper_start.KEEPER
        script = tmp_path / "slow.py"
        script.write_text(SLOW_TO_LOOK.format(root=keeper.partition("/interlock/")[0], keeper=keeper))
        monkeypatch.setattr(keeper_start, "KEEPER", str(script))
    async with launched(tmp_path, sys.executable, "-c", MOVING_TARGET, stop_timeout_ms=50) as launch:
        await launch.output.line()
        await launch.until(Ended)
        launch.keeper.stop()

        await launch.until(Gone)


@pytest.mark.parametrize("new_session", [True, False], ids=["own-session", "our-session"])
async def test_a_bystander_of_the_same_name_lives(tmp_path: Path, new_session: bool) -> None:
    # The bystander shares the test's own session and process group, as a wrapper does with what it runs.
    async with await anyio.open_process(["sleep", "599"]) as bystander:
        async with launched(tmp_path, "sleep", "599", new_session=new_session) as launch:
            await launch.until(Started)
            launch.keeper.kill()
            await launch.until(Gone)

        assert probe(known(bystander.pid)) is Presence.ALIVE
        bystander.kill()


async def test_a_grandchild_that_holds_the_output_does_not_delay_the_end(tmp_path: Path) -> None:
    async with launched(tmp_path, "sh", "-c", "sleep 600 & echo $!; exit 4") as launch:
        [grandchild] = await launch.output.pids(1)

        assert await launch.until(Ended) == Ended(code=4, signal=None, left=1)
        assert probe(grandchild) is Presence.ALIVE
        assert lines(launch.result)[-1] == "ended"
        assert send_signal(grandchild, signal.SIGKILL)
        await launch.until(Gone)


async def test_the_keeper_does_not_hold_the_output(tmp_path: Path) -> None:
    script = "sleep 600 >/dev/null 2>&1 & echo bye"
    async with launched(tmp_path, "sh", "-c", script) as launch:
        await launch.until(Ended)
        assert await launch.output.line() == "bye"
        with anyio.fail_after(PATIENCE_S):
            await anyio.wait_readable(launch.output.read)

        assert os.read(launch.output.read, 1) == b""


async def test_a_signal_is_forwarded_to_the_command_alone(tmp_path: Path) -> None:
    script = "trap 'echo caught; exit 2' INT; sleep 600 & echo $!; wait"
    async with launched(tmp_path, "sh", "-c", script) as launch:
        [inner] = await launch.output.pids(1)
        assert launch.keeper.signal(signal.SIGINT)

        assert await launch.until(Ended) == Ended(code=2, signal=None, left=1)
        assert probe(inner) is Presence.ALIVE


async def test_the_keeper_is_deaf_to_the_terminal(tmp_path: Path) -> None:
    async with launched(tmp_path, "sh", "-c", "read line", go=False) as launch:
        for name in ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTSTP", "SIGTTIN", "SIGTTOU"):
            assert send_signal(launch.keeper.identity, getattr(signal, name))
        await launch.keeper.go()

        await launch.until(Gone)


async def test_an_attached_tree_is_stopped_when_its_wrapper_dies(tmp_path: Path) -> None:
    async with launched(tmp_path, sys.executable, "-c", STUBBORN, attached=True) as launch:
        members = await launch.output.pids(3)
        launch.keeper.close()
        await all_gone([*members, launch.keeper.identity])

        assert read_result(launch.result).gone


async def test_a_detached_tree_outlives_the_supervisor_and_is_stopped_by_the_next(tmp_path: Path) -> None:
    async with launched(tmp_path, sys.executable, "-c", STUBBORN) as launch:
        members = await launch.output.pids(3)
        launch.keeper.close()
        assert [probe(member) for member in members] == [Presence.ALIVE] * 3
        assert probe(launch.keeper.identity) is Presence.ALIVE

        stopped = await stop_tree(launch.keeper.identity, launch.result, 300, "launch-1")

        assert stopped.proved, stopped.evidence
        assert stopped.evidence == f"keeper pid {launch.keeper.identity.pid} reaped its whole tree"
        assert [probe(member) for member in members] == [Presence.GONE] * 3
        again = await stop_tree(launch.keeper.identity, launch.result, 300, "launch-1")
        assert again == stopped


async def test_the_end_of_the_socket_changes_nothing_for_a_detached_tree(tmp_path: Path) -> None:
    script = "read line < fifo; exit 6"
    os.mkfifo(tmp_path / "fifo")
    async with launched(tmp_path, "sh", "-c", script, cwd=str(tmp_path)) as launch:
        await launch.until(Started)
        launch.keeper.close()
        async with await anyio.open_file(tmp_path / "fifo", "w") as fifo:
            await fifo.write("\n")
        await all_gone([launch.keeper.identity])

        assert read_result(launch.result).code == 6


async def test_a_killed_keeper_proves_nothing_and_the_mark_shows_what_is_left(tmp_path: Path) -> None:
    async with launched(tmp_path, sys.executable, "-c", STUBBORN, launch="lost-7") as launch:
        members = await launch.output.pids(3)
        try:
            assert send_signal(launch.keeper.identity, signal.SIGKILL)
            await launch.keeper.wait()
            stopped = await stop_tree(launch.keeper.identity, launch.result, 300, "lost-7")

            assert not stopped.proved
            for member in members:
                assert f"pid {member.pid} (" in stopped.evidence
                assert f"start ticks {member.start_ticks}" in stopped.evidence
        finally:
            for member in members:
                send_signal(member, signal.SIGKILL)
        await all_gone(members)
        stopped = await stop_tree(launch.keeper.identity, launch.result, 300, "lost-7")
        assert not stopped.proved
        assert "no living process carries the mark lost-7" in stopped.evidence


async def test_a_keeper_killed_before_go_is_proof_enough(tmp_path: Path) -> None:
    async with launched(tmp_path, "sleep", "600", go=False) as launch:
        assert send_signal(launch.keeper.identity, signal.SIGKILL)
        await launch.keeper.wait()

        stopped = await stop_tree(launch.keeper.identity, launch.result, 300, "launch-1")
        elsewhere = await stop_tree(launch.keeper.identity, tmp_path / "missing", 300, "launch-1")

        assert stopped.proved
        assert "never executed" in stopped.evidence
        assert not elsewhere.proved


async def test_another_boot_is_proof_and_another_machine_is_none(tmp_path: Path) -> None:
    me = known(os.getpid())

    assert (await stop_tree(replace(me, boot="another"), tmp_path / "missing", 10, "x")).proved
    assert not (await stop_tree(replace(me, machine="another"), tmp_path / "missing", 10, "x")).proved


async def test_another_keeper_s_file_proves_nothing(tmp_path: Path) -> None:
    async with launched(tmp_path, "true") as launch:
        await launch.rest()
        stranger = replace(launch.keeper.identity, start_ticks=launch.keeper.identity.start_ticks - 1)

        assert not (await stop_tree(stranger, launch.result, 10, "launch-1")).proved


async def test_a_tree_that_does_not_end_in_time_is_not_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.adapters.stopping.STOP_MARGIN_MS", 50)
    async with launched(tmp_path, sys.executable, "-c", STUBBORN, stop_timeout_ms=PATIENCE_S * 1000) as launch:
        await launch.output.pids(3)
        stopped = await stop_tree(launch.keeper.identity, launch.result, 10, "launch-1")

        assert not stopped.proved
        assert "still has living processes" in stopped.evidence


async def signals_of(launch: Launch) -> dict[str, int]:
    """Of a command that printed its status: the masks of what is blocked, ignored, caught."""
    status = dict(line.split(":", 1) for line in await launch.output.lines())
    internal = 1 << 31 | 1 << 32  # 32 and 33 belong to the C library, and nobody can set them back
    return {name: int(status[name], 16) & ~internal for name in ("SigBlk", "SigIgn", "SigCgt")}


async def test_signals_are_default_and_unblocked_in_the_command(tmp_path: Path) -> None:
    async with launched(tmp_path, "cat", "/proc/self/status") as launch:
        await launch.until(Ended)
        assert await signals_of(launch) == {"SigBlk": 0, "SigIgn": 0, "SigCgt": 0}


async def test_a_hang_up_that_is_ignored_stays_ignored_in_the_command(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup bus run …
    try:
        async with launched(tmp_path, "cat", "/proc/self/status") as launch:
            await launch.until(Ended)
            assert (await signals_of(launch))["SigIgn"] == 1 << signal.SIGHUP - 1
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_no_descriptor_leaks_into_the_command(tmp_path: Path) -> None:
    ours = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(ours, True)
    try:
        async with launched(tmp_path, "ls", "/proc/self/fd") as launch:
            await launch.until(Ended)
            # 3 is the folder that ls reads.
            assert [await launch.output.line() for _ in range(4)] == ["0", "1", "2", "3"]
            assert launch.output.buffer == b""
    finally:
        os.close(ours)


async def test_the_mark_of_a_nested_launch_is_a_path(tmp_path: Path) -> None:
    async with launched(tmp_path, "sh", "-c", "echo $BUS_LAUNCH", env={"BUS_LAUNCH": "outer"}) as launch:
        assert await launch.output.line() == "outer:launch-1"
    async with launched(tmp_path, "sh", "-c", "echo $BUS_LAUNCH", launch="alone") as launch:
        assert await launch.output.line() == "alone"


async def test_the_keeper_itself_carries_nothing_of_its_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUS_LAUNCH", "callers")
    monkeypatch.setenv("CALLERS", "1")
    async with launched(tmp_path, "true", go=False) as launch:
        raw = await anyio.Path(f"/proc/{launch.keeper.identity.pid}/environ").read_bytes()
        names = {entry.partition(b"=")[0] for entry in raw.split(b"\0")}

        assert names <= {b"", b"PATH", b"HOME", b"LANG", b"LC_CTYPE"}
        assert os.readlink(f"/proc/{launch.keeper.identity.pid}/cwd") == "/"
        seen = fact(launch.keeper.identity.pid)
        assert seen is not None
        assert seen.name == "bus-keeper"


async def test_a_result_file_that_is_already_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "launch-1.jsonl").write_text("somebody's\n")
    with pytest.raises(LaunchFailed, match="FileExistsError"):
        async with launched(tmp_path, "true"):
            pass
    assert (tmp_path / "launch-1.jsonl").read_text() == "somebody's\n"


async def test_a_result_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "launch-1.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LaunchFailed):
        async with launched(tmp_path, "true"):
            pass
    assert not (tmp_path / "elsewhere").exists()


async def test_a_keeper_that_does_not_come_up_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mute = tmp_path / "mute.py"
    mute.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(keeper_start, "KEEPER", str(mute))
    monkeypatch.setattr(launches, "UP_TIMEOUT_S", 0.05)
    with pytest.raises(LaunchFailed, match="was not up within"):
        async with launched(tmp_path, "true"):
            pass
    mute.write_text("raise SystemExit(1)\n")
    monkeypatch.setattr(launches, "UP_TIMEOUT_S", PATIENCE_S)
    with pytest.raises(LaunchFailed, match="died"):
        async with launched(tmp_path, "true"):
            pass

    def all_reaped() -> bool:
        reap()
        return launches._left == []

    await until_true(all_reaped)


async def test_a_record_that_cannot_be_written_executes_nothing(tmp_path: Path) -> None:
    # The file system that is always full.
    ours, theirs = socket.socketpair()
    spec = {"argv": ["touch", str(tmp_path / "executed")], "cwd": "/", "env": {}, "result": "/dev/full"}
    ours.sendall(json.dumps(spec | {"launch": "x", "stop_timeout_ms": 1, "attached": False}).encode() + b"\nGO\n")
    code = (
        f"import os, runpy, sys\n"
        f"opened = os.open\n"
        f"os.open = lambda path, flags, *rest, **more: opened(path, flags & ~(os.O_CREAT | os.O_EXCL), *rest, **more)\n"
        f"sys.argv = ['keeper', '{theirs.fileno()}']\n"
        f"runpy.run_path({keeper_start.KEEPER!r}, run_name='__main__')\n"
    )
    with ours, theirs:
        process = await anyio.run_process([sys.executable, "-c", code], pass_fds=(theirs.fileno(),), check=False)
        said = json.loads(ours.recv(65536).splitlines()[-1])

    assert process.returncode == 1
    assert said["event"] == "not_started"
    assert not (tmp_path / "executed").exists()


def test_a_torn_or_strange_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "launch.jsonl"
    assert read_result(path) == LaunchResult()
    path.write_bytes(
        b'\n\xff\xfe\nnull\n{"event":"dance"}\n{"event":"go"}\n{"event":"ended","code":0,"signal":null,"le'
    )
    assert read_result(path) == LaunchResult(went=True)
    path.write_bytes(b'{"event":"ended","code":0,"signal":null,"new":"field"}\n{"event":"gone"}')
    assert read_result(path) == LaunchResult(went=True, ended=True, code=0, gone=True)
    assert read_result(tmp_path) == LaunchResult()


def test_a_server_gets_nothing_of_an_agent_and_all_of_its_own() -> None:
    base = {"PATH": "/bin", "LC_ALL": "C", "BUS_TOKEN": "x", "CLAUDECODE": "1", "GIT_DIR": "/other", "PORT": "9999"}

    environment = server_environment(base, {"BUS_FENCE": "7"})

    assert environment == {"PATH": "/bin", "LC_ALL": "C", "BUS_FENCE": "7"}


async def test_what_the_command_was_given_beside_its_streams_is_let_go_once_it_runs(tmp_path: Path) -> None:
    """A pipe of the caller's is the command's: whoever reads it waits for the command, not for its keeper."""
    reading, writing = os.pipe()
    program = f"import os, sys; os.write({writing}, b'x'); os.close({writing}); sys.stdin.read()"
    ours, theirs = socket.socketpair()
    result = tmp_path / "launch.jsonl"
    spec = {"argv": [sys.executable, "-c", program], "cwd": "/", "env": {}, "result": str(result), "launch": "x"}
    ours.sendall(json.dumps(spec | {"stop_timeout_ms": 1, "attached": False}).encode() + b"\nGO\n")
    words = [*keeper_start.keeper_command(), str(theirs.fileno())]
    process = await anyio.open_process(words, stdout=None, stderr=None, pass_fds=(theirs.fileno(), writing))
    os.close(writing)
    with ours, theirs, os.fdopen(reading, "rb") as pipe:
        # when the command has closed it, and lives: then nobody else has it
        assert await anyio.to_thread.run_sync(pipe.read) == b"x"
        assert process.returncode is None
        assert process.stdin is not None
        await process.stdin.aclose()
        assert await process.wait() == 0
    # and a person finds what was executed in the report
    found = read_result(result)
    assert (found.argv, found.cwd) == ((sys.executable, "-c", program), "/")
