"""Our tree: who descends from us, who is to be spared, who somebody is for certain; and a signal to one of them.

It reads /proc, or asks ps where there is none. What it never does: signal by a bare pid where the system has pidfds.
"""

import _signal as signal  # type: ignore[import-not-found]  # as keeper.py has it
import _socket
import os
import sys
import time

from interlock.adapters.lean import suppress
from interlock.adapters.proc_memory import read_memory

if sys.platform != "linux":
    import subprocess  # ps, where there is no /proc


PIDFD_SIGNAL_PROCESS_GROUP = 4


class Row:
    """One process: its parent, session (0: unknown), start (ticks, or seconds where there is no /proc), if a zombie.

    And the name of what it executes, empty where that is not known: it changes with exec.
    """

    __slots__ = ("dead", "name", "parent", "session", "start")  # typing takes longer to import than all of this

    def __init__(self, parent: int, session: int, start: int, dead: bool, name: bytes = b"") -> None:
        self.parent = parent
        self.session = session
        self.start = start
        self.dead = dead
        self.name = name


def row(pid: int) -> Row | None:
    """One process from /proc; None where it cannot be read."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            head, _, tail = os.read(fd, 4096).rpartition(b")")
            fields = tail.split()  # from field 3 on
        finally:
            os.close(fd)
        # A leader whose other threads live on shows as Z too, with more than one thread: that one is not dead.
        parent, session, start = int(fields[1]), int(fields[3]), int(fields[19])
        dead = fields[0] in (b"Z", b"X", b"x") and int(fields[17]) <= 1
        return Row(parent, session, start, dead, head.partition(b"(")[2])
    except (OSError, IndexError, ValueError):
        return None


def table() -> dict[int, Row]:
    """Every process that can be seen; what cannot be read now is found by the next scan."""
    try:
        if sys.platform != "linux":
            command = ["ps", "-A", "-o", "pid=,ppid=,state=,lstart="]
            text = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C"}).stdout
            lines = (line.split(None, 3) for line in text.splitlines())
            return {
                int(pid): Row(int(parent), 0, int(time.mktime(time.strptime(start.strip()))), state[0] == "Z")
                for pid, parent, state, start in lines
            }
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
        return {pid: seen for pid in pids if (seen := row(pid)) is not None}
    except (OSError, ValueError):
        return {}


def descendants() -> dict[int, Row]:
    """Our living descendants, parents first."""
    rows = table()
    children: dict[int, list[int]] = {}
    for pid, seen in rows.items():
        children.setdefault(seen.parent, []).append(pid)
    found: list[int] = [os.getpid()]
    known = set(found)
    for parent in found:  # grows while it is walked
        for pid in children.get(parent, ()):
            # A parent younger than its child is a number that was used again while the table was read.
            if pid not in known and parent in rows and rows[parent].start <= rows[pid].start:
                known.add(pid)
                found.append(pid)
    return {pid: rows[pid] for pid in found[1:] if not rows[pid].dead}


def nearest_descendants() -> dict[int, Row]:
    """Those living descendants that the kernel names without a look at every process; some may be missing."""
    found = [os.getpid()]
    rows: dict[int, Row] = {}
    for pid in found:  # grows while it is walked
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                fd = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    children = [int(child) for child in os.read(fd, 65536).split()]
                finally:
                    os.close(fd)
                for child in children:
                    if child not in rows and (seen := row(child)) is not None and seen.parent == pid:
                        rows[child] = seen
                        found.append(child)
        except (OSError, ValueError):
            continue  # it has gone, or this kernel has no such file
    return {pid: seen for pid, seen in rows.items() if not seen.dead}


def words_of(pid: int) -> list[str]:
    """A process's command line; empty where it cannot be read."""
    try:
        return [os.fsdecode(word) for word in read_memory(pid, "cmdline", 65536).rstrip(b"\0").split(b"\0")]
    except OSError:
        return []


def matches(pid: int, spare: tuple[list[str], ...]) -> bool:
    """Whether a process is a program to spare: by its file's or its own name, and the arguments that are asked for."""
    words, names = words_of(pid), set()
    with suppress(OSError):
        names.add(os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")))
    names |= {os.path.basename(word) for word in words[:1]}
    given = {form for word in words[1:] for form in (word, os.path.basename(word))}
    return any(name in names and given.issuperset(rest) for name, *rest in spare)


def send(pid: int, start: int, *signums: int, alone: bool = False) -> None:
    """Signal one descendant if it is still the one that was seen; errors mean it has gone, or is not ours to signal.

    Being a descendant lasts: with a sub-reaper above, an orphan never leaves the tree. So its start is all that has to
    be verified, after the pidfd was opened. SIGKILL takes its whole process group where it left our session: whoever is
    in a session that a descendant made is a descendant too, and a group dies at once, however fast it forks.

    Args: alone: never its group: somebody who is to be spared may be in it.
    """
    with suppress(OSError):
        if sys.platform != "linux":
            for signum in signums:
                os.kill(pid, signum)
            return
        fd = os.pidfd_open(pid)
        try:
            seen = row(pid)
            if seen is None or seen.start != start:
                return
            if signums == (signal.SIGKILL,) and not alone and seen.session not in (0, os.getsid(0)):
                with suppress(OSError):  # before Linux 6.9 there is no such flag
                    signal.pidfd_send_signal(fd, signal.SIGKILL, None, PIDFD_SIGNAL_PROCESS_GROUP)
            for signum in signums:
                signal.pidfd_send_signal(fd, signum)
        finally:
            os.close(fd)


def identity(pid: int) -> dict[str, object] | None:
    """The fields of interlock's Identity; None where the system has no /proc, or it cannot be read."""
    machine = ""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                machine = machine or file.read().strip()
        except OSError:
            continue
    seen = row(pid)
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        namespace = os.stat("/proc/self/ns/pid").st_ino
        foreign = os.readlink("/proc/self") != str(os.getpid())  # another namespace's /proc: its numbers are not ours
    except OSError:
        return None
    if seen is None or foreign:
        return None
    name = machine or _socket.gethostname()
    return {"machine": name, "boot": boot, "pid_namespace": namespace, "pid": pid, "start_ticks": seen.start}
