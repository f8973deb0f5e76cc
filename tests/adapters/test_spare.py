"""Daemons that outlive builds (`[bus] spare`): neither counted nor killed, told of; and nothing else escapes by it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest
from msgspec.structs import replace
from tests.adapters.launching import PATIENCE_S, Launch, Output, known, lines
from tests.polling import until_true

from interlock.adapters.keeper.spec import Spec
from interlock.adapters.keeper.tree import matches, words_of
from interlock.adapters.launch_result import Ended, Gone, Started, read_result
from interlock.adapters.launches import LaunchSpec, start_keeper, stop_tree
from interlock.adapters.process import probe, send_signal
from interlock.adapters.stopping import judge
from interlock.protocol.identity import Identity, Presence

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sparing needs /proc")
SPARE = (("watchd",),)


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Path]:
    """A folder with the program `watchd`, which sleeps; whatever is left of it is killed at the end."""
    shutil.copy(shutil.which("sleep") or "/bin/sleep", tmp_path / "watchd")
    yield tmp_path
    for name in os.listdir("/proc"):
        if name.isdigit() and (tmp_path.name in " ".join(words_of(int(name)))):
            os.kill(int(name), signal.SIGKILL)


@asynccontextmanager
async def launched(folder: Path, script: str, *, name: str = "one") -> AsyncIterator[Launch]:
    spec = LaunchSpec(
        argv=("sh", "-c", script), cwd=str(folder), env={"PATH": f"{folder}:{os.environ['PATH']}"},
        result=str(folder / f"{name}.jsonl"), launch=name, stop_timeout_ms=300, spare=SPARE,
    )  # fmt: skip
    output = Output()
    keeper = await start_keeper(
        spec, stdin=subprocess.DEVNULL, stdout=output.write, stderr=subprocess.STDOUT, new_session=True
    )
    try:
        await keeper.go()
        yield Launch(keeper, spec, output)
    finally:
        keeper.kill()
        keeper.close()
        output.close()
        await keeper.wait()


def daemon_is_up(folder: Path) -> bool:
    """It goes by its own name."""
    return any(words_of(int(name))[:1] == [f"{folder}/watchd"] for name in os.listdir("/proc") if name.isdigit())


async def spared(started: Launch) -> list[Identity]:
    """Wait for the keeper's end; who it says is left, each verified to live."""
    gone = await started.until(Gone)
    await started.keeper.wait()
    return [known(each.pid) for each in gone.spared]


@pytest.mark.anyio
async def test_a_daemon_neither_keeps_the_tree_nor_is_killed_and_is_told_of(daemons: Path) -> None:
    os.mkfifo(daemons / "end")
    worker = "read end < end"  # it ends when it is told to, after the command itself
    async with launched(daemons, f"setsid {daemons}/watchd 600 & setsid sh -c '{worker}' & exit 5") as started:
        ended = await started.until(Ended)
        assert ended.code == 5
        assert lines(started.result)[-1] == "ended", "the tree is not gone before its last process is"
        await anyio.to_thread.run_sync((daemons / "end").write_text, "\n")
        (daemon,) = await spared(started)
        assert probe(daemon) is Presence.ALIVE
        end = judge(started.keeper.identity, started.result, "one")
        assert end is not None
        assert end.proved
        assert f"left running, as a daemon that outlives commands: watchd (pid {daemon.pid})" in end.evidence
        assert send_signal(daemon, signal.SIGKILL)


@pytest.mark.anyio
async def test_a_stop_leaves_the_daemon_and_ends_what_it_started(daemons: Path) -> None:
    """Its children count unless they go by such a name as well: a server that a daemon runs is no daemon."""
    (daemons / "parent.py").write_text(
        "import os, sys, time\n"
        "executed, child = os.pipe()\n"
        "if os.fork() == 0: os.execv('/bin/sleep', ['child-of-a-daemon', '600'])\n"
        "if os.fork() == 0: os.execv('/bin/sleep', ['watchd', '600'])\n"
        "os.close(child)\n"
        "os.read(executed, 1)\n"  # the end, once each of them goes by its own name
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    (daemons / "daemon.sh").write_text(f"exec -a watchd {sys.executable} -I {daemons}/parent.py {daemons}\n")
    script = f"setsid bash {daemons}/daemon.sh & wait"
    async with launched(daemons, script) as started:
        assert await started.output.line() == "up"
        stopped = await stop_tree(started.keeper.identity, started.result, 300, "one")
        assert stopped.proved, stopped
        left = read_result(started.result).spared
        assert sorted(each.command.split()[0] for each in left) == ["watchd", "watchd"]
        for each in left:
            send_signal(known(each.pid), signal.SIGKILL)


@pytest.mark.anyio
@pytest.mark.parametrize("script", ["exec {}/watchd 600", "{}/watchd 600", "{}/watchd 600 & wait"])
async def test_the_command_itself_and_what_is_in_its_session_never_escape(daemons: Path, script: str) -> None:
    async with launched(daemons, script.format(daemons)) as started:
        assert (await started.until(Started)).leader is not None
        stopped = await stop_tree(started.keeper.identity, started.result, 300, "one")
        assert stopped.proved
        assert not read_result(started.result).spared


@pytest.mark.anyio
async def test_what_is_killed_by_its_group_takes_no_daemon_along(daemons: Path) -> None:
    """A deaf process in the daemon's own session and group is killed; the daemon beside it is not."""
    deaf = "import os,signal,time; signal.signal(15, 1); print(os.getpid(), flush=True); time.sleep(600)"
    inside = f"{daemons}/watchd 600 & exec {sys.executable} -I -c '{deaf}'"
    (daemons / "inside.sh").write_text(inside)
    async with launched(daemons, "setsid sh inside.sh & wait") as started:
        pid = known(int(await started.output.line()))
        await until_true(lambda: daemon_is_up(daemons))  # until then it is a shell, which is not spared
        stopped = await stop_tree(started.keeper.identity, started.result, 300, "one")
        assert stopped.proved
        assert probe(pid) is Presence.GONE
        (left,) = read_result(started.result).spared
        assert send_signal(known(left.pid), signal.SIGKILL)


@pytest.mark.parametrize(
    ("entry", "is_it"),
    [
        (["sleep"], True),  # its file
        (["my-name"], True),  # what it calls itself
        (["my"], False),
        (["slee"], False),
        (["600"], False),
        (["sleep", "600"], True),
        (["my-name", "x"], False),
        (["sleep", "0"], True),
        (["sleep", "600", "0", "1"], False),
    ],
)
def test_a_program_matches_by_its_whole_name_and_the_arguments_asked_for(entry: list[str], is_it: bool) -> None:
    sleep = os.path.realpath(shutil.which("sleep") or "/bin/sleep")
    process = subprocess.Popen(["/x/my-name", "600", "0"], executable=sleep)
    try:
        while not psutil.Process(process.pid).cmdline():
            pass  # the kernel has its words a moment after Popen returns
        assert matches(process.pid, (["other"], entry)) is is_it
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def test_a_spec_without_these_fields_is_read_too() -> None:
    """A supervisor of an earlier version meets a later keeper where an upgrade came under its feet."""
    spec = LaunchSpec(argv=("x",), cwd="/", env={}, result="r", launch="l")
    assert replace(spec, stop_timeout_ms=1) != spec
    read = Spec(argv=["x"], cwd="/", env={}, result="r", launch="l", stop_timeout_ms=30_000, attached=False)
    assert (read.log, tuple(read.spare)) == ("", ())
