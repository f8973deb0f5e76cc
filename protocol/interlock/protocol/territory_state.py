"""The state of one territory: a repository's leases in force, those that wait, and what is remembered of the others.

asked ──▶ waits (behind what overlaps) ──▶ in force ──▶ (its commands end) ──▶ over
            └── gives up                      └── split: parts of it to others, as leases that return
"""

from enum import StrEnum

import msgspec

from interlock.protocol.claim import Claim
from interlock.protocol.lease import Lease
from interlock.protocol.leases import EMPTY_LEASES, Leases
from interlock.protocol.outcome import Deadline, earliest
from interlock.protocol.table import EMPTY, Table


class How(StrEnum):
    """How a lease ended."""

    RELEASED = "released"
    EXPIRED = "expired"
    GONE = "gone"  # what it was bound to has ended
    REVOKED = "revoked"
    TRANSFERRED = "transferred"
    GIVEN_UP = "given_up"  # it never was in force


class Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered of a lease that is over: enough to tell its agent the truth."""

    agent: str
    claims: tuple[Claim, ...]
    fence: int
    how: How
    why: str
    at_ms: int
    request: str = ""


class Commit(msgspec.Struct, frozen=True):
    """Whose a commit is, as a hook said it. Args: at_ms: wall clock."""

    agent: str
    at_ms: int


class Stats(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts since the territory is known.

    Args:
        waits_ms: of the last leases that had to wait, how long.
        pairs, conflicting: (commit, path) pairs that were verified, and those of them that another held.
        verified_ok, verified_failed: verifications by their outcome. violations: cause → how many.
    """

    acquired: int = 0
    queued: int = 0
    renewed: int = 0
    expired: int = 0
    released: int = 0
    lost: int = 0
    given_up: int = 0
    waits_ms: tuple[int, ...] = ()
    commits: int = 0
    pairs: int = 0
    conflicting: int = 0
    verified_ok: int = 0
    verified_failed: int = 0
    violations: dict[str, int] = {}


class Territory(msgspec.Struct, frozen=True, omit_defaults=True):
    """One repository's.

    Args:
        key: `territory/<id>`.
        held: in force, those too that only their last commands keep so. waiting: in order of arrival.
        used: launch → leases that it runs under.
        ended: id → what became of it; the last ones only.
        hot: a pattern that was waited for → when (wall clock, ms); the last ones only.
        commits: of which hooks have said whose they are; the last ones only.
    """

    key: str
    held: Leases = EMPTY_LEASES
    waiting: Leases = EMPTY_LEASES
    used: Table[str, tuple[str, ...]] = EMPTY
    ended: Table[str, Ended] = EMPTY
    hot: Table[str, tuple[int, ...]] = EMPTY
    commits: Table[str, Commit] = EMPTY
    stats: Stats = Stats()

    def concerns(self, agent: str) -> bool:
        """That agent has a lease here, or waits for one."""
        return bool(self.held.of(agent) or self.waiting.of(agent))

    def leases_of(self, agent: str) -> list[Lease]:
        """What an agent has, then what it waits for."""
        return [
            *(self.held[id_] for id_ in self.held.of(agent)),
            *(self.waiting[id_] for id_ in self.waiting.of(agent)),
        ]

    def lease(self, id_: str) -> Lease | None:
        """In force, or waiting."""
        return self.held.get(id_) or self.waiting.get(id_)


def next_deadline(territory: Territory, boot: str) -> Deadline | None:
    """The earliest moment at which a Tick may change something, on this boot."""
    ends = (territory.held.next_due(boot), territory.waiting.next_due(boot))
    return earliest([each for each in ends if each is not None], boot)
