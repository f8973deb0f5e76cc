"""What `bus verify` and `bus export` ask: this repository's leases, in force and past, and who committed what."""

import time
from functools import partial
from typing import Any

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.asking import ask_supervisor, body_of
from interlock.adapters.cli.connection import ANSWER_S, Connection, Lost
from interlock.adapters.cli.options import Failure
from interlock.adapters.paths import find_home
from interlock.adapters.territory.lease_pages import lease_pages
from interlock.adapters.territory.told import history_of
from interlock.protocol.envelope import wire_time


def ask_history(directory: str) -> tuple[dict[str, Any], str]:
    """Ask the bus.

    Args:
        directory: the git top, "-" for none.

    Returns:
        The document as history.py has it, not checked yet; and by which name the bus knows who asks, "" for none.

    Raises:
        Failure: 64 no worktree is here; 69 there has been no bus here, and a fresh one would know of no lease.
    """
    if directory == "-":
        raise Failure(64, "no worktree here whose leases the bus could know: go into one, or verify with --leases FILE")
    if not find_home(Given.options.home).database.exists():
        why = "there has been no bus here, so it knows no leases: bus export where there is one, then --leases FILE"
        raise Failure(69, why)
    with Connection(Given.options) as connection:
        at = wire_time(time.time_ns() // 1_000_000)
        pages = list(lease_pages(partial(ask_supervisor, connection), directory))
        territory, log_from_ms = pages[0]["territory"], pages[0].get("log_from_ms", 0)
        in_force = [lease for page in pages for lease in page["leases"]]
        events = _events(connection, territory)
        document = history_of(territory, at, events, in_force, log_from_ms)
        return document, str(connection.welcome.get("agent", ""))


def _events(connection: Connection, territory: str) -> list[dict[str, Any]]:
    """All that the log has of a territory, oldest first. What comes meanwhile is read, or not: nobody waits for it."""
    found: list[dict[str, Any]] = []
    connection.tell("supervisor", body={"type": "TAIL", "since": 0, "resource": territory})
    try:
        while frame := connection.receive(ANSWER_S):
            if "reply_to" not in frame:
                continue
            body = body_of(frame)
            found += body.get("events", ())
            if body.get("end"):
                return found
    except Lost:
        raise Failure(69, "the supervisor went away meanwhile: try again") from None
    raise Failure(69, "the supervisor does not answer (stopped, or overloaded): ask again, or see bus doctor")
