"""A keeper in a window: what is printed reaches window and log, keys reach the command, its end is proved."""

import os
import signal
import socket
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.adapters.launching import PATIENCE_S, STUBBORN, Launch, Output, all_gone, known, lines
from tests.polling import until_true

from interlock.adapters.keeper.window import for_log
from interlock.adapters.launch_result import Ended, Gone, read_result
from interlock.adapters.launches import LaunchFailed, LaunchSpec
from interlock.adapters.paths import Home
from interlock.adapters.process import fact, send_signal, wait_gone
from interlock.adapters.stopping import stop_tree
from interlock.adapters.terminals import (
    attach_command,
    end_window,
    open_window,
    sweep_windows,
    tmux_problem,
    window_socket,
)

needs_tmux = pytest.mark.skipif(bool(tmux_problem()), reason=tmux_problem() or "tmux is there")


class Windowed(Launch):
    """A launch in a window, its log, and the person's commands."""

    def tmux(self, *words: str) -> str:
        command = attach_command(Path(self.spec.result).parent.parent, self.spec.launch)
        return subprocess.run([*command[:-1], *words], capture_output=True, text=True, check=True).stdout

    @property
    def log(self) -> str:
        return Path(self.spec.log).read_text()

    async def logged(self, text: str, times: int = 1) -> None:
        """Wait until the log holds it so often."""
        await until_true(lambda: self.log.count(text) >= times, lambda: self.log)


@asynccontextmanager
async def in_window(home: Home, *argv: str, go: bool = True, stop_timeout_ms: int = 300) -> AsyncIterator[Windowed]:
    home.create()
    log = home.logs / "one.log"
    log.touch(0o600)
    spec = LaunchSpec(
        argv=argv, cwd="/", env={"PATH": os.environ["PATH"]}, result=str(home.launches / "one.jsonl"), launch="one",
        stop_timeout_ms=stop_timeout_ms, log=str(log),
    )  # fmt: skip
    keeper = await open_window(home, spec, title="one")
    output = Output()
    try:
        if go:
            await keeper.go()
        yield Windowed(keeper, spec, output)
    finally:
        output.close()
        keeper.kill()
        keeper.close()
        end_window(window_socket(home.root, "one"))
        with anyio.CancelScope(shield=True), anyio.fail_after(PATIENCE_S):
            await keeper.wait()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "bus")


@needs_tmux
@pytest.mark.anyio
async def test_keys_and_size_reach_the_command_and_its_words_reach_the_log_without_colours(home: Home) -> None:
    program = """
import os, signal, sys
signal.signal(signal.SIGWINCH, lambda *_: print(os.get_terminal_size(), flush=True))
print("\\033[1;32mready\\033[0m", os.get_terminal_size(), flush=True)
print("got", sys.stdin.readline().strip(), flush=True)
sys.exit(3 if sys.stdin.readline() == "bye\\n" else 4)
"""
    async with in_window(home, "python3", "-c", program) as launch:
        await launch.logged("ready os.terminal_size(columns=200, lines=")
        launch.tmux("send-keys", "hello", "Enter")
        await launch.logged("got hello\n")
        launch.tmux("resize-window", "-x", "77", "-y", "33")
        await launch.logged("columns=77")
        launch.tmux("send-keys", "bye", "Enter")
        await launch.until(Gone)
        assert read_result(launch.result).code == 3


@needs_tmux
@pytest.mark.anyio
async def test_a_closed_window_ends_even_a_stubborn_tree_with_proof(home: Home) -> None:
    async with in_window(home, "python3", "-c", STUBBORN) as launch:
        await launch.logged("\n", times=3)
        tree = [known(int(pid)) for pid in launch.log.split()]
        launch.keeper.close()  # as where the supervisor has died
        launch.tmux("kill-window")
        await all_gone([*tree, launch.keeper.identity])
        result = read_result(launch.result)
        assert (result.closed, result.gone, result.subreaper) == (True, True, True)


@needs_tmux
@pytest.mark.anyio
async def test_a_window_closed_before_go_executes_nothing(home: Home, tmp_path: Path) -> None:
    async with in_window(home, "touch", str(tmp_path / "executed"), go=False) as launch:
        launch.tmux("kill-server")
        await wait_gone(launch.keeper.identity)
        assert lines(launch.result)[-1] == "not_started"
        assert not (tmp_path / "executed").exists()


@needs_tmux
@pytest.mark.anyio
async def test_ctrl_c_in_the_window_reaches_the_command(home: Home) -> None:
    async with in_window(home, "sh", "-c", "echo up; exec sleep 600") as launch:
        await launch.logged("up\n")
        launch.tmux("send-keys", "C-c")
        assert (await launch.until(Ended)).signal == signal.SIGINT
        assert not read_result(launch.result).closed


