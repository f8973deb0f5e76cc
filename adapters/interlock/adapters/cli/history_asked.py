"""What `bus verify` and `bus export` ask: this repository's leases, in force and past, and who committed what."""

from typing import Any

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.asking import body_of
from interlock.adapters.cli.connection import Connection
from interlock.adapters.cli.options import Failure
from interlock.adapters.paths import find_home


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
        document = body_of(connection.ask("supervisor", body={"type": "HISTORY", "directory": directory}))
        document.pop("type", None)  # the word that every answer has
        return document, str(connection.welcome.get("agent", ""))
