"""Starting a supervisor in the background: by `bus up`, or by any command that needs one and may start it."""

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator

from interlock.adapters.cli.options import Failure
from interlock.adapters.homes import shows_only_folders
from interlock.adapters.paths import BadHome, Home

START_S = 20.0  # interpreter, imports, replay
ANSWER_S = 2.0


def autostart(home: Home) -> None:
    """Start a supervisor because a command needs one. Raises Failure 69 where that is not allowed."""
    if os.environ.get("BUS_AUTOSTART") == "0":
        raise Failure(69, "no supervisor runs, and BUS_AUTOSTART=0 forbids to start one: bus up")
    if home.down.exists():
        raise Failure(69, "the bus was taken down with bus down: bus up starts it again")
    if not _may_write(home):
        why = f"no supervisor runs for {home.root}, and it may not be written from here"
        raise Failure(69, f"{why} (a sandbox, or a read-only disk?): start it outside, or mend the disk: bus up")
    start(home)


def _may_write(home: Home) -> bool:
    """The home, or the nearest directory above that is there, can be written to."""
    nearest = next(each for each in (home.root, *home.root.parents) if each.exists())
    return os.access(nearest, os.W_OK)


def start(home: Home) -> bool:
    """Start a supervisor, detached, and wait until it serves.

    Returns:
        False where another one runs already.

    Raises:
        Failure: it did not come up; the sentence is its own.
    """
    from interlock.adapters.cli.connection import connect

    with contextlib.suppress(FileNotFoundError):
        connect(str(home.root)).close()  # a sandbox that refuses the socket is no place to start in: SocketRefused
    if shows_only_folders(str(home.root)):
        raise Failure(69, f"only inbox folders are to be seen in {home.root} (a container?): start it outside: bus up")
    try:
        home.create()
    except BadHome as error:
        raise Failure(73, str(error)) from None
    until = time.monotonic() + START_S
    with _one_at_a_time(home):
        while not _listens(home):
            if os.environ.get("BUS_LAUNCH"):  # whatever is started below a keeper is its descendant (ADR 6)
                why = "no supervisor runs, and one started from inside a bus run would end with it: bus up outside"
                raise Failure(69, why)
            if _spawn(home):
                return True
            if _wait_until_it_serves(home, or_is_gone=time.monotonic() < until):
                return False
    _wait_until_it_serves(home)
    return False


@contextlib.contextmanager
def _one_at_a_time(home: Home) -> Iterator[None]:
    """Forty clients of a supervisor that died start one process, not forty. Nobody waits for a stopped one for ever."""
    folder = os.open(home.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.02)
        yield  # Without the lock as well: the home's own lock decides who serves.
    finally:
        os.close(folder)


def _spawn(home: Home) -> bool:
    """Start the process and hear how that went. Returns False where another one holds the lock."""
    reading, writing = os.pipe()
    try:
        start_process(home, writing)
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        word = _read_word(pipe.fileno())
    return _judge(home, word)


def start_process(home: Home, fd: int) -> None:
    """Start an interpreter that becomes the supervisor, see `daemon.py`. Args: fd: where it says how that went."""
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.adapters.cli.daemon", str(home.root), str(fd)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(fd,),
        start_new_session=True,
        cwd="/",
        env=environment(),
    )
    process.returncode = 0  # it is not ours to wait for: it detaches, and its parent leaves at once


def _listens(home: Home) -> bool:
    """Whether somebody takes connections already: then no process need be started to learn it."""
    from interlock.adapters.cli.connection import connect

    try:
        connect(str(home.root)).close()
    except FileNotFoundError:
        return False
    return True


def _judge(home: Home, word: str) -> bool:
    kind, _, rest = word.partition(" ")
    if kind == "READY":
        return True
    if kind == "RUNNING":
        return False
    if kind == "FAILED":
        code, _, why = rest.partition(" ")
        raise Failure(int(code), why)
    raise Failure(69, f"the supervisor did not come up: see {home.logs / 'supervisor.log'}, or bus up --foreground")


def _wait_until_it_serves(home: Home, *, or_is_gone: bool = False) -> bool:
    """Another one holds the lock: it is coming up, or it hangs. Or a service manager starts one for our connection.

    Returns: False, where that may be, once it has gone: a process that is being killed is deaf before its lock is free.
    """
    from interlock.adapters.cli.connection import connect
    from interlock.adapters.flock import holder, living_holder

    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            with connect(str(home.root)) as connection:
                connection.settimeout(ANSWER_S if living_holder(home.lock) else START_S)
                connection.sendall(b'{"to":"supervisor","id":"up","body":{"type":"PING"}}\n')
                if connection.recv(65536):
                    return True
        except TimeoutError:
            break
        except OSError:
            time.sleep(0.05)
            if or_is_gone and living_holder(home.lock) is None:
                return False
    pid = holder(home.lock).get("pid", "unknown")
    raise Failure(69, f"a supervisor (pid {pid}) holds {home.lock} but does not answer: end it, or wait for it")


def _read_word(fd: int) -> str:
    """The line that the starting supervisor says; "" where it ends without one, or takes too long."""
    data = b""
    until = time.monotonic() + START_S
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([fd], [], [], max(0.0, until - time.monotonic()))
        chunk = os.read(fd, 65536) if ready else b""
        if not chunk:
            break
        data += chunk
    return data.decode("utf-8", "replace").strip()


def environment() -> dict[str, str]:
    """The supervisor keeps no agent's environment. BUS_HOME goes as an argument."""
    from interlock.adapters.launches import server_environment

    loader = {name: os.environ[name] for name in ("PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
    return server_environment(os.environ, loader)  # what this Python was started with, it is started with again
