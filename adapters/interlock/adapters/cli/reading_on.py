"""Reading on from a number: what came after it, and where nothing did, a wait that asks once and then is told.

Nothing is acked, so the reader's own number is all that is needed over restarts, of the reader and of the bus.
"""

from __future__ import annotations

import time

from interlock.adapters.cli.connection import Connection, Lost
from interlock.adapters.cli.options import Failure, say_err
from interlock.adapters.lean import suppress

AGAIN_S = 0.5  # between two looks for a supervisor that is gone
TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from interlock.adapters.cli.frames import Frame


def letters_since(connection: Connection, since: int, until: float) -> Frame:
    """The answer with the letters after that number, oldest first; without any once the time is over.

    Args: until: how long to wait for one (monotonic, s). Raises Failure where the bus refuses.
    """
    said = ""
    while True:
        try:
            reply = _read(connection, since, follow=until > time.monotonic())
            if reply["messages"] or time.monotonic() >= until:
                return reply
            connection.receive(None if until == float("inf") else max(0.0, until - time.monotonic()))
        except Lost:
            _look_again(connection, until)
        except Failure as failure:
            if failure.exit_code != 69 or time.monotonic() >= until:
                raise
            if str(failure) != said:  # once, however long it lasts
                said = str(failure)
                say_err(f"bus: {said}")
            time.sleep(AGAIN_S)
            _look_again(connection, until)


def number_of(text: str, what: str, usage: str) -> int:
    """A count or a number of the log. Raises Failure 64 where it is none."""
    if not (text.isascii() and text.isdigit()) or len(text) > 15:
        raise Failure(64, f"{what} {text} is no number: {usage}")
    return int(text)


def nothing(what: str, since: int, again: str) -> int:
    """Say that there is none yet, and from where to go on; the exit code."""
    say_err(f"no {what} after {since} yet; read on from there: {again}")
    return 75


def _read(connection: Connection, since: int, *, follow: bool) -> Frame:
    if follow:  # first: what comes while the inbox is looked at is told
        connection.ask("supervisor", again=False, body={"type": "WAIT", "resource": "*", "follow": True})
    # Not again by itself: over another connection nobody would tell us of what comes after it.
    frame = connection.ask("supervisor", again=False, body={"type": "INBOX", "since": since})
    body: Frame = frame["body"]
    if body.get("type") == "REFUSED":
        raise Failure(int(frame.get("exit", 64)), body["why"], body["code"])
    return body


def _look_again(connection: Connection, until: float) -> None:
    """Whoever comes up next is asked; one that cannot be had now is looked for again."""
    if time.monotonic() < until:
        with suppress(Failure):
            connection.open()
