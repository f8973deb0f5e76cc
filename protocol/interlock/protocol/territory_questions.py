"""What clients ask of a repository's leases (`to: supervisor`), and what the bus answers."""

from typing import Any

import msgspec


# --- asked --------------------------------------------------------------------------------
class AskTerritory(msgspec.Struct, frozen=True, omit_defaults=True, tag="TERRITORY"):
    """The map. Args: directory: in a worktree of the repository. path: only what overlaps it; "" for all."""

    directory: str
    path: str = ""


class AskLeases(msgspec.Struct, frozen=True, omit_defaults=True, tag="LEASES"):
    """Leases in force and waiting, a page at a time.

    Args:
        directory: in a worktree of the repository. mine: only the asker's.
        after: id of the last one of the page before.
    """

    directory: str
    mine: bool = False
    after: str = ""


class TellCommit(msgspec.Struct, frozen=True, tag="RECORD_COMMIT"):
    """A hook saw the asker make that commit: hex, 40 or 64 digits."""

    directory: str
    commit: str


class TellVerified(msgspec.Struct, frozen=True, omit_defaults=True, tag="RECORD_VERIFIED"):
    """A verification has come to its end.

    Args: pairs: that were judged. violations: cause → how many. unknown: pairs that nobody can judge.
    """

    directory: str
    pairs: int
    violations: dict[str, int] = {}
    unknown: int = 0


class TakeLease(msgspec.Struct, frozen=True, tag="REVOKE_LEASE"):
    """A person takes a lease back. Args: because: its owner reads it, and the log keeps it. by: who says so."""

    lease: str
    because: str
    by: str = ""


class GiveLease(msgspec.Struct, frozen=True, tag="TRANSFER_LEASE"):
    """A person gives a lease to another agent, whoever has it now. Args: because, by: as of TakeLease."""

    lease: str
    agent: str
    because: str
    by: str = ""


# --- answered -----------------------------------------------------------------------------
class TerritoryReply(msgspec.Struct, frozen=True, tag="TERRITORY_REPLY"):
    """The map document, as `bus map --json` prints it."""

    map: dict[str, Any]


class LeasesReply(msgspec.Struct, frozen=True, omit_defaults=True, tag="LEASES_REPLY"):
    """Args: more: ask for the next page after the last of these."""

    leases: tuple[dict[str, Any], ...]
    territory: str
    log_from_ms: int = 0
    more: bool = False


TerritoryControl = AskTerritory | AskLeases | TellCommit | TellVerified | TakeLease | GiveLease
TerritoryAnswer = TerritoryReply | LeasesReply
