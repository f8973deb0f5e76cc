"""Facts about processes: who is it, does it still live, who are its ancestors, and a signal to exactly it.

What this module never does: signal a process whose identity it has not verified behind a pidfd, or call a process gone
because it could not look. Only the same machine's answer "not there", another boot, a zombie or other start ticks mean
gone; everything else that is not alive is unknown.
"""

import os
import re
import signal
import sys

import anyio
import msgspec

from interlock.adapters import process_table
from interlock.protocol.identity import Identity, Presence

ANCESTORS_MAX = 256  # deeper than any real tree; a bound for a table that changes while it is read
POLL_S = 1.0  # without a pidfd
POLL_UNKNOWN_S = 5.0  # what cannot be seen now is seldom seen a second later
INTERPRETERS = re.compile(r"(node|nodejs|bun|deno|ruby|python[0-9.]*)$")


class Fact(msgspec.Struct, frozen=True):
    """What the system says of one process.

    Args:
        pid: in our pid namespace.
        parent_pid: 0 where the parent is outside our pid namespace.
        name: the kernel's short name (at most 15 bytes).
        command: its arguments, empty where they cannot be read.
        identity: who it is for ever.
        session_pid: pid of its session's leader, 0 where that is outside our pid namespace.
        terminal: whether it has a controlling terminal.
    """

    pid: int
    parent_pid: int
    name: str
    command: tuple[str, ...]
    identity: Identity
    session_pid: int
    terminal: bool


def identify(pid: int) -> Identity | None:
    """Say who runs under this pid now.

    Args:
        pid: a process of our pid namespace.

    Returns:
        Its identity; None where there is no such process, it is a zombie, or it cannot be read.
    """
    try:
        row = process_table.row(pid)
    except OSError:
        return None
    return None if row is None or row.dead or not process_table.here().boot else _identity(pid, row)


def probe(identity: Identity) -> Presence:
    """Ask whether this very process still lives; see ARCHITECTURE, "Processes".

    Args:
        identity: taken once, right after the process was started or seen.

    Returns:
        GONE after another boot of the same machine, for a zombie, other start ticks or no such process; UNKNOWN for
        another machine or pid namespace and for whatever cannot be read; else ALIVE.
    """
    here = process_table.here()
    if identity.machine != here.machine or not here.boot or not identity.boot:
        return Presence.UNKNOWN
    if identity.boot != here.boot:
        return Presence.GONE
    if identity.pid_namespace != here.pid_namespace:
        return Presence.UNKNOWN
    try:
        row = process_table.row(identity.pid)
    except OSError:
        return Presence.UNKNOWN
    alive = row is not None and not row.dead and row.start_ticks == identity.start_ticks
    return Presence.ALIVE if alive else Presence.GONE


async def wait_gone(identity: Identity) -> None:
    """Return once `probe` would say GONE; at once where it already does.

    Sleeps on a pidfd where the system has them, else looks once a second; what is unknown is looked at every 5 s, for
    as long as the caller waits.
    """
    while (presence := probe(identity)) is not Presence.GONE:
        fd = _pidfd(identity.pid) if presence is Presence.ALIVE else None
        if fd is None:
            await anyio.sleep(POLL_S if presence is Presence.ALIVE else POLL_UNKNOWN_S)
            continue
        try:
            if probe(identity) is Presence.ALIVE:  # looked at after opening: the fd is this process and no later one
                await anyio.wait_readable(fd)
                return
        finally:
            os.close(fd)


def gone_within(identity: Identity, within_s: float) -> bool:
    """Wait so long for its end, in code without a loop; whether it has come."""

    async def wait() -> bool:
        with anyio.move_on_after(within_s):
            await wait_gone(identity)
            return True
        return False

    return anyio.run(wait)


