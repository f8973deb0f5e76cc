"""What happens in a territory. Facts only: replayed in order they make the state."""

import msgspec

from interlock.protocol.lease import Lease
from interlock.protocol.outcome import Deadline
from interlock.protocol.resource_state import Launch
from interlock.protocol.territory_state import How


class LeaseAsked(msgspec.Struct, frozen=True, tag="lease_queued"):
    """It waits behind what overlaps."""

    agent: str
    lease: Lease


class LeaseBegan(msgspec.Struct, frozen=True, omit_defaults=True, tag="leased"):
    """It is in force. Args: waited_ms: how long it had to wait for that."""

    agent: str
    lease: Lease
    waited_ms: int = 0


class LeaseKept(msgspec.Struct, frozen=True, omit_defaults=True, tag="lease_renewed"):
    """Args: ttl_ms: from now on. why: where the bus itself renewed it."""

    agent: str
    lease: str
    until: Deadline | None
    until_ms: int
    ttl_ms: int
    why: str = ""


class LeaseDrains(msgspec.Struct, frozen=True, tag="lease_draining"):
    """It is over for its agent, and in force until the last command under it is gone."""

    agent: str
    lease: str
    how: How
    why: str


class LeaseOver(msgspec.Struct, frozen=True, tag="lease_ended"):
    """Args: fence: 0 of one that never was in force."""

    agent: str
    lease: str
    fence: int
    how: How
    why: str
    at_ms: int


class LeaseMoved(msgspec.Struct, frozen=True, tag="lease_transferred"):
    """Args: agent: whose it is now, under a new fence. old_agent: whose it was."""

    agent: str
    lease: Lease
    old_agent: str
    at_ms: int


class LeaseUsed(msgspec.Struct, frozen=True, tag="lease_started"):
    """A command runs under it."""

    agent: str
    lease: str
    launch: Launch


class LeaseUnused(msgspec.Struct, frozen=True, tag="lease_finished"):
    """A command that ran under it is gone, with its whole tree."""

    agent: str
    lease: str
    launch: str


class CommitRecorded(msgspec.Struct, frozen=True, tag="committed"):
    """A hook saw that agent make that commit."""

    agent: str
    commit: str
    at_ms: int


class VerificationRecorded(msgspec.Struct, frozen=True, tag="verified"):
    """Args: violations: cause → how many. unknown: pairs that the log does not reach back to."""

    agent: str
    pairs: int
    violations: dict[str, int]
    unknown: int
    at_ms: int


TerritoryEvent = (
    LeaseAsked | LeaseBegan | LeaseKept | LeaseDrains | LeaseOver | LeaseMoved | LeaseUsed | LeaseUnused
    | CommitRecorded | VerificationRecorded
)  # fmt: skip
