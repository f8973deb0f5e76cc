"""How a keeper is started: its command line, its environment, and its orders as text. Standard library only, and little
of that: `bus run` imports it for a command of some milliseconds."""

import os
import sys

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from typing import Any

KEEPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper", "__main__.py")
UP_TIMEOUT_S = 10.0  # an interpreter's start and two fsyncs, on a machine that swaps
STOP_TIMEOUT_MS = 30_000  # from SIGTERM to SIGKILL, where nothing else is said
LINE_BYTES_MAX = 64 * 1024  # a keeper's lines are a few hundred bytes
KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")


def keeper_command() -> list[str]:
    """The keeper's command line, without the number of its control socket."""
    return [sys.executable, "-I", "-S", "-X", "utf8", KEEPER]


def keeper_environment() -> dict[str, str]:
    """What a keeper starts with: enough for the interpreter, nothing of a caller's."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}


def portable(value: "Any") -> "Any":
    """The same text for an interpreter whose file names are UTF-8, whatever ours are; arbitrary bytes survive."""
    if isinstance(value, str):
        return os.fsencode(value).decode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return {portable(name): portable(inner) for name, inner in value.items()}
    return [portable(inner) for inner in value] if isinstance(value, list | tuple) else value
