"""Listeners: who listens on a TCP port of this machine, whether a port is free, and whether a listener is ours.

What this module never does: end a listener, or call one ours because of its name, its port or its environment.
"""

import errno
import importlib
import os
import pwd
import socket
import sys
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from interlock.adapters.listening_sockets import ListeningSocket, inodes_of, listening_sockets
from interlock.adapters.process import Fact, ancestors, fact, probe
from interlock.adapters.process_table import age_s, children
from interlock.protocol.identity import Identity, Presence

TREE_MAX = 4096  # processes of one tree that are looked at; a larger one is looked for in the whole table
COMMAND_CHARS_MAX = 200  # of a command line, for one sentence to a person
PROBES = (
    (socket.AF_INET, "127.0.0.1"),
    (socket.AF_INET, "0.0.0.0"),
    (socket.AF_INET6, "::1"),
    (socket.AF_INET6, "::"),
)


class Listener(msgspec.Struct, frozen=True):
    """One listening TCP socket.

    Args:
        port: 1–65535.
        address: what it is bound to, `0.0.0.0` or `::` for everything.
        pid: the oldest process that holds it; None where that cannot be seen.
        command: that process's command line, at most 200 characters; empty without a pid.
        since_ms: when that process started (wall clock, ms since the epoch), or None.
        user: whose socket it is, a name or a number; None where that cannot be seen.
    """

    port: int
    address: str
    pid: int | None
    command: str
    since_ms: int | None
    user: str | None


def listeners(ports: Iterable[int]) -> list[Listener]:
    """Find who listens on these ports, on IPv4 and IPv6.

    Args:
        ports: those asked about, 1–65535.

    Returns:
        One entry for each listening socket, by port and address; also those whose process cannot be seen.
    """
    wanted = frozenset(ports)
    if sys.platform != "linux":
        return _elsewhere(wanted)
    sockets = listening_sockets(wanted)
    holders = _holders({found.inode for found in sockets}) if sockets else {}
    described = [_describe(found, holders.get(found.inode)) for found in sockets]
    return sorted(described, key=lambda found: (found.port, found.address))


def free(port: int) -> bool:
    """Whether a server could listen on this port now, on IPv4 and IPv6.

    The table answers first; binding for a moment then catches what it cannot show (another user's socket on a system
    that hides it, one that is bound and does not listen yet). A port that we may not bind is judged by the table alone.
    """
    return not listeners((port,)) and all(_can_bind(family, address, port) for family, address in PROBES)


def belongs(listener: Listener, keeper: Identity) -> bool:
    """Whether the listener's process is in this keeper's tree; False where its process cannot be seen."""
    return listener.pid is not None and any(seen.identity == keeper for seen in ancestors(listener.pid))


def held_by(keeper: Identity, ports: Iterable[int]) -> bool:
    """Whether each of these ports is listened on, and each such socket is open in this keeper's tree.

    It looks at that tree only, where `listeners` looks at every process. False says nothing: ask `listeners`.
    """
    wanted = frozenset(ports)
    sockets = listening_sockets(wanted) if sys.platform == "linux" else []
    if {found.port for found in sockets} != wanted or probe(keeper) is not Presence.ALIVE:
        return False
    missing, tree = {found.inode for found in sockets}, [keeper.pid]
    for pid in tree:  # grows while it is walked
        missing.difference_update(inodes_of(pid))
        if not missing:
            break
        tree += children(pid)[:TREE_MAX]
        if len(tree) > TREE_MAX:
            break
    return not missing


def _can_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what waits in TIME_WAIT blocks no server
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
    except OSError as error:
        return error.errno != errno.EADDRINUSE
    return True


def _holders(inodes: set[int]) -> dict[int, Fact]:
    """For each socket the oldest process that holds it: a server's master rather than its workers."""
    oldest: dict[int, Fact] = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        for inode in inodes.intersection(inodes_of(pid)):
            seen = fact(pid)
            if seen is None:
                continue
            known = oldest.get(inode)
            if known is None or (seen.identity.start_ticks, pid) < (known.identity.start_ticks, known.pid):
                oldest[inode] = seen
    return oldest


def _describe(found: ListeningSocket, holder: Fact | None) -> Listener:
    user = user_name(found.uid)
    if holder is None:
        return Listener(found.port, found.address, None, "", None, user)
    command = (" ".join(holder.command) or holder.name)[:COMMAND_CHARS_MAX]
    return Listener(found.port, found.address, holder.pid, command, _since_ms(holder.identity.start_ticks), user)


def user_name(uid: int) -> str:
    """Of a user's number; the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _since_ms(start_ticks: int) -> int:
    """The wall clock at a process's start, as well as today's wall clock can tell; for people only."""
    return int((time.time() - age_s(start_ticks)) * 1000)


def _elsewhere(wanted: frozenset[int]) -> list[Listener]:
    """The same from psutil, which without root sees this user's processes only."""
    psutil: Any = importlib.import_module("psutil")
    found: list[Listener] = []
    for process in psutil.process_iter():
        try:
            connections = process.net_connections(kind="tcp")
            name = process.username()
        except psutil.Error:
            continue
        for connection in connections:
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port in wanted:
                seen = fact(process.pid)
                since_ms = None if seen is None else _since_ms(seen.identity.start_ticks)
                command = "" if seen is None else (" ".join(seen.command) or seen.name)[:COMMAND_CHARS_MAX]
                address = connection.laddr.ip
                found.append(Listener(connection.laddr.port, address, process.pid, command, since_ms, name))
    return sorted(found, key=lambda listener: (listener.port, listener.address))
