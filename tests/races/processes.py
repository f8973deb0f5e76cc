"""Many real processes on few cores: all that a command needs is imported once, and each process is a fork of that.

A fork runs the very code of `bus`, in a process, a session and an environment of its own; what it does not do again
is start an interpreter. What `bus run` and an automatic start launch are real executions, as always.
"""

import faulthandler
import importlib
import os
import pkgutil
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import interlock.adapters.cli
from interlock.adapters.cli import entry

CLOSED = 255  # a process that broke with an exception
LIMIT_S = 420.0  # no command of a client waits for longer: `bus run` gives up after five minutes
NO_END = "had no end: "  # so begins what is told of one that had to be ended


def warm() -> None:
    """Import what commands import when they run."""
    for module in pkgutil.iter_modules(interlock.adapters.cli.__path__):
        if module.name not in {"daemon", "__main__"}:
            importlib.import_module(f"interlock.adapters.cli.{module.name}")
    importlib.import_module("interlock.client")
    importlib.import_module("interlock.adapters.client.blocking")
    importlib.import_module("anyio._backends._asyncio")


def fork(work: Callable[[], int], *, out: int = -1, err: int = -1) -> int:
    """Do that in a process of its own, and end with the code that it returns. Args: out, err: its stdout and stderr."""
    pid = os.fork()
    if pid == 0:
        _child(work, out, err)
    return pid


def bus(words: list[str], *, first: Callable[[], object] = lambda: None, out: int = -1, err: int = -1) -> int:
    """Start one command; its pid. Who it speaks for is in this process's environment.

    Args: first: done in the new process before the command.
    """
    return fork(lambda: _command(words, first), out=out, err=err)


class Ended(NamedTuple):
    """How a command ended. A code below 0: by that signal."""

    code: int
    said: str
    pid: int


def call(
    words: list[str], *, first: Callable[[], object] = lambda: None, err: int = -1, limit_s: float = LIMIT_S
) -> Ended:
    """Run one command to its end.

    Args:
        limit_s: within so long it ends. Else it is made to say on its stderr where it stands, and is ended.
    """
    reading, writing = os.pipe()
    pid = bus(words, first=first, out=writing, err=err)
    os.close(writing)
    until, said = time.monotonic() + limit_s, b""
    try:
        while True:
            ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                os.write(err if err >= 0 else 2, f"{NO_END}bus {' '.join(words)} (pid {pid}), {limit_s:g} s\n".encode())
                _end(pid)
                break
            part = os.read(reading, 65536)
            if not part:
                break
            said += part
    finally:
        os.close(reading)
    return Ended(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode(errors="replace"), pid)


def _end(pid: int) -> None:
    """It shows where each of its threads is, and ends; one that is stopped first goes on."""
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGABRT)
    pidfd = os.pidfd_open(pid)
    try:
        if not select.select([pidfd], [], [], 10)[0]:
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(pidfd)


def tracebacks(said: Sequence[str]) -> list[str]:
    """Of lines that many programs wrote: each traceback, whole, and each command that had no end, with where it stood.

    A traceback ends with the first line after it that is not indented: that names the exception.
    """
    found = list[str]()
    inside = False
    for line in said:
        if line.startswith((NO_END, "Traceback (most recent", "Fatal Python error")):
            found.append(line)
            inside = True
        elif inside:
            found[-1] += f"\n    {line}"
            inside = line.startswith((" ", "Thread 0x", "Current thread 0x")) or not line
    return found


def _command(words: list[str], first: Callable[[], object]) -> int:
    first()
    sys.argv = ["bus", *words]
    try:
        return entry.main()
    except SystemExit as ending:
        return int(ending.code or 0)


def _child(work: Callable[[], int], out: int, err: int) -> NoReturn:
    code = CLOSED
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(signum, signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(out if out >= 0 else nothing, 1)
        if err >= 0:
            os.dup2(err, 2)
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1)  # says where it stands, and goes on
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)
