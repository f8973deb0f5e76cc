"""The messages about leases: what agents say of a repository's paths, and what the coordinator answers.

Fields are only ever added: journals keep these structs.
"""

import msgspec


# --- to the coordinator -------------------------------------------------------------------
class AskLease(msgspec.Struct, frozen=True, omit_defaults=True, tag="LEASE"):
    """I am going to change these paths of a repository.

    Args:
        claims: files, directories, globs, or line ranges of a file (`README.md:10-40`), as seen from the worktree.
        worktree: absolute directory in a worktree of the repository; "-" for the one that the sender is in.
        purpose: what for, at most 1,024 characters.
        ttl_ms: how long it lasts after each renewal, 10 s to 24 h; 0: 2 minutes.
        shared: others may share it, as long as all of them do.
        wait_ms: how long to wait in the queue; 0: refuse with OVERLAP where it would have to.
        name: the sender's own name for the lease: asked for again under that name, it is the same one.
        bound: it ends with the process that asks.
        run: a `bus run` asks: it ends with its wrapper, and is told over its connection.
        task: it is for that task of the sender's, and within what that one lets change.
    """

    claims: tuple[str, ...]
    worktree: str = "-"
    purpose: str = ""
    ttl_ms: int = 0
    shared: bool = False
    wait_ms: int = 0
    name: str = ""
    bound: bool = False
    run: bool = False
    task: str = ""


class RenewLease(msgspec.Struct, frozen=True, omit_defaults=True, tag="RENEW"):
    """My lease's time begins anew. `ttl_ms`: and is another from now on."""

    lease: str
    ttl_ms: int = 0


class ReturnLease(msgspec.Struct, frozen=True, tag="RETURN"):
    """I am finished with that lease, or do not wait for it any more."""

    lease: str


class TransferLease(msgspec.Struct, frozen=True, tag="TRANSFER"):
    """My lease is that agent's from now on."""

    lease: str
    agent: str


class SplitLease(msgspec.Struct, frozen=True, omit_defaults=True, tag="SPLIT"):
    """A part of my lease is that agent's for a while; then it returns to mine.

    Args: ttl_ms: how long, at most what is left of mine; 0: 2 minutes, or what is left.
    """

    lease: str
    agent: str
    claims: tuple[str, ...]
    ttl_ms: int = 0
    purpose: str = ""


ToTerritory = AskLease | RenewLease | ReturnLease | TransferLease | SplitLease


# --- from the coordinator -----------------------------------------------------------------
class Leased(msgspec.Struct, frozen=True, omit_defaults=True, tag="LEASED"):
    """Those paths are yours.

    Args:
        lease: its id. key: the territory. claims: as they lie in the repository.
        left_ms: until it expires unless it is renewed; 0: what it is bound to keeps it in force.
        until_ms: the same as wall clock. bound_to: what it ends with, "" where only its time ends it.
        parent: the lease that it is a part of.
    """

    lease: str
    key: str
    claims: tuple[str, ...]
    fence: int
    shared: bool = False
    left_ms: int = 0
    until_ms: int = 0
    bound_to: str = ""
    parent: str = ""
    note: str = ""


class Behind(msgspec.Struct, frozen=True, omit_defaults=True):
    """A lease in the way.

    Args: claims: those of it that overlap. left_ms: until it expires; 0: not known. waits: it is not in force itself.
    """

    lease: str
    agent: str
    claims: tuple[str, ...]
    left_ms: int = 0
    purpose: str = ""
    waits: bool = False


class LeaseQueued(msgspec.Struct, frozen=True, omit_defaults=True, tag="LEASE QUEUED"):
    """Not yours yet: do not change those paths. `more`: how many besides are in the way."""

    lease: str
    key: str
    claims: tuple[str, ...]
    behind: tuple[Behind, ...]
    left_ms: int = 0
    more: int = 0


class LeaseEnded(msgspec.Struct, frozen=True, omit_defaults=True, tag="LEASE ENDED"):
    """Not yours any more. `how`: released, expired, gone, revoked, transferred, given_up."""

    lease: str
    key: str
    claims: tuple[str, ...]
    how: str
    why: str
    fence: int = 0


AboutLease = Leased | LeaseQueued | LeaseEnded
