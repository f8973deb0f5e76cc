"""A draft: a decision about a territory while it is being made. It holds the state that is to be, and what follows."""

from interlock.protocol.claim import Claim, claim_text, claims_overlap
from interlock.protocol.codes import Code
from interlock.protocol.drafting import Drafting
from interlock.protocol.durations import format_age, format_duration
from interlock.protocol.lease import Lease
from interlock.protocol.lease_messages import Behind, Leased, LeaseEnded, LeaseQueued
from interlock.protocol.limits import (
    BEHIND_COUNTED_MAX,
    BEHIND_TOLD_MAX,
    LEASE_TTL_MS_MAX,
    LEASE_TTL_MS_MIN,
    LEASES_MAX,
)
from interlock.protocol.messages import FromBus
from interlock.protocol.outcome import Now, Send, Withdraw
from interlock.protocol.territory_events import TerritoryEvent
from interlock.protocol.territory_evolve import evolve
from interlock.protocol.territory_overlap import blockers
from interlock.protocol.territory_state import Ended, Territory


class Draft(Drafting[Territory, TerritoryEvent]):
    """Of one territory. Args: asker: id of the message under decision; direct answers reply to it."""

    def __init__(self, territory: Territory, now: Now, asker: str = "") -> None:
        super().__init__(evolve, territory, now, asker)

    def tell(self, lease: Lease, body: FromBus, to: str = "") -> None:
        """Put word of a lease into its agent's inbox, the newest instead of the last; a `bus run` hears it itself.

        Args: to: another agent than its own.
        """
        if lease.run and not to:
            self._outbox.append(Send(lease.agent, body, run=lease.request))
        else:
            self._outbox.append(Send(to or lease.agent, body, slot=f"Lease:{self.state.key}:{lease.id}"))

    def withdraw(self, lease: Lease) -> None:
        """Word of it that is unread does not hold any more."""
        if not lease.run:
            self._withdraw.append(Withdraw(lease.agent, f"Lease:{self.state.key}:{lease.id}"))


# --- what is true of a lease, as a message ------------------------------------------------
def leased(draft: Draft, lease: Lease, note: str = "") -> Leased:
    """LEASED as it is true now."""
    left_ms = max(0, lease.until.left_ms(draft.now)) if lease.until is not None else 0
    bound_to = f"process {lease.process.pid}" if lease.process is not None else ""
    return Leased(
        lease.id, draft.state.key, texts(lease.claims), lease.fence, lease.shared, left_ms, lease.until_ms,
        bound_to or ("its agent" if lease.with_agent else ""), lease.parent, note,
    )  # fmt: skip


def queued(draft: Draft, lease: Lease) -> LeaseQueued:
    """LEASE QUEUED as it is true now."""
    left_ms = max(0, lease.until.left_ms(draft.now)) if lease.until is not None else 0
    behind, more = in_the_way(draft, lease)
    return LeaseQueued(lease.id, draft.state.key, texts(lease.claims), behind, left_ms, more)


def ended(draft: Draft, id_: str, over: Ended) -> LeaseEnded:
    """LEASE ENDED, of one that is remembered."""
    return LeaseEnded(id_, draft.state.key, texts(over.claims), over.how, over.why, over.fence)


def in_the_way(draft: Draft, lease: Lease) -> tuple[tuple[Behind, ...], int]:
    """What a lease waits for, first in force, first come; and how many besides."""
    found = sorted(blockers(draft.state, lease, BEHIND_COUNTED_MAX), key=lambda each: (not each.fence, each.fence))
    told = tuple(_behind(draft, each, lease.claims) for each in found[:BEHIND_TOLD_MAX])
    return told, len(found) - len(told)


def texts(claims: tuple[Claim, ...]) -> tuple[str, ...]:
    """Claims as people write them."""
    return tuple(claim_text(claim) for claim in claims)


def mine(draft: Draft, sender: str, id_: str) -> Lease | None:
    """The sender's lease of that id; else it is refused, with what became of it."""
    lease = draft.state.lease(id_)
    if lease is not None and lease.agent == sender and not lease.ending:
        return lease
    if lease is not None and lease.agent != sender:
        draft.refuse(sender, Code.NOT_HOLDER, f"{id_} is {lease.agent}'s: see yours with bus leases --mine")
    else:
        draft.refuse(sender, Code.TARGET_ENDED, why_over(draft, id_))
    return None


def why_over(draft: Draft, id_: str) -> str:
    """What became of a lease that is nobody's to use."""
    lease, over = draft.state.lease(id_), draft.state.ended.get(id_)
    if lease is not None and lease.ending:
        return (
            f"{id_} is over ({lease.why}), and in force only until what runs under it has ended: acquire it anew then"
        )
    if over is None:
        return f"no lease {id_!r} is known there: bus leases shows all"
    age = format_age(max(0, draft.now.at_ms - over.at_ms))
    return f"{id_} of {over.agent} is over since {age} ({over.how}: {over.why}): acquire it anew"


def in_the_way_words(draft: Draft, lease: Lease) -> str:
    """Who has what of it, in half a sentence."""
    behind, more = in_the_way(draft, lease)
    if not behind:
        return "its turn has come"
    words = []
    for each in behind[:3]:
        left = f" for {format_age(each.left_ms + 999)} more" if each.left_ms else ""
        has = "waits for" if each.waits else "has"
        words.append(f"{each.agent} {has} {' '.join(each.claims[:3])}{left} ({each.lease})")
    rest = len(behind) - len(words) + more
    return ", ".join(words) + (f" and {rest} more" if rest else "")


def too_many(draft: Draft) -> str:
    """Why no lease can begin."""
    return f"{len(draft.state.held)} leases are in force there, at most {LEASES_MAX} can be: release some"


def is_ttl(draft: Draft, sender: str, ttl_ms: int) -> bool:
    """It is a time that a lease can last; else the sender is refused."""
    if LEASE_TTL_MS_MIN <= ttl_ms <= LEASE_TTL_MS_MAX:
        return True
    least, most = format_duration(LEASE_TTL_MS_MIN), format_duration(LEASE_TTL_MS_MAX)
    why = f"a lease lasts {least} to {most}, not {format_duration(ttl_ms)}: say another --ttl"
    draft.refuse(sender, Code.BAD_MESSAGE, why)
    return False


# --- straight helpers ---------------------------------------------------------------------
def _behind(draft: Draft, lease: Lease, claims: tuple[Claim, ...]) -> Behind:
    common = tuple(claim_text(each) for each in lease.claims if any(claims_overlap(each, mine) for mine in claims))
    left_ms = max(0, lease.until.left_ms(draft.now)) if lease.until is not None and lease.fence else 0
    return Behind(lease.id, lease.agent, common, left_ms, lease.purpose, waits=not lease.fence)
