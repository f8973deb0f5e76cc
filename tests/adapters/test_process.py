"""Who a process is, whether it lives, and a signal to nobody else."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from tests.adapters.launching import known
from tests.polling import WAIT_S, until

from interlock.adapters import process_table
from interlock.adapters.keeper.tree import words_of
from interlock.adapters.process import (
    Fact,
    ancestors,
    fact,
    host_names,
    identify,
    marked,
    nearest_host,
    probe,
    send_signal,
    session_leader,
    wait_gone,
)
from interlock.protocol.identity import Identity, Presence

NOBODY = 65_534
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def child(*argv: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours that is ended and reaped whatever happens."""
    process = subprocess.Popen(argv or ("sleep", "60"), stdout=subprocess.PIPE, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def seen(command: tuple[str, ...], name: str = "x") -> Fact:
    return Fact(1, 0, name, command, Identity("m", "b", 1, 1, 1), 1, False)


async def becomes_zombie(pid: int) -> None:
    """Return once it has ended and before anybody reaps it."""
    fd = os.pidfd_open(pid)
    try:
        await anyio.wait_readable(fd)
    finally:
        os.close(fd)


def test_a_living_process_is_alive_and_the_same_each_time() -> None:
    me = known(os.getpid())

    assert probe(me) is Presence.ALIVE
    assert identify(os.getpid()) == me


def test_a_recycled_pid_is_somebody_else() -> None:
    me = known(os.getpid())

    assert probe(replace(me, start_ticks=me.start_ticks - 1)) is Presence.GONE


def test_another_boot_of_this_machine_proves_it_gone_whatever_the_namespace() -> None:
    me = known(os.getpid())

    assert probe(replace(me, boot="another", pid_namespace=7)) is Presence.GONE


@pytest.mark.parametrize("elsewhere", [{"machine": "another"}, {"machine": "another", "boot": "another"}, {"boot": ""}])
def test_nothing_is_known_of_another_machine_or_without_a_boot(elsewhere: dict[str, str]) -> None:
    assert probe(replace(known(os.getpid()), **elsewhere)) is Presence.UNKNOWN


@linux_only
def test_nothing_is_known_of_another_pid_namespace() -> None:
    assert probe(replace(known(os.getpid()), pid_namespace=7)) is Presence.UNKNOWN


def test_no_such_process_has_no_identity() -> None:
    with child() as process:
        identity = known(process.pid)
    assert identify(process.pid) is None
    assert identify(0) is None
    assert identify(-1) is None
    assert probe(identity) is Presence.GONE


@linux_only
def test_what_cannot_be_read_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    me = known(os.getpid())

    def refuse(pid: int) -> None:
        raise PermissionError(pid)

    monkeypatch.setattr(process_table, "row", refuse)

    assert probe(me) is Presence.UNKNOWN
    assert identify(os.getpid()) is None


@linux_only
def test_a_hidden_process_is_unknown_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    me = known(os.getpid())

    def hide(path: Path) -> bytes:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_bytes", hide)
    monkeypatch.setattr(Path, "exists", lambda path: False)

    assert probe(me) is Presence.UNKNOWN
    assert probe(replace(me, pid=2**22 + 1)) is Presence.GONE


@linux_only
@pytest.mark.anyio
async def test_a_zombie_is_gone() -> None:
    with child() as process:
        identity = known(process.pid)
        process.kill()
        await becomes_zombie(process.pid)

        assert probe(identity) is Presence.GONE
        assert identify(process.pid) is None
        assert fact(process.pid) is None
        assert not send_signal(identity, signal.SIGTERM)


@linux_only
@pytest.mark.anyio
async def test_a_process_whose_first_thread_has_ended_lives_while_another_runs() -> None:
    code = (
        "import ctypes, threading, time\n"
        "def work():\n"
        "    while 'Z' not in open('/proc/self/stat').read().rpartition(')')[2]: time.sleep(0.01)\n"
        "    print('alone', flush=True); time.sleep(60)\n"
        "threading.Thread(target=work).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with child(sys.executable, "-c", code) as process:
        identity = known(process.pid)
        assert process.stdout is not None
        assert process.stdout.readline() == b"alone\n"

        assert probe(identity) is Presence.ALIVE


@pytest.mark.anyio
async def test_waiting_for_the_gone_returns_at_once() -> None:
    me = known(os.getpid())

    with anyio.fail_after(WAIT_S):
        await wait_gone(replace(me, start_ticks=me.start_ticks + 1))


@linux_only
@pytest.mark.anyio
async def test_waiting_returns_when_it_is_killed_and_closes_its_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with child() as process:
        identity = known(process.pid)
        with anyio.fail_after(WAIT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait_gone, identity)
                await anyio.wait_all_tasks_blocked()
                assert send_signal(identity, signal.SIGKILL)
        assert probe(identity) is Presence.GONE
    assert len(os.listdir("/proc/self/fd")) == before


@linux_only
@pytest.mark.anyio
async def test_a_cancelled_wait_closes_its_descriptor() -> None:
    with child() as process:
        before = len(os.listdir("/proc/self/fd"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_gone, known(process.pid))
            await anyio.wait_all_tasks_blocked()
            assert len(os.listdir("/proc/self/fd")) == before + 1
            tasks.cancel_scope.cancel()
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.anyio
async def test_without_a_pidfd_it_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.adapters.process._pidfd", lambda pid: None)
    monkeypatch.setattr("interlock.adapters.process.POLL_S", 0.01)
    with child() as process:
        identity = known(process.pid)
        with anyio.fail_after(WAIT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait_gone, identity)
                process.kill()


def test_a_signal_reaches_this_process_and_no_other_with_its_number() -> None:
    with child() as process:
        identity = known(process.pid)

        assert not send_signal(replace(identity, start_ticks=identity.start_ticks + 1), signal.SIGKILL)
        assert not send_signal(replace(identity, boot="another"), signal.SIGKILL)
        assert not send_signal(replace(identity, machine="another"), signal.SIGKILL)
        assert process.poll() is None
        assert send_signal(identity, signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM


def test_ancestors_come_nearest_first_without_the_process_itself() -> None:
    with child("sh", "-c", "sleep 60 & echo $!; wait") as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        chain = ancestors(grandchild)

        os.kill(grandchild, signal.SIGKILL)
        assert [parent.pid for parent in chain[:2]] == [process.pid, os.getpid()]
        assert chain[1].identity == identify(os.getpid())


@pytest.mark.parametrize(
    ("command", "host"),
    [
        (("/usr/bin/claude", "--print"), "claude"),
        (("claude",), "claude"),
        (("gemini --model x",), "gemini"),
        (("node", "/usr/bin/claude"), "claude"),
        (("/usr/bin/node", "--max-old-space-size=4096", "/x/gemini.js"), "gemini"),
        (("python3.12", "/x/codex.py", "exec"), "codex"),
        (("bun", "run", "/x/opencode.mjs"), "opencode"),
    ],
)
def test_a_host_is_known_by_its_program_or_its_script(command: tuple[str, ...], host: str) -> None:
    assert host in host_names(seen(command, "MainThread"))


@pytest.mark.parametrize("command", [("vi", "/usr/bin/claude"), ("python3", "-c", "/usr/bin/claude"), ("node",), ()])
def test_an_argument_that_is_no_script_makes_no_host(command: tuple[str, ...]) -> None:
    assert "claude" not in host_names(seen(command))


def test_the_nearest_host_is_found_above_a_process(tmp_path: Path) -> None:
    script = tmp_path / "gemini.py"
    script.write_text(
        "import subprocess\nprocess = subprocess.Popen(['sleep', '60'])\nprint(process.pid, flush=True)\nprocess.wait()"
    )
    with child(sys.executable, str(script)) as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        found = nearest_host(grandchild, frozenset({"claude", "gemini"}))

        assert found is not None
        assert found.pid == process.pid
        assert nearest_host(grandchild, frozenset({"no-such-host"})) is None
        os.kill(grandchild, signal.SIGKILL)


@linux_only
def test_a_session_leader_counts_only_with_a_terminal() -> None:
    with child("setsid", "sh", "-c", "echo; exec sleep 60") as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert session_leader(process.pid) is None

    master, terminal = os.openpty()
    script = "sleep 60 & echo $!; wait"
    leader = subprocess.Popen(["setsid", "--ctty", "sh", "-c", script], stdin=terminal, stdout=terminal)
    try:
        inner = int(os.read(master, 100).split()[0])
        found = session_leader(inner)

        assert found is not None
        assert found.pid == leader.pid
        assert found.terminal
        os.kill(inner, signal.SIGKILL)
    finally:
        leader.kill()
        leader.wait()
        os.close(master)
        os.close(terminal)


AGAIN = """
import os, sys
left = int(sys.argv[1])
if left:
    os.execv(sys.executable, [sys.executable, "-SsE", sys.argv[0], str(left - 1), *sys.argv[2:]])
os.execvp("sleep", ["sleep", "60"])
"""


@linux_only
def test_a_process_that_executes_a_program_keeps_its_mark_and_its_command(tmp_path: Path) -> None:
    script = tmp_path / "again.py"
    script.write_text(AGAIN)
    environment = {"PATH": os.environ["PATH"], "BUS_LAUNCH": "again-1"}
    environment |= {f"VARIABLE_{number}": "x" for number in range(2_000)}  # they take the kernel a while
    with child(sys.executable, "-SsE", str(script), "60", *["x"] * 2_000, env=environment) as process:
        while (command := process_table.command(process.pid)) != ("sleep", "60"):
            assert command
            assert words_of(process.pid) != [""]
            assert process_table.launches(process.pid) == ["again-1"]


@linux_only
@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_another_user_s_process_that_executes_a_program_keeps_its_command(tmp_path: Path) -> None:
    script = tmp_path / "again.py"
    script.write_text(AGAIN)
    with child(sys.executable, "-SsE", str(script), "60", *["x"] * 2_000) as process:
        looker = os.fork()
        if not looker:
            found = 1
            try:
                os.setuid(NOBODY)
                while (command := process_table.command(process.pid)) and command != ("sleep", "60"):
                    pass
                found = 0 if command else 2
            finally:
                os._exit(found)
        assert os.waitstatus_to_exitcode(os.waitpid(looker, 0)[1]) == 0


@linux_only
@pytest.mark.parametrize("ends", [b"4096", b"8192"], ids=["empty", "unreadable"])
def test_what_shows_nothing_for_good_is_not_waited_for(ends: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(seconds: float) -> None:
        raise AssertionError(f"waits {seconds} s")

    with child("env", "-i", "sleep", "60") as process:
        until(lambda: words_of(process.pid) == ["sleep", "60"])
        monkeypatch.setattr("interlock.adapters.proc_memory.sleep", wait)
        monkeypatch.setattr(
            "interlock.adapters.proc_memory._image", lambda pid: [b"4096", b"1024", b"2048", b"4096", ends]
        )
        assert process_table.launches(process.pid) == []
        assert process.poll() is None


def test_the_mark_is_found_as_a_part_of_the_path_only() -> None:
    environment = {"PATH": os.environ["PATH"], "BUS_LAUNCH": "outer-41:inner-42"}
    with child("sh", "-c", "echo; exec sleep 60", env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()

        for path in ("outer-41", "inner-42", "whatever:inner-42"):
            assert process.pid in [carrier.pid for carrier in marked(path)]
        for path in ("inner-4", "outer-41:inner", "42"):
            assert process.pid not in [carrier.pid for carrier in marked(path)]
