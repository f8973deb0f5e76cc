"""A lease: who may change which part of a repository, until when. It waits as long as it has no fence."""

import msgspec

from interlock.protocol.claim import Claim
from interlock.protocol.identity import Identity
from interlock.protocol.limits import LEASE_TTL_MS
from interlock.protocol.outcome import Deadline
from interlock.protocol.resource_state import Launch


class Lease(msgspec.Struct, frozen=True, omit_defaults=True):
    """One lease: all of its claims or none.

    Args:
        id: "L" and the number of the event that it came with; nothing else on this bus has it.
        request: id of the message that asked for it.
        shared: others may share what it claims, as long as all of them do.
        purpose: what for, in the words of its agent.
        ttl_ms: how long it lasts after each renewal.
        key: its agent's own name for it: asked for again under that key, it is this lease.
        worktree: real path of the worktree that its agent works in; "" where that is not known.
        asked_ms, since_ms: wall clock: when it was asked for, and granted.
        fence: of its grant; 0: it waits.
        until, until_ms: when it expires, and the same for people (wall clock, ms); of one that waits: when it gives up.
            None: what it is bound to keeps it in force.
        process: it ends with that process.
        with_agent: it ends with its agent, whose own process says when that is.
        run: a `bus run` has it, and is told over its connection.
        wait_ms: how long it may wait.
        parent: the lease that it was split from. above: that one, what that was split from, and so on.
        launches: commands that run under it, which keep it in force.
        task: that it is for.
        ending, why: how it ends, and why, once the last of those commands is gone.
    """

    id: str
    agent: str
    claims: tuple[Claim, ...]
    incarnation: int = 0
    request: str = ""
    shared: bool = False
    purpose: str = ""
    ttl_ms: int = LEASE_TTL_MS
    key: str = ""
    worktree: str = ""
    asked_ms: int = 0
    fence: int = 0
    since_ms: int = 0
    until: Deadline | None = None
    until_ms: int = 0
    process: Identity | None = None
    with_agent: bool = False
    run: bool = False
    wait_ms: int = 0
    parent: str = ""
    above: tuple[str, ...] = ()
    launches: dict[str, Launch] = {}
    ending: str = ""
    why: str = ""
    task: str = ""

    def is_bound(self) -> bool:
        """Something that lives keeps it in force, and no clock ends it."""
        return self.process is not None or self.with_agent