def send_signal(identity: Identity, signum: int) -> bool:
    """Signal this process and no other.

    Args:
        identity: whom.
        signum: which signal.

    Returns:
        True if it was sent; False if the process is gone or unknown, or we may not.
    """
    if sys.platform != "linux":
        if probe(identity) is not Presence.ALIVE:
            return False
        try:
            os.kill(identity.pid, signum)
        except OSError:
            return False
        return True
    fd = _pidfd(identity.pid)
    if fd is None:
        return False
    try:
        if probe(identity) is not Presence.ALIVE:
            return False
        signal.pidfd_send_signal(fd, signum)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def fact(pid: int) -> Fact | None:
    """Look at one process; None where there is none, it is a zombie, or it cannot be read."""
    try:
        row = process_table.row(pid)
        if row is None or row.dead or not process_table.here().boot:
            return None
        command = process_table.command(pid)
    except OSError:
        return None
    return Fact(pid, row.parent_pid, row.name, command, _identity(pid, row), row.session_pid, row.terminal)


def ancestors(pid: int) -> list[Fact]:
    """Its parent, the parent's parent, and so on as far as can be seen; without the process itself."""
    chain: list[Fact] = []
    child = fact(pid)
    while child is not None and child.parent_pid > 0 and len(chain) < ANCESTORS_MAX:
        parent = fact(child.parent_pid)
        if parent is None or parent.identity.start_ticks > child.identity.start_ticks:
            break  # gone meanwhile, and the second: its number already belongs to somebody younger than the child
        chain.append(parent)
        child = parent
    return chain


def host_names(seen: Fact) -> set[str]:
    """Every name that a process goes by.

    Returns:
        The kernel's name, the name of its program, and that of the script where the program is an interpreter:
        `node --flag /usr/bin/claude` is also `claude`.
    """
    names = {seen.name}
    if not seen.command:
        return names
    first = seen.command[0]
    if len(seen.command) == 1:
        first = first.split(" ", 1)[0]  # a process that rewrote its title has it all in one argument
    program = os.path.basename(first)
    names.add(program)
    if INTERPRETERS.match(program):
        script = _script(seen.command[1:])
        names.add(re.sub(r"\.(m?js|py)$", "", os.path.basename(script)))
    return names - {""}


def nearest_host(pid: int, hosts: frozenset[str]) -> Fact | None:
    """The nearest ancestor that goes by one of these names (`claude`, `codex`, …), or None."""
    return next((seen for seen in ancestors(pid) if host_names(seen) & hosts), None)


def session_leader(pid: int) -> Fact | None:
    """The leader of its terminal session: None without a controlling terminal, or where the leader has gone."""
    seen = fact(pid)
    if seen is None or not seen.terminal:
        return None
    leader = fact(seen.session_pid)
    return leader if leader is not None and leader.session_pid == leader.pid else None


def marked(launch_path: str) -> list[Fact]:
    """Find what still carries a launch's mark in its environment.

    Evidence for people, never proof and never a warrant to signal: a process may have cleaned its environment.

    Args:
        launch_path: the value of BUS_LAUNCH, `outer:inner`; its last part is the launch meant.

    Returns:
        This user's living processes whose BUS_LAUNCH has that part, by pid.
    """
    launch = launch_path.rpartition(":")[2]
    return [
        seen
        for pid in process_table.own_pids()
        if launch in process_table.launches(pid) and (seen := fact(pid)) is not None
    ]


def _script(arguments: tuple[str, ...]) -> str:
    """The first argument of an interpreter that is neither an option nor deno's and bun's `run`."""
    for argument in arguments:
        if argument in ("-c", "-e", "-p", "--eval", "--print"):
            return ""
        if not argument.startswith("-") and argument != "run":
            return argument
    return ""


def _identity(pid: int, row: process_table.Row) -> Identity:
    here = process_table.here()
    return Identity(here.machine, here.boot, here.pid_namespace, pid, row.start_ticks)


def _pidfd(pid: int) -> int | None:
    """A pidfd, close-on-exec; None where the process is gone or the system has none."""
    if sys.platform == "linux":
        try:
            return os.pidfd_open(pid)
        except (OSError, OverflowError):
            return None
    return None
