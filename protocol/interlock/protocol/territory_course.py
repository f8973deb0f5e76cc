"""The course of a lease: it begins, ends, and whoever it was in the way of is served, in order of arrival.

Every way to end one is here, so that none of them can forget to wake who waits.
"""

import msgspec

from interlock.protocol.claim import Claim
from interlock.protocol.durations import format_duration
from interlock.protocol.lease import Lease
from interlock.protocol.lease_messages import LeaseEnded
from interlock.protocol.limits import EXPIRED_A_STEP, LATE_MS
from interlock.protocol.outcome import Deadline, after
from interlock.protocol.resource_commands import LaunchGone
from interlock.protocol.territory_draft import Draft, leased, texts
from interlock.protocol.territory_events import LeaseBegan, LeaseDrains, LeaseKept, LeaseOver, LeaseUnused
from interlock.protocol.territory_overlap import is_blocked
from interlock.protocol.territory_state import How

replace = msgspec.structs.replace


def expire_due(draft: Draft) -> None:
    """End what is due. A time that was slept through begins anew once: nobody can have renewed it meanwhile."""
    for lease in draft.state.held.due(draft.now, EXPIRED_A_STEP):
        expire(draft, lease)
    for lease in draft.state.waiting.due(draft.now, EXPIRED_A_STEP):
        assert lease.until is not None
        if lease.id not in draft.state.waiting:
            continue  # what has ended just now was in its way alone
        if lease.until.was_slept_through(draft.now, LATE_MS):
            keep(draft, lease, "its time was slept through")
        else:
            why = "its turn did not come in time"
            _tell_end(draft, lease, How.GIVEN_UP, why)
            end(draft, lease, How.GIVEN_UP, why)


def expire(draft: Draft, lease: Lease) -> None:
    """Its time is over, unless that was slept through, or a command keeps it."""
    assert lease.until is not None
    if lease.until.was_slept_through(draft.now, LATE_MS):
        keep(draft, lease, "its time was slept through")
    elif lease.launches:
        keep(draft, lease, "a command runs under it")
    elif lease.ending:
        end(draft, lease, How(lease.ending), lease.why)
    else:
        why = f"not renewed for {format_duration(lease.ttl_ms)}"
        _tell_end(draft, lease, How.EXPIRED, why)
        end(draft, lease, How.EXPIRED, why)


def begin(draft: Draft, lease: Lease) -> Lease:
    """Put a lease in force, under a new fence. Returns it as it is then."""
    waited_ms = max(1, draft.now.at_ms - lease.asked_ms) if lease.id in draft.state.waiting else 0
    began = anew(draft, lease)
    draft.event(LeaseBegan(lease.agent, began, waited_ms))
    return began


def anew(draft: Draft, lease: Lease) -> Lease:
    """The same under the next fence, its time not yet begun to run out."""
    until, until_ms = _until(draft, lease)
    return replace(lease, fence=draft.next_seq(), since_ms=draft.now.at_ms, until=until, until_ms=until_ms)


def keep(draft: Draft, lease: Lease, why: str = "", ttl_ms: int = 0) -> None:
    """Its time begins anew. Args: ttl_ms: and is another from now on. why: where the bus itself keeps it."""
    lease = replace(lease, ttl_ms=ttl_ms or lease.ttl_ms)
    until, until_ms = _until(draft, lease)
    if not lease.fence:
        until, until_ms = after(draft.now, lease.wait_ms), draft.now.at_ms + lease.wait_ms
    draft.event(LeaseKept(lease.agent, lease.id, until, until_ms, lease.ttl_ms, why))


def end(draft: Draft, lease: Lease, how: How, why: str) -> None:
    """End a lease: at once, or when the last command under it is gone. A place in the queue is given up."""
    if lease.launches:
        draft.event(LeaseDrains(lease.agent, lease.id, how, why))
        return
    how = how if lease.fence else How.GIVEN_UP
    draft.event(LeaseOver(lease.agent, lease.id, lease.fence, how, why, draft.now.at_ms))
    draft.withdraw(lease)
    wake(draft, lease.claims)


def rest_of_bound(draft: Draft, lease: Lease, why: str) -> None:
    """What a lease, or a place in the queue, was bound to has ended: proof, so it ends at once."""
    if not lease.ending:
        end(draft, lease, How.GONE, why)


def launch_gone(draft: Draft, gone: LaunchGone) -> None:
    """A command's tree has ended, or nobody can say so any more: what could be said of its lease is said.

    A lease waits for no person. In doubt it holds until its time is over, as that of one who has died without a trace.
    """
    for id_ in draft.state.used.get(gone.launch, ()):
        lease = draft.state.held[id_]
        draft.event(LeaseUnused(lease.agent, id_, gone.launch))
        now = draft.state.held[id_]
        if now.launches or not now.ending:
            continue
        if gone.proved:
            end(draft, now, How(now.ending), now.why)
        else:
            keep(draft, replace(now, process=None, with_agent=False), gone.evidence)


def wake(draft: Draft, claims: tuple[Claim, ...]) -> None:
    """Serve those that wait for any of these paths, as far as nothing is in their way any more."""
    for lease in draft.state.waiting.overlapping(claims):
        if is_blocked(draft.state, lease):
            continue
        began = begin(draft, lease)
        draft.tell(began, leased(draft, began))


# --- straight helpers ---------------------------------------------------------------------
def _until(draft: Draft, lease: Lease) -> tuple[Deadline | None, int]:
    """When a lease that begins now, or anew, expires: on this boot's clock, and on the wall's (ms)."""
    if lease.is_bound():
        return None, 0
    return after(draft.now, lease.ttl_ms), draft.now.at_ms + lease.ttl_ms


def _tell_end(draft: Draft, lease: Lease, how: How, why: str) -> None:
    draft.tell(lease, LeaseEnded(lease.id, draft.state.key, texts(lease.claims), how, why, lease.fence))
