"""The lease of a `bus run --lease`: all of its paths or none, from before the command begins until after it has ended.

It is bound to this process: however this ends, the lease does, once the last process of the command is gone.
"""

from __future__ import annotations

import os
import time

from interlock.adapters.cli.connection import Connection, Lost, new_id
from interlock.adapters.cli.options import Failure, say_err
from interlock.adapters.cli.run_asked import Asked
from interlock.adapters.cli.run_tickets import BUS_FAILED, LOOK_S, TIMED_OUT
from interlock.adapters.lean import suppress

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from interlock.adapters.cli.frames import Frame


class RunLease:
    """Args: until: how long to wait (monotonic, s). quiet: where it waits is not said."""

    def __init__(self, connection: Connection, asked: Asked, until: float, *, quiet: bool = False) -> None:
        self._connection = connection
        self._asked = asked
        self._until = until
        self._quiet = quiet
        self._id = new_id()
        self._shown = ""
        self._asked_for = False
        self._said: Frame = {}  # the same each time: an id with other content would be another message
        self.granted: Frame | None = None
        connection.news = []

    def take(self) -> Frame:
        """LEASED. Raises Failure: 124 when time is up, 125 where it is refused."""
        while True:
            frame = self._truth()
            body: Frame = frame["body"]
            if body.get("type") == "LEASED":
                self.granted = body
                return body
            if body.get("type") != "LEASE QUEUED":
                if body.get("code") == "OVERLAP" or body.get("how") == "given_up":
                    raise self._timed_out(frame.get("text", ""))
                raise Failure(BUS_FAILED, frame.get("text", "the lease was refused"))
            if time.monotonic() >= self._until:
                raise self._timed_out(frame["text"])
            self._say(frame)
            self._hear(body["lease"])

    def give_back(self) -> None:
        """What has a command that lives on stays in force until that is gone."""
        if not self._asked_for:
            return
        with suppress(Failure, Lost):
            if self.granted is None:
                body = self._connection.ask("coordinator", again=False, message_id=self._id, body=self._body())["body"]
                if "lease" not in body:
                    return
                self.granted = body
            body = {"type": "RETURN", "lease": self.granted["lease"]}
            self._connection.ask("coordinator", again=False, body=body)

    # --- straight helpers ---------------------------------------------------------------------
    def _truth(self) -> Frame:
        """Asking again with the same id asks what is true now; a supervisor that is gone is waited for."""
        shown = ""
        while True:
            try:
                self._asked_for = True
                return self._connection.ask("coordinator", message_id=self._id, body=self._body())
            except Failure as failure:
                if failure.exit_code != 69 or time.monotonic() >= self._until:
                    raise
                if str(failure) != shown:
                    say_err(f"waiting: {failure}")
                shown = str(failure)
                time.sleep(0.5)

    def _body(self) -> Frame:
        if not self._said:
            wait_ms = int(max(0.0, self._until - time.monotonic()) * 1000)
            self._said = {
                "type": "LEASE", "claims": self._asked.leases, "worktree": os.getcwd(),
                "purpose": self._asked.purpose, "wait_ms": wait_ms, "shared": self._asked.shared, "run": True,
            }  # fmt: skip
        return self._said

    def _hear(self, lease: str) -> None:
        """Until there is word of it, it is time to look, or the connection is lost."""
        until = min(time.monotonic() + LOOK_S, self._until)
        with suppress(Lost):
            while (left := until - time.monotonic()) > 0:
                if self._connection.receive(left).get("body", {}).get("lease") == lease:
                    return

    def _say(self, frame: Frame) -> None:
        line = "waiting: " + frame["text"].partition("; ")[0]
        if line != self._shown and not self._quiet:
            say_err(line)
        self._shown = line

    def _timed_out(self, why: str) -> Failure:
        return Failure(TIMED_OUT, f"{' '.join(self._asked.leases)} was not leased in time ({why}): run the same again")
