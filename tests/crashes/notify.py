"""System calls of one process, each stopped on its way in: seccomp's notifications, without privilege or compiler.

    watched process: install ──▶ listener ──(a socket)──▶ this process: receive ──▶ let go, or fail, or kill

What strace's injection does, but counted over all threads, with the path that a call is about, and where ptrace is
forbidden. Linux only (5.5 or newer). Whatever the watched process starts is watched too: keep serving until all ended.
"""

import ctypes
import errno
import fcntl
import os
import platform
import struct
from typing import NamedTuple

# call → its number, by machine. A missing one does not exist there (aarch64 has the …at forms only).
NUMBERS = {
    "x86_64": {
        "write": 1, "open": 2, "pwrite64": 18, "writev": 20, "fsync": 74, "fdatasync": 75, "ftruncate": 77,
        "rename": 82, "mkdir": 83, "creat": 85, "link": 86, "unlink": 87, "openat": 257, "mkdirat": 258,
        "unlinkat": 263, "renameat": 264, "linkat": 265, "pwritev": 296, "renameat2": 316,
    },
    "aarch64": {
        "mkdirat": 34, "unlinkat": 35, "linkat": 37, "renameat": 38, "ftruncate": 46, "openat": 56, "write": 64,
        "writev": 66, "pwrite64": 68, "pwritev": 70, "fsync": 82, "fdatasync": 83, "renameat2": 276,
    },
}  # fmt: skip
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_NO_NEW_PRIVS, _SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 38, 1, 1 << 3, 1 << 5
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUAL, _HAS_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_FLAGS_AT = {"open": 24, "openat": 32}  # where the flags lie: an open that creates nothing is let go by the kernel
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTIFICATION, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_CONTINUE = 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


class Call(NamedTuple):
    """One call, stopped. Args: thread: that makes it. name: of the call. arguments: its six registers."""

    id: int
    thread: int
    name: str
    arguments: tuple[int, ...]


def is_supported() -> bool:
    """Whether this machine can stop calls at all."""
    try:
        with open("/proc/sys/kernel/seccomp/actions_avail") as file:
            return "user_notif" in file.read().split() and platform.machine() in NUMBERS
    except OSError:
        return False


def install() -> int:
    """Have every such call of this process, from now on, stopped. Call it before a thread is started.

    Returns:
        The listener's descriptor. Until somebody serves it, a call of NUMBERS hangs.

    Raises:
        OSError: the kernel, or a sandbox around, does not allow it.
    """
    machine = platform.machine()
    lines = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _AUDIT_ARCH[machine]), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 0)]
    for name, number in NUMBERS[machine].items():
        if name in _FLAGS_AT:
            lines += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, _FLAGS_AT[name]), (_HAS_BITS, 0, 1, os.O_CREAT)]
            lines += [(_RETURN, 0, 0, _NOTIFY), (_RETURN, 0, 0, _ALLOW)]
        else:
            lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
    lines.append((_RETURN, 0, 0, _ALLOW))
    code = b"".join(struct.pack("=HBBI", *line) for line in lines)
    program = _Program(len(lines), code)
    if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise _error("prctl")
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):  # the first: signals do not repeat a stopped call
        fd = int(_libc.syscall(_SECCOMP[machine], _SET_MODE_FILTER, flags, ctypes.byref(program)))
        if fd >= 0:
            return fd
    raise _error("seccomp")


def receive(listener: int) -> Call | None:
    """The next stopped call; None where its process was killed meanwhile. Raises OSError once nobody is watched."""
    buffer = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.EINTR}:
            return None
        raise
    id_, thread, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
    return Call(id_, thread, _NAMES[number], tuple(arguments))


def let_go(listener: int, call: Call, fails_with: int = 0) -> None:
    """Have a stopped call done by the kernel, or fail with that errno without being done."""
    response = _RESPONSE.pack(call.id, 0, -fails_with, 0 if fails_with else _CONTINUE)
    try:
        fcntl.ioctl(listener, _SEND, response)
    except OSError as error:
        if error.errno != errno.ENOENT:  # it was killed meanwhile
            raise


def text_at(thread: int, address: int) -> str:
    """The path that a stopped call's pointer leads to; "" where it cannot be read."""
    data = bytes_at(thread, address, 4096) or bytes_at(thread, address, 4096 - address % 4096)
    return os.fsdecode(data.partition(b"\0")[0])


def bytes_at(thread: int, address: int, count: int) -> bytes:
    """So many bytes of a stopped process's memory; b"" where it cannot be read."""
    try:
        fd = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, count, address)
        finally:
            os.close(fd)
    except (OSError, OverflowError):
        return b""


def file_of(thread: int, fd: int) -> str:
    """What a descriptor of a stopped process is, as /proc has it."""
    where = "cwd" if fd & 0xFFFFFFFF == 0xFFFFFF9C else f"fd/{fd & 0xFFFFFFFF}"  # AT_FDCWD
    try:
        return os.readlink(f"/proc/{thread}/{where}")
    except OSError:
        return ""


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


_NAMES = {number: name for name, number in NUMBERS.get(platform.machine(), {}).items()}
