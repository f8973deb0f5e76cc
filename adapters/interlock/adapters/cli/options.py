"""The options that every verb takes, wherever they stand before a `--`, and what the environment says.

Standard library only: the short way imports it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from typing import NoReturn


class Options:
    """Args: name, how: from --as or BUS_AGENT. home: from --home; BUS_HOME is read where the home is looked for."""

    def __init__(self, name: str = "", how: str = "", home: str = "", json: bool = False) -> None:
        self.name = name
        self.how = how
        self.home = home
        self.json = json


class Failure(Exception):
    """A command cannot go on: one sentence, and the exit code."""

    def __init__(self, exit_code: int, why: str, code: str = "") -> None:
        super().__init__(why)
        self.exit_code = exit_code
        self.code = code


def take_options(words: list[str], stop_after: int = 0) -> tuple[Options, list[str]]:
    """Take the common options out of a command line.

    Args:
        words: after `bus`.
        stop_after: after so many other words the rest is a message, and is left as it stands; 0: never.

    Returns:
        The options, and the other words in their order.
    """
    name, home, as_json = "", "", False
    rest: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--" or (stop_after and len(rest) >= stop_after):
            rest += words[at:]
            break
        option, equals, value = word.partition("=")
        if option in {"--as", "--home"}:
            if not equals:
                at += 1
                if at == len(words):
                    raise Failure(64, f"{option} needs a value")
                value = words[at]
            name, home = (value, home) if option == "--as" else (name, value)
        elif word == "--json":
            as_json = True
        else:
            rest.append(word)
        at += 1
    if name:
        return Options(name, "--as", home, as_json), rest
    name = os.environ.get("BUS_AGENT", "")
    return Options(name, "BUS_AGENT" if name else "", home, as_json), rest


def fail(failure: Failure, as_json: bool) -> int:
    """Say what went wrong, where it belongs, and return the exit code."""
    if as_json:
        import json

        error = {"code": failure.code or _code_of(failure.exit_code), "message": str(failure), "next": ""}
        say_out(json.dumps({"error": error}, ensure_ascii=False))
    else:
        say_err(f"{f'REFUSED {failure.code}' if failure.code else 'bus:'} {failure}")
    return failure.exit_code


def say_out(text: str) -> None:
    """Print to stdout, whatever characters it holds."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.buffer.flush()


def say_err(text: str) -> None:
    """Print to stderr; a closed one is nobody's loss."""
    try:
        sys.stderr.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sys.stderr.buffer.flush()
    except OSError:
        pass


def closed_pipe() -> NoReturn:
    """Whoever read our output has left (`| head -1`): end quietly, as a program killed by SIGPIPE would."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os._exit(141)


def _code_of(exit_code: int) -> str:
    names = {64: "USAGE", 65: "DATA", 69: "UNAVAILABLE", 73: "CANNOT_CREATE", 74: "IO", 75: "NOT_YET", 78: "CONFIG"}
    return names.get(exit_code, "FAILED")
