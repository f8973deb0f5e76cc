"""A lease: that one agent may change some paths of a repository, for a time; or that it waits until it may."""

import msgspec

from interlock.protocol.claim import Claim
from interlock.protocol.identity import Identity
from interlock.protocol.outcome import Deadline
from interlock.protocol.resource_state import Launch


class Lease(msgspec.Struct, frozen=True, omit_defaults=True):
    """One lease, held or waited for.

    Args:
        id: of the request that asked for it.
        agent: who holds it, or waits for it.
        incarnation: of that agent, when it asked.
        claims: what it is for; all of them or none.
        shared: others may hold shared leases of the same paths beside it.
        purpose: what people are told that it is for.
        ttl_ms: how long it holds without a renewal (ms).
        key: idempotency key; "": none.
        fence: number of its grant, which grows with every grant; 0: it waits.
        asked_ms: wall clock of the request (ms since the epoch).
        since_ms: wall clock of the grant (ms since the epoch); 0: it waits.
        until: when it ends unless it is renewed; None: its bound process keeps it alive, or it waits.
        until_ms: the same on the wall clock, for people (ms since the epoch); 0: none.
        process: that keeps it alive.
        parent: id of the lease that this one is split from; "": none.
        worktree: real path of the git top it was asked from; "" outside of any.
        launches: commands that run under it and keep it in force, by their ids.
    """

    id: str
    agent: str
    incarnation: int
    claims: tuple[Claim, ...]
    shared: bool = False
    purpose: str = ""
    ttl_ms: int = 0
    key: str = ""
    fence: int = 0
    asked_ms: int = 0
    since_ms: int = 0
    until: Deadline | None = None
    until_ms: int = 0
    process: Identity | None = None
    parent: str = ""
    worktree: str = ""
    launches: dict[str, Launch] = {}
