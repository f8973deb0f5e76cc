"""Which home is meant, and where its socket is: as strings, with nothing imported but `os` and `sys`.

The short way of the command needs no more, and every import there is paid for at every turn of every agent.
"""

import os
import sys

SOCKET_PATH_BYTES_MAX = 107  # sun_path, less its NUL


def home_root(option: str = "") -> str:
    """The real path of the home that was asked for: --home, BUS_HOME, else the user's state directory."""
    given = option or os.environ.get("BUS_HOME", "")
    return os.path.realpath(os.path.expanduser(given) if given else _default())


def socket_path(root: str) -> str:
    """The Unix socket: in the home, or, where that path is too long for one, in a short directory of this user."""
    direct = os.path.join(root, "bus.sock")
    if len(os.fsencode(direct)) <= SOCKET_PATH_BYTES_MAX:
        return direct
    from hashlib import sha256

    # Not XDG_RUNTIME_DIR: a cron job and a terminal differ in it, and must find the same socket.
    name = sha256(os.fsencode(root)).hexdigest()[:16]
    return f"/tmp/interlock-{os.getuid()}/{name}.sock"  # the directory is made 0700 and checked before it is used


def shows_only_folders(root: str) -> bool:
    """A container's view of a home: inbox folders that were mounted, and nothing else. No bus is begun in it."""
    if not os.path.isdir(os.path.join(root, "inboxes")):
        return False
    return not any(os.path.exists(os.path.join(root, name)) for name in ("bus.lock", "bus.db", "launches"))


def _default() -> str:
    """What platformdirs calls the user state directory; on Linux without its import."""
    if sys.platform == "linux":
        return os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "interlock")
    from platformdirs import user_state_dir

    return user_state_dir("interlock")