@needs_tmux
@pytest.mark.anyio
@pytest.mark.parametrize("folder", ["bus", "x" * 120])
async def test_what_windows_left_behind_is_swept_once_it_is_old(tmp_path: Path, folder: str) -> None:
    home = Home(tmp_path / folder)
    async with in_window(home, "sleep", "600") as launch:
        path = window_socket(home.root, "one")
        dead = path.with_name(path.name[:-2] + "zz")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(dead))
        listener.close()
        dead.with_name(f"{dead.name}.lock").touch()
        other = path.with_name("0123456789abcdef-0123456789ab" if folder == "bus" else "0123456789abcdef.sock")
        other.touch()
        assert sweep_windows(home.root, set()) == 0  # too young
        for each in (path, dead, dead.with_name(f"{dead.name}.lock"), other):
            os.utime(each, (1, 1))
        assert sweep_windows(home.root, set()) == 2
        assert (path.is_socket(), dead.exists(), other.exists()) == (True, False, True)
        other.unlink()
        assert "server" in launch.tmux("list-windows")


@needs_tmux
@pytest.mark.anyio
async def test_a_tmux_that_stands_still_holds_up_neither_command_nor_log_nor_stop(home: Home) -> None:
    script = "for i in {1..50000}; do echo line $i; done; echo done; exec sleep 600"
    async with in_window(home, "bash", "-c", script, go=False) as launch:
        seen = fact(launch.keeper.identity.pid)
        assert seen is not None
        tmux = known(seen.parent_pid)
        assert send_signal(tmux, signal.SIGSTOP)
        try:
            await launch.keeper.go()
            await launch.logged("done\n")
            assert launch.log.splitlines()[-2:] == ["line 50000", "done"]
            stopped = await stop_tree(launch.keeper.identity, launch.result, 300, "one")
            assert stopped.proved
        finally:
            send_signal(tmux, signal.SIGCONT)


@needs_tmux
@pytest.mark.anyio
async def test_last_words_reach_the_log_before_the_end_is_told(home: Home) -> None:
    async with in_window(home, "bash", "-c", "for i in {1..20000}; do echo line $i; done; exit 7") as launch:
        await launch.until(Gone)
        assert launch.log.splitlines()[-1] == "line 20000"
        assert stat.S_IMODE(window_socket(home.root, "one").parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (None, "tmux is not installed"),
        ("echo tmux 2.8", "tmux 2.8 is too old"),
        ("echo broken >&2; exit 1", "broken"),
        ("echo tmux 3.0a", ""),
        ("echo tmux next-3.6", ""),
        ("echo tmux master", ""),
    ],
)
def test_a_tmux_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, says: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if script is not None:
        (tmp_path / "tmux").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "tmux").chmod(0o755)
    problem = tmux_problem()
    assert says in problem
    assert bool(says) == bool(problem)
    assert not says or 'terminal = "none"' in problem


@pytest.mark.anyio
async def test_without_tmux_nothing_is_started(home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchFailed, match="install tmux"):
        async with in_window(home, "true"):
            pass
    assert not list(home.launches.iterdir())


@pytest.mark.parametrize(
    ("printed", "logged"),
    [
        (b"a\x1b[1;32mb\x1b[0mc", b"abc"),
        (b"\x1b]0;a title\x07x\x1b]8;;http://y\x1b\\z", b"xz"),
        (b"\x1bP+q544e\x1b\\x\x1b(By\x1b=z\x1b7", b"xyz"),
        (b"one\r\ntwo\r\r\nthree", b"one\ntwo\nthree"),
        (b"10%\r20%\rdone\n", b"10%\r20%\rdone\n"),
        (b"\x1b\x01garbage \x1b[\x01 goes on\n", b"\x1b\x01garbage \x1b[\x01 goes on\n"),
        (b"\x1b]never ended" + b"x" * 5000 + b"\n", b"\x1b]never ended" + b"x" * 5000 + b"\n"),
        ("Größe \x1b[31m✓\x1b[m\n".encode(), "Größe ✓\n".encode()),
    ],
)
@pytest.mark.parametrize("bytes_at_once", [1, 3, 65536])
def test_the_log_has_the_text_and_not_what_is_meant_for_the_screen(
    printed: bytes, logged: bytes, bytes_at_once: int
) -> None:
    text, partial = b"", b""
    for at in range(0, len(printed), bytes_at_once):
        piece, partial = for_log(partial, printed[at : at + bytes_at_once])
        text += piece
    assert text + for_log(partial, b"")[0] == logged
