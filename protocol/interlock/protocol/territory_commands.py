"""What a territory can be told. Agents' names and incarnations are established by the door, and claims by the disk."""

import msgspec

from interlock.protocol.claim import Claim
from interlock.protocol.identity import Identity
from interlock.protocol.resource_commands import AgentGone, LaunchGone, Sync, Tick


class Acquire(msgspec.Struct, frozen=True):
    """An agent asks for a lease.

    Args:
        claims: as they lie in the repository.
        wait_ms: how long it may wait in the queue; 0: refused where it would have to.
        again: the very same message was taken in before: it is never done twice.
        process: it is to end with that process. with_agent: with its agent, which is bound to one.
        task: that it is for.
    """

    sender: str
    incarnation: int
    id: str
    claims: tuple[Claim, ...]
    shared: bool = False
    purpose: str = ""
    ttl_ms: int = 0
    key: str = ""
    wait_ms: int = 0
    worktree: str = ""
    process: Identity | None = None
    with_agent: bool = False
    run: bool = False
    again: bool = False
    task: str = ""


class Renew(msgspec.Struct, frozen=True):
    """Its time begins anew. Args: ttl_ms: and is another from now on; 0: the same."""

    sender: str
    id: str
    lease: str
    ttl_ms: int = 0


class Return(msgspec.Struct, frozen=True):
    """An agent gives a lease back, or its place in the queue up."""

    sender: str
    id: str
    lease: str


class Transfer(msgspec.Struct, frozen=True):
    """A lease becomes another agent's.

    Args:
        to, incarnation: whose. with_agent: that one's own process says when it is gone.
        because: a person says so of another's lease, and why; "": its holder does.
    """

    sender: str
    id: str
    lease: str
    to: str
    incarnation: int
    with_agent: bool = False
    because: str = ""


class Split(msgspec.Struct, frozen=True):
    """A holder gives a part of its lease to an agent, for a while; then it returns. Args: as of Acquire."""

    sender: str
    id: str
    lease: str
    to: str
    incarnation: int
    claims: tuple[Claim, ...]
    ttl_ms: int = 0
    purpose: str = ""
    again: bool = False


class RevokeLease(msgspec.Struct, frozen=True):
    """A person takes a lease back."""

    sender: str
    id: str
    lease: str
    because: str


class AdmitUnder(msgspec.Struct, frozen=True):
    """A command of `bus run` is to run under a lease, which stays in force until its tree is gone."""

    sender: str
    id: str
    lease: str
    fence: int
    launch: str
    keeper: Identity
    command: str


class ProcessEnded(msgspec.Struct, frozen=True):
    """A process that leases of an agent are bound to is gone."""

    process: Identity
    agent: str


class RecordCommit(msgspec.Struct, frozen=True):
    """A hook saw an agent make a commit."""

    sender: str
    id: str
    commit: str


class RecordVerified(msgspec.Struct, frozen=True):
    """A verification has come to its end. Args: violations: cause → how many. unknown: pairs nobody can judge."""

    sender: str
    id: str
    pairs: int
    violations: dict[str, int]
    unknown: int = 0


TerritoryCommand = (
    Acquire | Renew | Return | Transfer | Split | RevokeLease | AdmitUnder | RecordCommit | RecordVerified
    | ProcessEnded | AgentGone | LaunchGone | Sync | Tick
)  # fmt: skip
