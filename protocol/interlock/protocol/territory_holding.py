"""What a holder does with its lease: keeps it, gives it back, on, or a part of it away, runs commands under it."""

import msgspec

from interlock.protocol.claim import claim_covers
from interlock.protocol.codes import Code
from interlock.protocol.durations import format_duration
from interlock.protocol.lease import Lease
from interlock.protocol.lease_messages import LeaseEnded
from interlock.protocol.limits import LEASE_TTL_MS, LEASE_TTL_MS_MAX, LEASE_TTL_MS_MIN, LEASES_MAX
from interlock.protocol.messages import Admitted
from interlock.protocol.resource_state import Launch
from interlock.protocol.territory_commands import AdmitUnder, Renew, Return, RevokeLease, Split, Transfer
from interlock.protocol.territory_course import anew, begin, end, expire, keep, wake
from interlock.protocol.territory_draft import (
    Draft,
    ended,
    in_the_way_words,
    is_ttl,
    leased,
    mine,
    texts,
    too_many,
    why_over,
)
from interlock.protocol.territory_events import LeaseMoved, LeaseUsed
from interlock.protocol.territory_overlap import in_force_against
from interlock.protocol.territory_state import How

replace = msgspec.structs.replace


def renew(draft: Draft, asked: Renew) -> None:
    """Its time begins anew; what is over is never renewed."""
    overdue = draft.state.held.get(asked.lease)  # where more were due than one decision ends
    if overdue is not None and overdue.until is not None and overdue.until.is_due(draft.now):
        expire(draft, overdue)
    lease = mine(draft, asked.sender, asked.lease)
    if lease is None or not is_ttl(draft, asked.sender, asked.ttl_ms or lease.ttl_ms):
        return
    if not lease.fence:
        draft.refuse(asked.sender, Code.NOT_HOLDER, f"{lease.id} is not in force yet: {in_the_way_words(draft, lease)}")
        return
    ttl_ms = asked.ttl_ms or lease.ttl_ms
    keep(draft, lease, ttl_ms=ttl_ms)
    draft.withdraw(lease)
    draft.answer(asked.sender, leased(draft, draft.state.held[lease.id]))


def give_back(draft: Draft, asked: Return) -> None:
    """The holder is finished, or does not wait any more."""
    over = draft.state.ended.get(asked.lease)
    if over is not None and over.agent == asked.sender and over.how in {How.RELEASED, How.GIVEN_UP}:
        draft.answer(asked.sender, ended(draft, asked.lease, over))  # said again: it is as it was meant to be
        return
    lease = mine(draft, asked.sender, asked.lease)
    if lease is None:
        return
    if lease.launches:
        runs = ", ".join(f"{each.command} (pid {each.keeper.pid})" for each in lease.launches.values())
        draft.refuse(asked.sender, Code.RESOURCE_BUSY, f"{runs} still runs under {lease.id}: end it first, see bus ps")
        return
    draft.withdraw(lease)
    end(draft, lease, How.RELEASED, "returned" if lease.fence else "its agent does not wait any more")
    draft.answer(asked.sender, ended(draft, lease.id, draft.state.ended[lease.id]))


def transfer(draft: Draft, asked: Transfer) -> None:
    """It is another agent's from now on, under a new fence."""
    lease = draft.state.held.get(asked.lease) if asked.because else mine(draft, asked.sender, asked.lease)
    if lease is None:
        if asked.because:
            draft.refuse(asked.sender, Code.TARGET_ENDED, why_over(draft, asked.lease))
        return
    if not lease.fence or lease.ending:
        draft.refuse(asked.sender, Code.NOT_HOLDER, f"{lease.id} is not in force: it cannot be given on")
        return
    if lease.launches:
        why = f"a command still runs under {lease.id}: it can be given on once that has ended, see bus ps"
        draft.refuse(asked.sender, Code.RESOURCE_BUSY, why)
        return
    new = replace(
        lease, agent=asked.to, incarnation=asked.incarnation, process=None, with_agent=asked.with_agent, run=False,
        key="", request=asked.id, task="",
    )  # fmt: skip
    against = in_force_against(draft.state, new)
    if against is not None:
        draft.refuse(asked.sender, Code.OVERLAP, f"{against.id} of {against.agent} overlaps it: give that on first")
        return
    new = anew(draft, new)
    draft.event(LeaseMoved(new.agent, new, lease.agent, draft.now.at_ms))
    draft.withdraw(lease)
    draft.tell(new, leased(draft, new, f"from {lease.agent}"))
    why = f"to {new.agent}" + (f", by {asked.sender} ({asked.because})" if asked.because else "")
    gone = LeaseEnded(lease.id, draft.state.key, texts(lease.claims), How.TRANSFERRED, why, lease.fence)
    if asked.sender != lease.agent:
        draft.tell(lease, gone)
    draft.answer(asked.sender, gone)
    wake(draft, new.claims)


