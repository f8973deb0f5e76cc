"""Socket activation: the socket that a service manager listens on for us, and what it is told. Standard library only.

The manager's socket is taken over only if it is what it must be: one stream socket that listens at this home's path.
"""

import contextlib
import os
import socket
from pathlib import Path

FIRST_FD = 3  # where the protocol of systemd begins to count


class BadActivation(Exception):
    """What was handed over is not our socket; the text is one sentence."""


def activated_socket(path: Path) -> socket.socket | None:
    """Take over the socket that our service manager listens on.

    Args:
        path: where it must listen.

    Returns:
        The listening socket, not inherited by any child; None where we were not activated.

    Raises:
        BadActivation: another number of sockets, another kind, or another path.
    """
    pid, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count:
        return None  # meant for another process, whose environment we got
    wanted = f"one Unix socket that listens at {path}: bus up --install-service writes the units anew"
    if count != "1":
        raise BadActivation(f"the service manager handed over {count} sockets instead of {wanted}")
    try:
        found = socket.socket(fileno=FIRST_FD)
    except OSError as error:
        raise BadActivation(
            f"the service manager handed over no socket ({error.strerror}) instead of {wanted}"
        ) from None
    found.set_inheritable(False)
    listens = found.family == socket.AF_UNIX and found.type == socket.SOCK_STREAM and _accepts(found)
    if not listens or found.getsockname() != str(path):
        name = found.getsockname() if found.family == socket.AF_UNIX else found.family.name
        found.close()
        raise BadActivation(f"the service manager handed over {name!r} instead of {wanted}")
    found.setblocking(False)
    return found


def turn_away(listening: socket.socket) -> None:
    """Close whoever waits to be served, so that the manager does not start us again for the same connections."""
    with contextlib.suppress(OSError):
        while True:
            listening.accept()[0].close()


def notify(text: str) -> None:
    """Tell the service manager, where there is one: `READY=1`. Whether it hears is its own affair."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
        speaker.connect("\0" + address[1:] if address.startswith("@") else address)
        speaker.send(text.encode())


def _accepts(found: socket.socket) -> bool:
    try:
        return bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return False
