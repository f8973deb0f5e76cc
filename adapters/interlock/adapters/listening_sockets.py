"""Listening TCP sockets, raw: which there are on some ports, whose, and by which inode a descriptor of one is known.

    NETLINK_SOCK_DIAG ── cannot be asked ──▶ /proc/net/tcp and tcp6

Linux only. The kernel is asked for listeners on one port, which takes it some microseconds. To print /proc/net/tcp it
walks its whole table of connections, which takes milliseconds though that be empty, and a start looks a hundred times.

What this module never does: take "cannot be asked" for "nobody listens".
"""

import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOCK_DIAG = 4  # the netlink family
SOCK_DIAG_BY_FAMILY = 20  # the question's type, and its answers'
DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
INTERRUPTED = 0x10  # NLM_F_DUMP_INTR: the table changed while it was read
ERROR, DONE = 2, 3
LISTEN = 10  # TCP_LISTEN
LISTEN_TEXT = "0A"  # the same in /proc/net/tcp
HEADER = struct.Struct("=IHHII")  # length, type, flags, number, pid
QUESTION = struct.Struct("=BBBxI2sH16s16sI8s")  # family, protocol, extensions, states, source port, the rest of an id
ANSWER = struct.Struct("=BBBB2sH16s16sI8sIIIII")  # family, state, …, source port, …, source, …, uid, inode
ANSWER_BYTES_MAX = 256 * 1024
ANSWER_S = 1.0


class ListeningSocket(NamedTuple):
    """Args: address: what it is bound to, `0.0.0.0` or `::` for everything. uid: whose."""

    port: int
    address: str
    uid: int
    inode: int


def listening_sockets(ports: frozenset[int]) -> list[ListeningSocket]:
    """Those that listen on one of these ports, on IPv4 and IPv6, in our network namespace."""
    try:
        return [found for port in ports for found in asked(port)]
    except OSError:
        return [found for name in ("tcp", "tcp6") for found in printed(name) if found.port in ports]


def asked(port: int) -> list[ListeningSocket]:
    """What the kernel answers. Raises OSError where it does not answer, or not wholly."""
    if sys.platform != "linux":
        raise OSError("only Linux can be asked")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, SOCK_DIAG) as kernel:
        kernel.settimeout(ANSWER_S)
        return [found for family in (socket.AF_INET, socket.AF_INET6) for found in _dump(kernel, family, port)]


def _dump(kernel: socket.socket, family: int, port: int) -> Iterator[ListeningSocket]:
    wanted = port.to_bytes(2, "big")
    question = QUESTION.pack(family, socket.IPPROTO_TCP, 0, 1 << LISTEN, wanted, 0, b"", b"", 0, b"\xff" * 8)
    kernel.send(HEADER.pack(HEADER.size + len(question), SOCK_DIAG_BY_FAMILY, DUMP, family, 0) + question)
    while True:
        data = kernel.recv(ANSWER_BYTES_MAX)
        while data:
            if len(data) < HEADER.size:
                raise OSError("an answer of the kernel cannot be understood")
            length, kind, flags, number, _ = HEADER.unpack_from(data)
            body, data = data[HEADER.size : length], data[(length + 3) & ~3 :]
            code = struct.unpack_from("=i", body)[0] if kind in (ERROR, DONE) and len(body) >= 4 else 0
            if code or flags & INTERRUPTED or length < HEADER.size or number != family or kind == ERROR:
                raise OSError(-code, "the kernel does not tell who listens")
            if kind == DONE:
                return
            if kind == SOCK_DIAG_BY_FAMILY and len(body) >= ANSWER.size:
                _, state, _, _, source, _, address, _, _, _, _, _, _, uid, inode = ANSWER.unpack_from(body)
                if state == LISTEN and source == wanted:
                    size = 4 if family == socket.AF_INET else 16
                    yield ListeningSocket(port, str(ipaddress.ip_address(address[:size])), uid, inode)


def printed(name: str) -> Iterator[ListeningSocket]:
    """Those of /proc/net/tcp or tcp6; none where there is no such table (IPv6 switched off)."""
    try:
        lines = Path(f"/proc/net/{name}").read_text("ascii").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if len(fields) > 9 and fields[3] == LISTEN_TEXT:
            address, _, port = fields[1].partition(":")
            yield ListeningSocket(int(port, 16), _address(address), int(fields[7]), int(fields[9]))


def inodes_of(pid: int) -> Iterator[int]:
    """The sockets that a process has open; none where it has gone, or is another user's."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            yield int(target[8:-1])


def _address(text: str) -> str:
    """The table prints an address as 32-bit words in the machine's byte order."""
    words = (int(text[start : start + 8], 16).to_bytes(4, sys.byteorder) for start in range(0, len(text), 8))
    return str(ipaddress.ip_address(b"".join(words)))
