"""What a command runs under: every resource that it needs, taken in the order of their keys, all of them or none.

COVER ─▶ each key, in order: REQUEST (a ticket of its own) ─▶ QUEUED … ─▶ GRANTED
  ▲                                                             │ the policy changed, or a reservation was over
  └─────────────────────────────────────────────────────────────┘   what is still granted, and each place, stays

While it waits for one it asks again for those that it has, so that they do not end as not used.
"""

from __future__ import annotations

import os
import time

from interlock.adapters.cli.connection import Connection, Lost, new_id
from interlock.adapters.cli.options import Failure, say_err
from interlock.adapters.cli.run_asked import Asked, fences, inside
from interlock.adapters.lean import suppress

AGAIN = {"STALE_POLICY", "RESERVATION_EXPIRED"}  # then what is true now is asked for, as long as there is time
TIMED_OUT, BUS_FAILED = 124, 125
LOOK_S = 15.0
RESERVATION_MS = 30_000  # where the bus does not say
PAUSE_S = 0.1  # before it is begun again
TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from interlock.adapters.cli.frames import Frame


class Want:
    """One resource. Args: key: its key, or as it is called, where nobody needs to know more. called: for people."""

    def __init__(self, key: str, called: str, ticket: str = "") -> None:
        self.key = key
        self.called = called
        self.theirs = bool(ticket)  # a ticket that the agent has asked for itself: it is neither made nor withdrawn
        self.ticket = ticket or new_id()
        self.reservation = ""  # of who it counts as: the one that it is to go under
        self.asked = False
        self.granted: Frame | None = None

    def begin_again(self) -> None:
        self.asked, self.granted = False, None
        if not self.theirs:
            self.ticket = new_id()


