"""The process table, raw: one row of it, a command line, an environment's mark, and where "here" is.

Linux reads /proc; elsewhere psutil answers, with start ticks in hundredths of a second since the epoch.

What this module never does: decide anything, or take "cannot be read" for "is not there".
"""

import functools
import importlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from interlock.adapters.proc_memory import read_memory

NAMED_MAX = 120  # characters of a program's name
ENVIRON_BYTES_MAX = 6 * 1024 * 1024  # what the kernel lets one be
ARGUMENTS_MAX = 64 * 1024  # bytes of a command line that are read: names stand at its beginning


class Here(NamedTuple):
    """Where we are: what every identity taken here has in common."""

    machine: str
    boot: str  # empty where it cannot be read: then nothing can be said about any process
    pid_namespace: int


class Row(NamedTuple):
    """One process; `dead` for a zombie, start ticks as the system keeps them."""

    name: str
    parent_pid: int
    session_pid: int
    terminal: bool
    start_ticks: int
    dead: bool


@functools.cache
def here() -> Here:
    """This machine, this boot, our pid namespace: they do not change while we live."""
    machine = ""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            machine = machine or Path(path).read_text("ascii", "replace").strip()
        except OSError:
            continue
    machine = machine or socket.gethostname()
    if sys.platform != "linux":
        return Here(machine, _boot_elsewhere(), 0)
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return Here(machine, "", 0)  # another namespace's /proc: its numbers are not ours
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return Here(machine, boot, Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return Here(machine, "", 0)


def row(pid: int) -> Row | None:
    """One line of the process table; None only where there is certainly no such process.

    Raises:
        OSError: it cannot be read; nothing follows from that.
    """
    if pid <= 0:
        return None
    if sys.platform != "linux":
        return _elsewhere(pid)
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        if _hidden(pid):
            raise PermissionError(f"process {pid} is there, but hidden") from None
        return None
    head, _, tail = text.rpartition(b")")
    fields = tail.split()  # from field 3 on
    try:
        # A leader whose other threads live on shows as Z too, with more than one thread: that one is not dead.
        dead = fields[0] in (b"Z", b"X", b"x") and int(fields[17]) <= 1
        name = head.partition(b"(")[2].decode("utf-8", "replace")
        return Row(name, int(fields[1]), int(fields[3]), fields[4] != b"0", int(fields[19]), dead)
    except (IndexError, ValueError) as error:
        raise OSError(f"/proc/{pid}/stat cannot be understood") from error


def children(pid: int) -> list[int]:
    """A process's children, as far as they can be seen without a look at every process; some may be missing."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    except OSError:
        pass  # it has gone, or this kernel has no such file
    return found


def _hidden(pid: int) -> bool:
    """Whether a process that /proc does not show is there all the same (hidepid, or no /proc at all)."""
    try:
        os.kill(pid, 0)  # sends nothing, only asks; a pidfd would not do where the system has none
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return not Path(f"/proc/{pid}/stat").exists()  # there by now: it is a newcomer, and was not there when we read


def program(words: Sequence[str], name: str) -> str:
    """A program's name alone, also of one that shows its arguments as its title: they may hold secrets.

    Args: words: its command line. name: what the kernel calls it, where there is none.
    """
    return os.path.basename(words[0].split(" ", 1)[0])[:NAMED_MAX] if words else name


def age_s(start_ticks: int) -> float:
    """How long ago a process of this boot was started, a machine's sleep included."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - start_ticks / 100


def command(pid: int) -> tuple[str, ...]:
    """A process's arguments, at most 64 KiB of them; empty where they may not be read.

    Raises:
        OSError: the process is gone.
    """
    if sys.platform != "linux":
        try:
            return tuple(_psutil().Process(pid).cmdline())
        except _psutil().Error:
            return ()
    try:
        raw = read_memory(pid, "cmdline", ARGUMENTS_MAX)
    except PermissionError:
        return ()
    return tuple(part.decode("utf-8", "replace") for part in raw.rstrip(b"\0").split(b"\0")) if raw else ()


def all_pids() -> list[int]:
    """Pids of every process that can be seen, in order."""
    if sys.platform != "linux":
        return sorted(_psutil().pids())
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def own_pids() -> Iterator[int]:
    """Pids of this user's processes, in order."""
    if sys.platform != "linux":
        yield from all_pids()
        return
    for pid in all_pids():
        try:
            if os.stat(f"/proc/{pid}").st_uid == os.geteuid():
                yield pid
        except OSError:
            continue


def launches(pid: int) -> list[str]:
    """The parts of a process's BUS_LAUNCH; none where there is none or it cannot be read."""
    if sys.platform != "linux":
        try:
            return str(_psutil().Process(pid).environ().get("BUS_LAUNCH", "")).split(":")
        except (_psutil().Error, OSError):
            return []
    mark = environment(pid).get(b"BUS_LAUNCH")
    return [] if mark is None else mark.decode("utf-8", "replace").split(":")


def environment(pid: int) -> dict[bytes, bytes]:
    """What a process was started with, on Linux; empty where it cannot be read."""
    try:
        raw = read_memory(pid, "environ", ENVIRON_BYTES_MAX)
    except OSError:
        return {}
    return dict(entry.partition(b"=")[::2] for entry in reversed(raw.split(b"\0")))  # the first counts, as for getenv


def open_files(pid: int) -> set[str]:
    """Paths that a process has open, its folder and its program; as far as that can be seen."""
    if sys.platform == "linux":
        return _open_here(pid)
    try:
        process = _psutil().Process(pid)
        return {process.cwd(), process.exe(), *(each.path for each in process.open_files())}
    except (_psutil().Error, OSError):
        return set()


def process_of(thread: int) -> int:
    """The process that a thread's number means; any other number as it is."""
    try:
        with open(f"/proc/{thread}/status", encoding="ascii", errors="replace") as file:
            groups = [int(line.split()[1]) for line in file if line.startswith("Tgid:")]
    except OSError:
        return thread
    return groups[0] if groups else thread


def _open_here(pid: int) -> set[str]:
    found, folder = set[str](), f"/proc/{pid}"
    try:
        names = ["cwd", "exe", "root", *(f"fd/{fd}" for fd in os.listdir(f"{folder}/fd"))]
    except OSError:
        return found
    for name in names:
        try:
            found.add(os.readlink(f"{folder}/{name}"))
        except OSError:
            continue
    return found


def _psutil() -> Any:
    """psutil, only where /proc cannot be read: importing it takes longer than all of this module."""
    return importlib.import_module("psutil")


def _boot_elsewhere() -> str:
    """macOS's id of this boot; its boot time moves when the clock is set, and would call the living gone."""
    try:
        asked = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=False)
    except OSError:
        return str(int(_psutil().boot_time()))
    return asked.stdout.strip() or str(int(_psutil().boot_time()))


def _elsewhere(pid: int) -> Row | None:
    """The same from psutil; start ticks are hundredths of a second since the epoch.

    Raises:
        OSError: it cannot be read.
    """
    psutil = _psutil()
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            ticks = int(process.create_time() * 100)
            dead = process.status() == psutil.STATUS_ZOMBIE
            terminal = process.terminal() is not None
            return Row(process.name(), process.ppid(), os.getsid(pid), terminal, ticks, dead)
    except psutil.ZombieProcess:
        return Row("", 0, 0, False, 0, True)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None
    except psutil.Error as error:
        raise PermissionError(str(error)) from error
