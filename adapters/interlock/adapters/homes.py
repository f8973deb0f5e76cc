"""Which home is meant, and where its socket is: as strings, with nothing imported but `os` and `sys`.

The short way of the command needs no more, and every import there is paid for at every turn of every agent.
"""

import os
import sys

SOCKET_PATH_BYTES_MAX = 107  # sun_path, less its NUL


def home_root(option: str = "") -> str:
    """The real path of the home that was asked for: --home, BUS_HOME, else the user's state directory."""
    given = option or os.environ.get("BUS_HOME", "")
    return os.path.realpath(os.path.expanduser(given)) if given else default_root()


def socket_path(root: str) -> str:
    """The Unix socket: in the home, or, where that path is too long for one, in a short directory of this user."""
    direct = os.path.join(root, "bus.sock")
    return direct if len(os.fsencode(direct)) <= SOCKET_PATH_BYTES_MAX else short_path(root) + ".sock"


def private_socket(root: str, folder: str, name: str) -> str:
    """Another Unix socket of this home: in a folder of it, or, where that path is too long, beside the short one.

    Args: name: at most 12 characters; room is left for an ending of eight more.
    """
    direct = os.path.join(root, folder, name)
    fits = len(os.fsencode(direct)) + 8 <= SOCKET_PATH_BYTES_MAX - 4  # macOS takes 103
    return direct if fits else f"{short_path(root)}-{name}"


def short_path(root: str) -> str:
    """What begins the names of this home's sockets in the short directory; that is made 0700 and checked before use."""
    from hashlib import sha256

    # Not XDG_RUNTIME_DIR: a cron job and a terminal differ in it, and must find the same socket.
    return f"/tmp/interlock-{os.getuid()}/{sha256(os.fsencode(root)).hexdigest()[:16]}"


def shows_only_folders(root: str) -> bool:
    """A container's view of a home: inbox folders that were mounted, and nothing else. No bus is begun in it."""
    if not os.path.isdir(os.path.join(root, "inboxes")):
        return False
    return not any(os.path.exists(os.path.join(root, name)) for name in ("bus.lock", "bus.db", "launches"))


def default_root() -> str:
    """The home of a user who has set none: what platformdirs calls the user state directory, on Linux unimported."""
    if sys.platform == "linux":
        folder = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        return os.path.realpath(os.path.join(folder, "interlock"))
    from platformdirs import user_state_dir

    return os.path.realpath(user_state_dir("interlock"))