class Tickets:
    """Those of one command. Args: until: how long to wait (monotonic, s). quiet: where it waits is not said."""

    def __init__(self, connection: Connection, asked: Asked, until: float, *, quiet: bool = False) -> None:
        self._connection = connection
        self._asked = asked
        self._until = until
        self._quiet = quiet
        self._shown = ""
        self._worktree = ""
        self._rounds = 0
        self._kept = 0.0  # when it was said last that what it has is waited with (monotonic, s)
        self._keys: dict[str, str] = {}  # as it is called → its key, once an answer has said it
        self.wants: list[Want] = []
        self.epochs: dict[str, int] = {}
        connection.news = []

    def take(self) -> list[Frame]:
        """GRANTED of each, in key order. Raises Failure: 124 when time is up, 125 where one is refused."""
        while True:
            self._cover()
            if not self._revoked() and all(want.granted is not None for want in self.wants):
                return [want.granted for want in self.wants if want.granted is not None]
            if not all(want.granted is not None or self._wait_for(want) for want in self.wants):
                self.pause(self._until_called())
            # Once all are granted it looks once more: while it waited the policy may have changed.

    def may_ask_again(self, code: str) -> bool:
        """Whether a refused admission is begun once more; not with a named ticket that another command has used."""
        return code in AGAIN or (code == "RESOURCE_BUSY" and not any(want.theirs for want in self.wants))

    def pause(self, called: str) -> None:
        """Before what is true now is asked for once more. Raises Failure 124 when there is no time for it."""
        self._rounds += 1
        if time.monotonic() >= self._until and self._rounds > 1:
            raise self._timed_out(called)
        time.sleep(min(PAUSE_S * self._rounds, 1.0))

    def give_back(self, *, afresh: bool = False) -> None:
        """Nothing was executed: grants and places go back at once. Args: afresh: it is to be begun once more."""
        for want in self.wants:
            self._give_back(want)
            if afresh:
                want.begin_again()

    # --- what it needs ------------------------------------------------------------------------
    def _cover(self) -> None:
        """Which resources it needs now; what it does not need any more goes back."""
        body = {"type": "COVER", "recognised": self._asked.recognised, "inside": inside()}
        covered = self._body(self._connection.ask("supervisor", body=body))
        self.epochs = covered["epochs"]
        needed = {key: Want(key, covered.get("called", {}).get(key, key)) for key in self.epochs}
        want = self._their_ticket(self._asked.ticket) if self._asked.ticket else None
        if want is not None:
            needed[want.key] = want
        several = len(self._asked.resources) + len(needed) > 1 or len(fences()) > 1
        for called in self._asked.resources:
            key = self._keys.get(called) or (self._key_of(called) if several else called)
            if key not in needed or not needed[key].theirs:
                needed[key] = Want(key, called)
        if self._asked.ticket and want is None:
            if len(needed) != 1:
                why = f"ticket {self._asked.ticket} is none of yours, or has ended: bus me shows those that you have"
                raise Failure(BUS_FAILED, why, "TARGET_ENDED")
            next(iter(needed.values())).reservation = self._asked.ticket
        before = {want.key: want for want in self.wants}
        for key in before.keys() - needed.keys():
            self._give_back(before[key])
        self.wants = [before.get(key, needed[key]) for key in sorted(needed)]

    def _key_of(self, called: str) -> str:
        if called.startswith(("machine/", "repository/")):
            return called
        frame = self._connection.ask("supervisor", body={"type": "STATUS", "resource": called})
        return str(self._body(frame)["resources"][0]["resource"])

    def _their_ticket(self, ticket: str) -> Want | None:
        """The agent's own request of that id; None where it has none, whoever else has."""
        found = [each for each in self._body(self._connection.ask("supervisor", body={"type": "ME"}))["tickets"]
                 if each["request_id"] == ticket]  # fmt: skip
        return Want(found[0]["key"], found[0]["resource"], ticket) if found else None

    # --- one of them --------------------------------------------------------------------------
    def _wait_for(self, want: Want) -> bool:
        """Until it is granted; False: something has changed, begin again. Raises Failure as `take` does.

        Asking again with the same id asks what is true now: that is all it does whenever anything has happened.
        """
        while True:
            frame = self._truth(want)
            body: Frame = frame["body"]
            if self._revoked():
                return False
            want.key = self._keys[want.called] = body.get("key") or want.key
            if body.get("type") == "GRANTED":
                want.granted = {**body, "shared": True} if want.theirs else body
                return True
            if body.get("type") != "QUEUED":
                if body.get("code") in AGAIN:
                    want.begin_again()
                    return False
                raise Failure(int(frame.get("exit") or 77), frame.get("text", "refused"))
            if not want.theirs and body.get("holder") == self._connection.agent() and self._came_to_me(want):
                self._give_back(want)
                want.begin_again()  # it has what its agent has, as if it had been started now
                continue
            if time.monotonic() >= self._until:
                raise self._timed_out(want.called)
            self._say(frame)
            if body["request_id"] != want.ticket:  # the agent's own ticket, whose news go to those that follow it
                self._connection.tell("supervisor", body={"type": "WAIT", "resource": body["key"], "follow": True})
            if not self._keep_before(want):
                return False
            self._hear(min(LOOK_S, self._keep_s(), self._until - time.monotonic()))

    def _keep_before(self, waited: Want) -> bool:
        """Say that what it has is waited with, so that it is not over meanwhile. False: one is over all the same.

        Only what comes before it in the order of the keys: two that had each what the other waits for would keep it
        for ever. What stands behind, such as under a policy that came later, ends in its time and is asked for again.
        """
        if time.monotonic() < self._kept + self._keep_s():
            return True
        self._kept = time.monotonic()
        for want in self.wants:
            if want.key >= waited.key or want.granted is None or want.theirs or want.granted.get("shared"):
                continue
            if self._truth(want)["body"].get("type") == "REFUSED":
                want.begin_again()
                return False
        return True

    def _truth(self, want: Want) -> Frame:
        """What is true of the ticket now; a supervisor that is gone is waited for, as the grant is: the place stays."""
        if want.theirs:
            body = {"type": "WAIT", "resource": want.key, "follow": True}
            return self._connection.ask_until(self._until, "supervisor", body=body)
        want.asked = True
        body = self._request(want)
        return self._connection.ask_until(self._until, "coordinator", message_id=want.ticket, body=body)

    def _request(self, want: Want) -> Frame:
        if not self._worktree:
            from interlock.adapters.worktrees import git_top

            self._worktree = git_top(os.getcwd()) or os.getcwd()
        under = fences()
        only = next(iter(under.values())) if len(under) == 1 else 0
        return {
            "type": "REQUEST", "resource": want.called, "worktree": self._worktree, "purpose": self._asked.purpose,
            "time_ms": self._asked.time_ms, "run": True, "under": under.get(want.key, only),
            **({"ticket": want.reservation} if want.reservation else {}),
            **({"task": self._asked.task} if want.called in self._asked.resources else {}),  # else a policy's
        }  # fmt: skip

    def _hear(self, within_s: float) -> None:
        """Take in what comes; returns once that is about one of them, it is time to look, or the connection is lost."""
        until = time.monotonic() + within_s
        keys = {want.key for want in self.wants}
        with suppress(Lost):
            while (left := until - time.monotonic()) > 0:
                frame = self._connection.receive(left)
                body = frame.get("body", {})
                if frame and "reply_to" not in frame:
                    assert self._connection.news is not None
                    self._connection.news.append(frame)
                    if body.get("key") in keys:
                        return

    def _revoked(self) -> bool:
        """Whether one of them was taken back, so that it is begun again. Raises Failure where it was for good."""
        news, self._connection.news = self._connection.news or [], []
        again = False
        for frame in news:
            body = frame.get("body", {})
            want = next((each for each in self.wants if each.ticket == body.get("request_id")), None)
            if want is None or body.get("type") != "REVOKED":
                continue
            if body.get("code") not in AGAIN or want.theirs:
                raise Failure(BUS_FAILED, frame["text"].partition(" ")[2], body.get("code", ""))
            want.begin_again()
            again = True
        return again

    # --- straight helpers ---------------------------------------------------------------------
    def _keep_s(self) -> float:
        """Often enough that one look may be late."""
        reservation_ms: float = self._connection.welcome.get("reservation_ms") or RESERVATION_MS
        return reservation_ms / 3000

    def _came_to_me(self, want: Want) -> bool:
        """The agent's own request was granted while its `bus run` waited: that would wait for itself."""
        body = self._connection.ask("supervisor", body={"type": "CHECK", "resource": want.called})["body"]
        if body.get("type") != "GRANTED" or body.get("shared"):  # that would be another bus run of it
            return False
        frame = self._connection.ask("supervisor", body={"type": "STATUS", "resource": body["key"]})
        (row,) = self._body(frame)["resources"]  # what a controller chose is for one command: has that begun?
        return row.get("policy") is None or any(each["fence"] == body["fence"] for each in row["reservations"])

    def _say(self, frame: Frame) -> None:
        line = "waiting: " + frame["text"].partition("; do not use")[0]
        if line != self._shown and not self._quiet:
            say_err(line)
        self._shown = line

    def _timed_out(self, called: str) -> Failure:
        why = f"{called} was not granted in time: run the same again, within 2 min with the place that you had"
        return Failure(TIMED_OUT, why, "RESOURCE_WAIT_TIMEOUT")

    def _until_called(self) -> str:
        return next((want.called for want in self.wants if want.granted is None), "what it needs")

    def _give_back(self, want: Want) -> None:
        """Release what was granted, leave the queue; where that fails, the bus sees that we are gone."""
        if want.theirs or not want.asked or (want.granted or {}).get("shared"):
            return
        try:
            if want.granted is None:
                body: Frame = {"type": "CANCEL", "resource": want.called, "request_id": want.ticket}
                frame = self._connection.ask("coordinator", again=False, body=body)
                if frame["body"].get("type") != "REFUSED":
                    return
                body = self._request(want)  # granted at the same moment?
                held = self._connection.ask("coordinator", again=False, message_id=want.ticket, body=body)["body"]
                if held.get("type") != "GRANTED" or held.get("shared"):
                    return
                want.granted = held
            body = {"type": "RELEASE", "resource": want.granted["key"], "fence": want.granted["fence"]}
            self._connection.ask("coordinator", again=False, body=body)
        except (Failure, Lost, KeyError):
            say_err(f"bus: {want.called} could not be given back: it is free again once this process is gone")

    def _body(self, frame: Frame) -> Frame:
        body: Frame = frame["body"]
        if body.get("type") == "REFUSED":
            raise Failure(int(frame.get("exit") or 77), frame.get("text") or body["why"])
        return body
