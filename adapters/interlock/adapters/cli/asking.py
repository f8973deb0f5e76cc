"""What most verbs do: one question, one answer, one exit code."""

import os
from typing import Any

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.connection import Connection, Lost
from interlock.adapters.cli.frames import Frame
from interlock.adapters.cli.options import Failure
from interlock.adapters.cli.short import show

SILENT_S = 40.0  # a disk that takes longer for one piece is given up by the supervisor too


def ask_bus(kind: str, *, notices: bool = True, **fields: Any) -> Frame:
    """Ask the bus itself, and return the body of its answer. Raises Failure for a refusal."""
    with Connection(Given.options, notices=notices) as connection:
        return ask_supervisor(connection, {"type": kind, **fields})


def ask_supervisor(connection: Connection, question: dict[str, Any]) -> Frame:
    """The body of the bus's answer, where one connection asks several things. Raises Failure for a refusal."""
    return body_of(connection.ask("supervisor", body=question))


def ask_at_length(connection: Connection, kind: str) -> Frame:
    """Ask the bus for what may take long; it says every few seconds how far it is. Raises Failure for a refusal."""
    connection.tell("supervisor", body={"type": kind})
    try:
        while frame := connection.receive(SILENT_S):
            if frame.get("body", {}).get("type") not in {"PROGRESS", None}:
                return body_of(frame)
    except Lost:
        raise Failure(69, "the supervisor went away meanwhile: try again") from None
    raise Failure(69, f"the supervisor has said nothing for {SILENT_S:.0f} s: bus doctor")


def body_of(frame: Frame) -> Frame:
    """The body of an answer. Raises Failure for a refusal."""
    body: Frame = frame["body"]
    if body.get("type") == "REFUSED":
        raise Failure(int(frame.get("exit", 74)), body["why"], body["code"])
    return body


def say_to_coordinator(kind: str, **fields: Any) -> int:
    """Send a message as the words of the contract, show the answer, return the exit code."""
    with Connection(Given.options) as connection:
        connection.agent()
        frame = connection.ask("coordinator", body={"type": kind, **fields})
        show(frame, Given.options)
        return int(frame.get("exit", 0))


def current_directory() -> str:
    """Raises Failure 64 where it is gone."""
    try:
        return os.getcwd()
    except OSError:
        raise Failure(64, "the current directory is gone: cd into one that exists") from None


def here() -> str:
    """The git top of the current directory, as the bus compares it; "-" outside of any worktree."""
    from interlock.adapters.worktrees import git_top

    return git_top(current_directory()) or "-"
