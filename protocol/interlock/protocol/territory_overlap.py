"""What stands in the way of a lease: those in force that overlap it, and those that wait and came before.

Two leases are in each other's way where they are two agents', overlap, are not both shared, and neither was split from
the other.
"""

from collections.abc import Iterator
from itertools import islice

from interlock.protocol.lease import Lease
from interlock.protocol.limits import DEADLOCK_LOOKED_AT
from interlock.protocol.territory_state import Territory


def blockers(territory: Territory, lease: Lease, most: int) -> Iterator[Lease]:
    """Leases that this one has to wait for: those in force, then those that wait, by arrival.

    Args: lease: it waits, or is not known yet. most: so many are enough.
    """
    return islice(_blockers(territory, lease), most)


def is_blocked(territory: Territory, lease: Lease) -> bool:
    """Something is in its way."""
    return next(_blockers(territory, lease), None) is not None


def in_force_against(territory: Territory, lease: Lease) -> Lease | None:
    """A lease in force that is in the way of this one, whatever waits."""
    return next(_against(territory, lease), None)


def ring(territory: Territory, lease: Lease) -> Lease | None:
    """A waiting lease by which agents would wait for each other in a ring, if this one waited.

    Its agent holds something that the waiting one waits for, and waits for that one's agent itself, over however many.
    """
    if not territory.held.of(lease.agent):
        return None  # nobody waits for one who holds nothing
    looked_at, seen = 0, {lease.agent}
    ahead = [each.agent for each in blockers(territory, lease, DEADLOCK_LOOKED_AT)]
    while ahead:
        agent = ahead.pop()
        if agent in seen:
            continue
        seen.add(agent)
        for id_ in territory.waiting.of(agent):
            waits = territory.waiting[id_]
            for blocker in _blockers(territory, waits):
                looked_at += 1
                if blocker.agent == lease.agent:
                    return waits
                if looked_at >= DEADLOCK_LOOKED_AT:
                    return None  # its time-out ends what a look of a bounded length has not found
                ahead.append(blocker.agent)
    return None


# --- straight helpers ---------------------------------------------------------------------
def _blockers(territory: Territory, lease: Lease) -> Iterator[Lease]:
    yield from _against(territory, lease)
    for other in territory.waiting.overlapping(lease.claims):
        if other.id == lease.id:
            return  # what came later is not before it
        if _are_in_conflict(territory, other, lease):
            yield other


def _against(territory: Territory, lease: Lease) -> Iterator[Lease]:
    for other in territory.held.each_overlapping(lease.claims):
        if _are_in_conflict(territory, other, lease):
            yield other


def _are_in_conflict(territory: Territory, one: Lease, other: Lease) -> bool:
    if one.id == other.id or one.agent == other.agent or (one.shared and other.shared):
        return False
    return not (_descends(territory, one, other.id) or _descends(territory, other, one.id))


def _descends(territory: Territory, lease: Lease, ancestor: str) -> bool:
    parent = lease.parent
    while parent:
        if parent == ancestor:
            return True
        above = territory.held.get(parent)
        parent = above.parent if above is not None else ""
    return False
