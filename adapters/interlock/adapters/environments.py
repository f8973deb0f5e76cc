"""Environments: what a server and a supervisor start with. Nothing of whoever happened to cause the start."""

from collections.abc import Mapping

KEPT_NAMES = frozenset(  # what a program of this user needs, whoever's command happened to start the supervisor
    ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SSH_AUTH_SOCK", "DISPLAY",
     "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
)  # fmt: skip
KEPT_PREFIXES = ("LC_", "XDG_")


def server_environment(base: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """What a server or a supervisor starts with: nothing of a caller's own (BUS_*, GIT_*, PORT, tokens), see ADR 7.

    Args:
        base: usually os.environ.
        extra: put on top, whatever its names.

    Returns:
        A complete environment.
    """
    kept = {name: value for name, value in base.items() if name in KEPT_NAMES or name.startswith(KEPT_PREFIXES)}
    return kept | dict(extra)
