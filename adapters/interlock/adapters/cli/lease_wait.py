"""Asking for a lease and waiting for it, over restarts of the supervisor. The same id asks what is true now."""

from __future__ import annotations

import time

from interlock.adapters.cli.connection import Connection, Lost, new_id
from interlock.adapters.cli.options import say_err
from interlock.adapters.lean import suppress

LOOK_S = 10.0  # how often what is true is asked for without any word of it
LATE_S = 3.0  # its own time in the queue is over by then
TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from interlock.adapters.cli.frames import Frame


class LeaseWait:
    """One LEASE message.

    Args: body: of it. until: how long to wait (monotonic, s). quiet: where it waits is not said.
    """

    def __init__(self, connection: Connection, body: Frame, until: float, *, quiet: bool = False) -> None:
        self._connection = connection
        self._body = body
        self._until = until
        self._quiet = quiet
        self._id = new_id()
        self._shown = ""
        self._read: list[str] = []
        self.asked = False
        connection.news = []

    def take(self) -> Frame:
        """The answer that stands: LEASED, REFUSED, LEASE ENDED; or LEASE QUEUED, where the time is over.

        Raises: Failure 69 where there is no supervisor until then.
        """
        while True:
            frame = self.truth()
            if frame["body"].get("type") != "LEASE QUEUED" or time.monotonic() > self._until + LATE_S:
                self._connection.seen(self._read)
                return frame
            self._say(frame)
            self._hear(frame["body"]["lease"])

    def truth(self) -> Frame:
        """What is true of it now; a supervisor that is gone is waited for: the place stays."""
        self.asked = True
        return self._connection.ask_until(self._until, "coordinator", message_id=self._id, body=self._body)

    def give_up(self, lease: str) -> Frame:
        """Return it, or its place in the queue. Raises Failure, Lost."""
        return self._connection.ask("coordinator", again=False, body={"type": "RETURN", "lease": lease})

    # --- straight helpers ---------------------------------------------------------------------
    def _hear(self, lease: str) -> None:
        """Until there is word of it, it is time to look, or the connection is lost."""
        look_at = min(time.monotonic() + LOOK_S, max(self._until + LATE_S, time.monotonic() + 0.1))
        with suppress(Lost):
            while (left := look_at - time.monotonic()) > 0:
                frame = self._next(left)
                if frame.get("body", {}).get("lease") == lease:
                    self._read.append(frame["id"])
                    return

    def _next(self, within_s: float) -> Frame:
        """What came while an answer was waited for, then what comes."""
        if self._connection.news:
            return self._connection.news.pop(0)
        return self._connection.receive(within_s)

    def _say(self, frame: Frame) -> None:
        line = "waiting: " + frame["text"].partition("; ")[0]
        if line != self._shown and not self._quiet:
            say_err(line)
        self._shown = line
