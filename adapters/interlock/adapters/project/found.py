"""What is found: a candidate for the development server, and the folder it is looked for in. No file is trusted."""

import errno
import os
import re
from collections.abc import Iterable

import msgspec

from interlock.adapters.small_files import read_regular
from interlock.protocol.visible import visible

FILE_BYTES_MAX = 1024 * 1024  # a larger one was made by a machine
PORT_IN_COMMAND = re.compile(
    r"""(?x) (?: --(?:port|http-port|http_port|listen-port|listen)[=\s]+ | (?<![\w-])-[pP]\s*[=\s]?
      | \b[A-Z_]*PORT(?:=|:-)
      | (?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::\]|\[::1\]): | (?<=\s): ) ["']?(\d{2,5})(?!\d)"""
)
HEALTH_URL = re.compile(r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?::(\d{2,5}))?(/[\w./-]{1,100})")


class Candidate(msgspec.Struct, frozen=True):
    """One way to start a development server.

    Args:
        start: the command line. source: the file, and where in it.
        port: where it answers, 0 where that is not known. why_port: how that is known.
        health: a path, where the project itself says that it is one.
        own_port: the port is opened by the command's own processes, not by a container's.
        prepare: what a fresh worktree needs first.
    """

    start: str
    source: str
    port: int = 0
    why_port: str = ""
    health: str = ""
    own_port: bool = True
    prepare: str = ""


class Folder:
    """A folder to look in; `notes` says of each file that could not be taken why. Args: path: its real path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes: list[str] = []

    def has(self, *names: str) -> bool:
        """One of these is a file or a directory here."""
        return any(os.path.exists(os.path.join(self.path, name)) for name in names)

    def first(self, *names: str) -> tuple[str, str]:
        """Name and text of the first of these files that is there; ("", "") where none can be read."""
        for name in names:
            text = self.text(name)
            if text is not None:
                return name, text
        return "", ""

    def text(self, name: str) -> str | None:
        """A file's text; None where there is none. No link is followed; what is too large or no text is noted."""
        try:
            data = read_regular(os.path.join(self.path, name), FILE_BYTES_MAX)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            why = "it is a link" if error.errno == errno.ELOOP else str(error.strerror).lower()
            self.notes.append(f"{name} was left out: {why}")
            return None
        if len(data) > FILE_BYTES_MAX:
            self.notes.append(f"{name} was left out: it has more than {FILE_BYTES_MAX} bytes")
            return None
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            self.notes.append(f"{name} was left out: it is not UTF-8")
            return None


def port_in(text: str) -> int:
    """The first port that a command names; 0 where it names none."""
    for found in PORT_IN_COMMAND.finditer(text):
        if 1 <= int(found[1]) <= 65_535:
            return int(found[1])
    return 0


def port_of(command: str, defaults: Iterable[tuple[str, int]]) -> tuple[int, str]:
    """The port of a command and how it is known: named in it, or the default of a tool in it.

    Args:
        defaults: (regular expression of a tool, its default port), the first that matches counts.
    """
    named = port_in(command)
    if named:
        return named, "named in the command"
    for pattern, port in defaults:
        found = re.search(rf"(?<![\w./-])(?:[\w./-]*\bbin/)?{pattern}(?![\w-])", command)
        if found:
            given = re.match(r"\s+(?:[\w.-]+:)?(\d{2,5})(?!\S)", command[found.end() :])  # runserver 9000
            if given and int(given[1]) <= 65_535:
                return int(given[1]), "named in the command"
            return port, f"the default of {visible(found[0])}"
    return 0, ""


def health_in(text: str, port: int) -> str:
    """The path of a health check that a file makes on that port (or on any, where it is not known)."""
    for found in HEALTH_URL.finditer(text):
        if found[2] != "/" and (not port or not found[1] or int(found[1]) == port):
            return found[2]
    return ""