def split(draft: Draft, asked: Split) -> None:
    """A part of it is another agent's for a while."""
    known = next((each for each in draft.state.leases_of(asked.to) if each.request == asked.id), None)
    if known is not None and (known.parent, known.claims) == (asked.lease, asked.claims):
        draft.answer(asked.sender, leased(draft, known))
        return
    if asked.again:  # its part is over, or another's: it is never done twice
        draft.refuse(asked.sender, Code.TARGET_ENDED, "that request ended a while ago: ask anew")
        return
    if len(draft.state.held) >= LEASES_MAX:
        draft.refuse(asked.sender, Code.QUEUE_FULL, too_many(draft))
        return
    lease = mine(draft, asked.sender, asked.lease)
    if lease is None:
        return
    if not lease.fence:
        draft.refuse(asked.sender, Code.NOT_HOLDER, f"{lease.id} is not in force yet: {in_the_way_words(draft, lease)}")
        return
    left_ms = lease.until.left_ms(draft.now) if lease.until is not None else LEASE_TTL_MS_MAX
    ttl_ms = asked.ttl_ms or min(LEASE_TTL_MS, max(left_ms, LEASE_TTL_MS_MIN))
    outside = [each for each in asked.claims if not any(claim_covers(mine, each) for mine in lease.claims)]
    if outside:
        why = (
            f"{' '.join(texts(tuple(outside)))} is not within {lease.id} ({' '.join(texts(lease.claims))}): name a part"
        )
        draft.refuse(asked.sender, Code.SCOPE_DENIED, why)
        return
    if not is_ttl(draft, asked.sender, ttl_ms):
        return
    if ttl_ms > left_ms:
        why = f"{lease.id} lasts {format_duration(max(0, left_ms))} more: renew it first, or split it for less time"
        draft.refuse(asked.sender, Code.BAD_MESSAGE, why)
        return
    child = Lease(
        f"L{draft.next_seq()}", asked.to, asked.claims, asked.incarnation, asked.id, lease.shared,
        asked.purpose or lease.purpose, ttl_ms, asked_ms=draft.now.at_ms, parent=lease.id,
        above=(lease.id, *lease.above),
    )  # fmt: skip
    against = in_force_against(draft.state, child)
    if against is not None:
        draft.refuse(asked.sender, Code.OVERLAP, f"{against.id} of {against.agent} overlaps it: name another part")
        return
    began = begin(draft, child)
    draft.answer(asked.sender, leased(draft, began))
    if child.agent != asked.sender:
        draft.tell(began, leased(draft, began, f"a part of {lease.id}, from {lease.agent}"))


def revoke(draft: Draft, asked: RevokeLease) -> None:
    """A person takes a lease back; commands under it are let finish."""
    lease = draft.state.lease(asked.lease)
    if lease is None or lease.ending:
        draft.refuse(asked.sender, Code.TARGET_ENDED, why_over(draft, asked.lease))
        return
    why = f"revoked by {asked.sender} ({asked.because})"
    draft.tell(lease, LeaseEnded(lease.id, draft.state.key, texts(lease.claims), How.REVOKED, why, lease.fence))
    end(draft, lease, How.REVOKED, why)
    draft.answer(
        asked.sender, LeaseEnded(lease.id, draft.state.key, texts(lease.claims), How.REVOKED, f"from {lease.agent}")
    )


def admit(draft: Draft, asked: AdmitUnder) -> None:
    """A command is to run under it, and keeps it in force."""
    lease = mine(draft, asked.sender, asked.lease)
    if lease is None:
        return
    if not lease.fence or lease.fence != asked.fence:
        why = f"{lease.id} is under fence {lease.fence} now, not {asked.fence}: the command was not started"
        draft.refuse(asked.sender, Code.STALE_FENCE, why)
        return
    if asked.launch not in lease.launches:
        launch = Launch(asked.launch, asked.keeper, asked.command, draft.now.at_ms)
        draft.event(LeaseUsed(lease.agent, lease.id, launch))
    draft.answer(asked.sender, Admitted(lease.id, draft.state.key, lease.fence, asked.launch))
