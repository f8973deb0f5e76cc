"""State files: the port to what is kept beside the journal, so that losing the journal makes no second holder.

    before a key is first queued for    its file exists                      ─┐ durable, or the message is refused
    before a number is given            it lies below the high-water mark    ─┘
    some time after each change         the file says who has it and who waits, for people and for a recovery

A file may be older than what it tells of: a recovery (recovery.py) shows it to a person and grants nothing.
"""

from typing import Protocol

import msgspec

from interlock.protocol.identity import Identity
from interlock.protocol.resource_state import Ticket, Unit


class StateFacts(msgspec.Struct, frozen=True):
    """What a state file says, for a program.

    Args:
        bus: the journal that it was written from.
        key: of the resource.
        seq: number of the last event that was durable then.
        through: the high-water mark of that moment.
        at_ms: wall clock when it was written.
        units: as they were.
        queue: the first of those who waited; `waiting` says how many there were.
    """

    bus: str
    key: str
    seq: int
    through: int
    at_ms: int
    units: tuple[Unit, ...] = ()
    queue: tuple[Ticket, ...] = ()
    waiting: int = 0


class Mark(msgspec.Struct, frozen=True):
    """The high-water mark: no number above `through` has been given. `seq`: was durable when it was written."""

    bus: str
    through: int
    seq: int


class Survivor(msgspec.Struct, frozen=True):
    """A launch whose keeper lives.

    Args:
        resource: the key that it was begun for; empty where its report does not say.
        unit: the name of its unit; None where its report does not say, as those of older keepers do not.
    """

    launch: str
    keeper: Identity
    resource: str = ""
    unit: str | None = None


class Found(msgspec.Struct, frozen=True):
    """What lies in a home beside its database.

    Args:
        mark: None where there is none, or it cannot be read.
        files: by key; None where one is there that cannot be read.
        survivors: launches whose keepers live.
    """

    mark: Mark | None = None
    files: dict[str, StateFacts | None] = {}
    survivors: tuple[Survivor, ...] = ()


class States(Protocol):
    """What the coordinator needs of it. Nothing but `cover` and `reserve_numbers` waits."""

    numbers_through: int
    problem: str  # what cannot be written at present

    def covers(self, key: str) -> bool:
        """Its file exists, durably."""

    async def cover(self, key: str) -> None:
        """Make it so. Raises NotWritten."""

    async def reserve_numbers(self, seq: int) -> None:
        """Raise the high-water mark to that number at least. Raises NotWritten."""

    def changed(self, key: str) -> None:
        """Something durable has changed: write its file again some time soon."""


class NoStates:
    """A bus that keeps none, for tests of other things."""

    numbers_through = 1 << 62
    problem = ""

    def covers(self, key: str) -> bool:
        return True

    async def cover(self, key: str) -> None:
        """Nothing to do."""

    async def reserve_numbers(self, seq: int) -> None:
        """Nothing to do."""

    def changed(self, key: str) -> None:
        """Nothing to do."""
