"""What can go wrong for a program that uses the bus. There are three, and `BusError` is all of them."""

import datetime

from interlock.protocol.codes import TABLE, Code


class BusError(Exception):
    """Whatever the bus, or the way to it, has against a call."""


class Refused(BusError):
    """An expected no: nothing was changed.

    Args:
        code: stable, one of `bus errors`: "RESOURCE_BUSY", "UNKNOWN_RESOURCE", …
        why: one sentence for people.

    Attributes:
        next: what to do about it.
        retry: whether the same call can succeed later.
    """

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{code}: {why}")
        meaning = TABLE[Code(code)] if code in Code.__members__ else None
        self.code = code
        self.why = why
        self.next = why.partition(": ")[2] or (meaning.next if meaning is not None else f"bus errors {code}")
        self.retry = meaning is not None and meaning.retry


class BusUnavailable(BusError):
    """No supervisor answers, and none may be started. What was asked may have been done: asking again is safe."""


class Lost(BusError):
    """A hold ended before its user was done with it.

    Args:
        resource: as the program calls it. fence: of the hold. why: how it ended. at: when this program heard of it.
    """

    def __init__(self, resource: str, fence: int, why: str, at: datetime.datetime) -> None:
        super().__init__(f"{resource} (fence {fence}) is not yours any more: {why}")
        self.resource = resource
        self.fence = fence
        self.why = why
        self.at = at
