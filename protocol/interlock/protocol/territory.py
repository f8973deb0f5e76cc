"""The territory machine: who may change which paths of a repository. First come, first served by overlap.

    Acquire ──▶ nothing in the way ─────────────▶ in force ──▶ returned, expired, gone, revoked ──▶ over
            └─▶ waits for those before it alone ──┘               └── commands under it end first

A lease that overlaps nothing never waits for one that does. It decides by patterns alone: what a path is, and whose a
message, the door has established. Source: architecture, the territory machine.
"""

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.lease import Lease
from interlock.protocol.limits import LEASE_TTL_MS, LEASES_MAX, LEASES_WAITING_MAX, LEASES_WAITING_OF_AGENT_MAX
from interlock.protocol.messages import Released, Text
from interlock.protocol.outcome import Now, Outcome, after
from interlock.protocol.resource_commands import AgentGone, LaunchGone, Sync, Tick
from interlock.protocol.territory_commands import (
    Acquire,
    AdmitUnder,
    ProcessEnded,
    RecordCommit,
    RecordVerified,
    Renew,
    Return,
    RevokeLease,
    Split,
    TerritoryCommand,
    Transfer,
)
from interlock.protocol.territory_course import begin, expire_due, launch_gone, rest_of_bound
from interlock.protocol.territory_draft import (
    Draft,
    ended,
    in_the_way_words,
    is_ttl,
    leased,
    queued,
    texts,
    too_many,
    why_over,
)
from interlock.protocol.territory_events import CommitRecorded, LeaseAsked, TerritoryEvent, VerificationRecorded
from interlock.protocol.territory_holding import admit, give_back, renew, revoke, split, transfer
from interlock.protocol.territory_overlap import is_blocked, ring
from interlock.protocol.territory_state import Territory

replace = msgspec.structs.replace
Decided = Outcome[Territory, TerritoryEvent]


def decide(territory: Territory, command: TerritoryCommand, now: Now) -> Decided:
    """Answer one command. What is due has ended before it is looked at, whether or not the timer was quick."""
    draft = Draft(territory, now, getattr(command, "id", ""))
    expire_due(draft)
    match command:
        case Acquire():
            _acquire(draft, command)
        case Renew():
            renew(draft, command)
        case Return():
            give_back(draft, command)
        case Transfer():
            transfer(draft, command)
        case Split():
            split(draft, command)
        case RevokeLease():
            revoke(draft, command)
        case AdmitUnder():
            admit(draft, command)
        case RecordCommit(sender, _, commit):
            if commit not in draft.state.commits:  # the first word counts: nobody takes another's commit over
                draft.event(CommitRecorded(sender, commit, now.at_ms))
            draft.answer(sender, Text(""))
        case RecordVerified(sender, _, pairs, violations, unknown):
            draft.event(VerificationRecorded(sender, pairs, violations, unknown, now.at_ms))
            draft.answer(sender, Text(""))
        case ProcessEnded(process, agent):
            for lease in [each for each in draft.state.leases_of(agent) if each.process == process]:
                rest_of_bound(draft, lease, f"process {process.pid} has ended")
        case AgentGone(agent, incarnation, why):
            for lease in [each for each in draft.state.leases_of(agent) if each.incarnation <= incarnation]:
                if lease.process is None:
                    rest_of_bound(draft, lease, f"{agent} is gone ({why})")
        case LaunchGone():
            launch_gone(draft, command)
        case Sync(_, sender):
            draft.answer(sender, Released("", draft.state.key))
        case Tick():
            pass
    return draft.outcome()


# --- asking -------------------------------------------------------------------------------
def _acquire(draft: Draft, asked: Acquire) -> None:
    known = _asked_before(draft, asked)
    if known is not None:
        _answer_again(draft, known, asked)
        return
    if asked.again:  # it is never done twice
        mine = ((id_, each) for id_, each in draft.state.ended.items() if each.agent == asked.sender)
        gone = next((pair for pair in mine if pair[1].request == asked.id), None)
        if gone is not None:
            draft.answer(asked.sender, ended(draft, *gone))
        else:
            draft.refuse(asked.sender, Code.TARGET_ENDED, "that request ended a while ago: ask anew")
        return
    ttl_ms = asked.ttl_ms or LEASE_TTL_MS
    if not is_ttl(draft, asked.sender, ttl_ms):
        return
    lease = Lease(
        f"L{draft.next_seq()}", asked.sender, asked.claims, asked.incarnation, asked.id, asked.shared, asked.purpose,
        ttl_ms, asked.key, asked.worktree, draft.now.at_ms, process=asked.process, with_agent=asked.with_agent,
        run=asked.run, task=asked.task,
    )  # fmt: skip
    if not is_blocked(draft.state, lease):
        if len(draft.state.held) >= LEASES_MAX:
            draft.refuse(asked.sender, Code.QUEUE_FULL, too_many(draft))
            return
        began = begin(draft, lease)
        draft.answer(asked.sender, leased(draft, began))
        return
    _wait(draft, asked, lease)


def _wait(draft: Draft, asked: Acquire, lease: Lease) -> None:
    """Something is in the way: a place in the queue, if it is to have one."""
    if not asked.wait_ms:
        draft.refuse(asked.sender, Code.OVERLAP, f"{in_the_way_words(draft, lease)}: take another path, or --wait")
        return
    waits = ring(draft.state, lease)
    if waits is not None:
        why = (
            f"{waits.agent} waits for {' '.join(texts(waits.claims))}, and you would wait for {waits.agent}: "
            "release what you hold, then ask for all of it together"
        )
        draft.refuse(asked.sender, Code.DEADLOCK, why)
        return
    if len(draft.state.waiting) >= LEASES_WAITING_MAX:
        why = f"{len(draft.state.waiting)} wait there, at most {LEASES_WAITING_MAX} can: try again later"
        draft.refuse(asked.sender, Code.QUEUE_FULL, why)
        return
    if len(draft.state.waiting.of(asked.sender)) >= LEASES_WAITING_OF_AGENT_MAX:
        why = f"you wait for {LEASES_WAITING_OF_AGENT_MAX} leases already: name more paths in one, or release some"
        draft.refuse(asked.sender, Code.QUEUE_FULL, why)
        return
    until = after(draft.now, asked.wait_ms)
    until_ms = draft.now.at_ms + asked.wait_ms
    draft.event(LeaseAsked(asked.sender, replace(lease, until=until, until_ms=until_ms, wait_ms=asked.wait_ms)))
    draft.answer(asked.sender, queued(draft, draft.state.waiting[lease.id]))


def _asked_before(draft: Draft, asked: Acquire) -> Lease | None:
    """The lease that this message, or its agent under this name, has asked for already."""
    for lease in draft.state.leases_of(asked.sender):
        if lease.request == asked.id or (asked.key and lease.key == asked.key and not lease.ending):
            return lease
    return None


def _answer_again(draft: Draft, lease: Lease, asked: Acquire) -> None:
    plain = [{(each.pattern, each.first, each.last) for each in claims} for claims in (lease.claims, asked.claims)]
    if plain[0] != plain[1] or (lease.shared, lease.task) != (asked.shared, asked.task):
        has = " ".join(texts(lease.claims))
        why = f"{lease.id} has the name {asked.key!r} already and other claims ({has}): use another name"
        draft.refuse(asked.sender, Code.ID_CONFLICT, why)
    elif lease.ending:
        draft.refuse(asked.sender, Code.TARGET_ENDED, why_over(draft, lease.id))
    elif lease.fence:
        draft.answer(asked.sender, leased(draft, lease))
    else:
        draft.answer(asked.sender, queued(draft, lease))
