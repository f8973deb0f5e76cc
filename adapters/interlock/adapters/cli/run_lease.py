"""The lease of a `bus run --lease`: all of its paths or none, from before the command begins until after it has ended.

It is bound to this process: however this ends, the lease does, once the last process of the command is gone.
"""

from __future__ import annotations

import os
import time

from interlock.adapters.cli.connection import Connection, Lost
from interlock.adapters.cli.lease_wait import LeaseWait
from interlock.adapters.cli.options import Failure
from interlock.adapters.cli.run_asked import Asked
from interlock.adapters.cli.run_tickets import BUS_FAILED, TIMED_OUT
from interlock.adapters.lean import suppress

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from interlock.adapters.cli.frames import Frame


class RunLease:
    """Args: until: how long to wait (monotonic, s). quiet: where it waits is not said."""

    def __init__(self, connection: Connection, asked: Asked, until: float, *, quiet: bool = False) -> None:
        self._asked = asked
        body = {
            "type": "LEASE", "claims": asked.leases, "worktree": os.getcwd(), "purpose": asked.purpose,
            "wait_ms": int(max(0.0, until - time.monotonic()) * 1000), "shared": asked.shared, "run": True,
            "task": asked.task,
        }  # fmt: skip
        self._wait = LeaseWait(connection, body, until, quiet=quiet)

    def take(self) -> Frame:
        """LEASED. Raises Failure: 124 when time is up, 125 where it is refused."""
        frame = self._wait.take()
        body: Frame = frame["body"]
        if body.get("type") == "LEASED":
            return body
        if body.get("type") == "LEASE QUEUED" or body.get("code") == "OVERLAP" or body.get("how") == "given_up":
            paths, why = " ".join(self._asked.leases), frame.get("text", "")
            raise Failure(TIMED_OUT, f"{paths} was not leased in time ({why}): run the same again")
        raise Failure(BUS_FAILED, frame.get("text", "the lease was refused"))

    def give_back(self) -> None:
        """What has a command that lives on stays in force until that is gone."""
        if self._wait.asked:
            with suppress(Failure, Lost):  # the bus sees that we are gone
                body = self._wait.truth()["body"]
                if body.get("type") in {"LEASED", "LEASE QUEUED"}:
                    self._wait.give_up(body["lease"])
