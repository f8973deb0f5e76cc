"""What a bus that runs says of this repository's leases: to whoever asks, as whom, and from which worktree."""

import os
from functools import partial
from typing import Any, NamedTuple

from interlock.adapters.cli.connection import Connection, Lost
from interlock.adapters.cli.options import Failure, Options
from interlock.adapters.territory.cover import Held, held_of
from interlock.adapters.territory.lease_pages import lease_pages


class Told(NamedTuple):
    """Leases in force.

    Args:
        agent: who asked; "" where nobody can tell, and `nobody` says how to say it.
        at: the agents that joined in a worktree, by its real path; only where that was asked for.
    """

    agent: str
    nobody: str
    held: list[Held]
    at: dict[str, set[str]]


def leases_in_force(options: Options, directory: str, *, start: bool, agents: bool = False) -> Told:
    """Every lease in force in the repository of a directory.

    Args:
        directory: absolute. start: a supervisor, where none runs. agents: say too who is in which worktree.

    Raises:
        Failure: nobody answers, or it is refused.
    """
    with _Session(options, start) as connection:
        answer = _ask(connection, {"type": "TERRITORY", "directory": directory})
        document = answer.get("map", answer)
        held = held_of(document["leases"])
        if document.get("more"):
            pages = lease_pages(partial(_ask, connection), directory)
            held = held_of(lease for page in pages for lease in page["leases"])
        at: dict[str, set[str]] = {}
        for each in _ask(connection, {"type": "AGENTS"})["agents"] if agents else ():
            if each.get("worktree") and each.get("presence") != "gone":
                at.setdefault(os.path.realpath(each["worktree"]), set()).add(str(each["agent"]))
        welcome = connection.welcome
        return Told(str(welcome.get("agent", "")), str(welcome.get("why", "")), held, at)


def record_commit(options: Options, directory: str, commit: str) -> bool:
    """Say whose a commit is. Args: commit: hex. Returns whether anybody is known to say it. Raises Failure."""
    with _Session(options, start=False) as connection:
        if not connection.welcome.get("agent"):
            return False
        _ask(connection, {"type": "RECORD_COMMIT", "directory": directory, "commit": commit})
        return True


def _ask(connection: Connection, question: dict[str, Any]) -> dict[str, Any]:
    """Raises Failure for a refusal, and where nobody answers."""
    try:
        frame = connection.ask("supervisor", again=False, body=question)
    except Lost:
        raise Failure(69, "the supervisor went away meanwhile: try again") from None
    body: dict[str, Any] = frame["body"]
    if body.get("type") == "REFUSED":
        raise Failure(int(frame.get("exit", 74)), body["why"], body["code"])
    return body


class _Session:
    """A connection that starts a supervisor only where it may."""

    def __init__(self, options: Options, start: bool) -> None:
        self._connection, self._start = Connection(options, notices=False), start

    def __enter__(self) -> Connection:
        self._connection.open(start=self._start)
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()
