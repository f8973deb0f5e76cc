"""The options that every verb takes, wherever they stand before a `--`, and what the environment says.

Standard library only: the short way imports it.
"""

from __future__ import annotations

import errno
import os
import sys

# What only the command has to say has no code of the bus's; these words stand for its exit codes.
OWN_CODES = {
    64: "USAGE", 65: "DATA", 69: "UNAVAILABLE", 73: "CANNOT_CREATE", 74: "IO", 75: "NOT_YET", 78: "CONFIG",
    124: "TIMED_OUT", 125: "BUS_FAILED",
}  # fmt: skip
TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from typing import NoReturn


class Options:
    """Args: name, how: given, and where. home: from --home; BUS_HOME is read where the home is looked for."""

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


class NoOutput(Failure):
    """Stdout itself fails: to say so there would be no use."""


def milliseconds(duration: str, what: str) -> int | None:
    """A duration option; None where it was not given. Raises Failure 64."""
    if not duration:
        return None
    from interlock.protocol.durations import parse_duration

    ms = parse_duration(duration)
    if ms is None:
        raise Failure(64, f"{what} {duration!r} is no duration: write 30s, 10m or 1h30m")
    return ms


def take_options(words: list[str]) -> tuple[Options, list[str]]:
    """Take the common options out of a command line.

    Args:
        words: after `bus`.

    Returns:
        The options, and the other words in their order.
    """
    name, home, as_json = "", "", False
    rest: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            rest += words[at:]
            break
        option, equals, value = word.partition("=")
        if option in {"--as", "--home"}:
            if not equals:
                at += 1
                if at == len(words):
                    raise Failure(64, f"{option} needs a value: see bus --help")
                value = words[at]
            if not value:  # such as "$NAME" that nobody set: another name would be found, and spoken in
                raise Failure(64, f"{option} is empty: give it a value, or leave it out")
            name, home = (value, home) if option == "--as" else (name, value)
        elif word == "--json":
            as_json = True
        else:
            rest.append(word)
        at += 1
    if name:
        return Options(name, "--as", home, as_json), rest
    name, how = given_name()
    return Options(name, how, home, as_json), rest


def given_name() -> tuple[str, str]:
    """The name that the environment gives, and how; "" twice where it gives none."""
    name, how = os.environ.get("BUS_AGENT", ""), "BUS_AGENT"
    if not name and os.environ.get("BUS_AGENT_INSTANCE_KEY"):
        from interlock.adapters.ci_identity import KEY, keyed_name

        name, how = keyed_name(os.environ), KEY
    return name, how if name else ""


def fail(failure: Failure, as_json: bool) -> int:
    """Say what went wrong, where it belongs, and return the exit code."""
    code = failure.code or OWN_CODES.get(failure.exit_code, "FAILED")
    if as_json:
        import json

        say_out(json.dumps(error_object(code, str(failure)), ensure_ascii=False))
    else:
        why = str(failure)
        if not why.isprintable():  # it quotes what somebody else has named
            from interlock.protocol.visible import unhidden

            why = unhidden(why)
        say_err(f"REFUSED {code} {why}" if failure.code else f"bus: {why} ({code})")
    return failure.exit_code


def error_object(code: str, why: str) -> dict[str, dict[str, str]]:
    """A refusal for programs. `next` is what stands behind the sentence's first colon: what to do."""
    return {"error": {"code": code, "message": why, "next": why.partition(": ")[2] or f"bus errors {code}"}}


def say_out(text: str) -> None:
    """Print to stdout, whatever characters it holds. Whoever read it and has left ends the command, quietly."""
    write_out(text.encode("utf-8", "backslashreplace") + b"\n")


def write_out(data: bytes) -> None:
    """The same for bytes. Raises NoOutput 74 where stdout is closed, or its disk full."""
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        closed_pipe()
    except OSError as error:
        to_nowhere(1)
        raise NoOutput(74, f"the answer cannot be printed ({error.strerror}): mend stdout, then ask again") from None


def say_err(text: str) -> None:
    """Print to stderr; a closed one is nobody's loss."""
    try:
        if sys.stderr is not None:
            sys.stderr.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
            sys.stderr.buffer.flush()
    except OSError:
        to_nowhere(2)


def closed_pipe() -> NoReturn:
    """Whoever read our output has left (`| head -1`): end quietly, as a program killed by SIGPIPE would."""
    os._exit(141)


def to_nowhere(fd: int) -> None:
    """What is still buffered must not fail again at the interpreter's end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
