"""What stands in the way of a lease: those in force that overlap it, and those that wait and came before.

Two leases are in each other's way where they are two agents', overlap, are not both shared, and neither was split from
the other.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice

import msgspec

from interlock.protocol.claim import Claim
from interlock.protocol.lease import Lease
from interlock.protocol.limits import BEHIND_LOOKED_AT, DEADLOCK_LOOKED_AT
from interlock.protocol.territory_state import Territory


def blockers(territory: Territory, lease: Lease, most: int) -> Iterator[Lease]:
    """Leases that this one has to wait for: those in force, then those that wait, by arrival.

    Args: lease: it waits, or is not known yet. most: so many are enough.
    """
    return islice(_blockers(territory, lease), most)


def is_blocked(territory: Territory, lease: Lease) -> bool:
    """Something is in its way: in force, or waiting and before it. Of what shares with it none is even looked at."""
    if in_force_against(territory, lease) is not None:
        return True
    ahead = territory.waiting.each_overlapping(lease.claims, shared=not lease.shared, before=lease.id)
    return any(_are_in_conflict(other, lease) for other in ahead)


def in_force_against(territory: Territory, lease: Lease) -> Lease | None:
    """A lease in force that is in the way of this one, whatever waits."""
    return next(_against(territory, lease), None)


class InTheWay(msgspec.Struct, frozen=True):
    """What stands in the way of one that waits. Args: is_all: nothing else does, as far as anybody has looked."""

    lease: Lease
    behind: list[Lease]
    is_all: bool


def in_the_way_of_each(
    territory: Territory, waiting: Iterable[Lease], most: int, looked_at_most: int = BEHIND_LOOKED_AT
) -> Iterator[InTheWay]:
    """The `blockers` of many that wait, in one go: those that claim the same are looked up once.

    Args:
        waiting: they wait in this territory. most: so many are named of each.
        looked_at_most: so many leases are compared in all; who comes after that has nothing in its way that is known.
    """
    lookups: dict[tuple[Claim, ...], tuple[list[Lease], list[Lease]]] = {}
    looked_at = 0
    for lease in waiting:
        found = lookups.get(lease.claims)
        if found is None and looked_at < looked_at_most:
            some = islice(territory.held.each_overlapping(lease.claims), looked_at_most - looked_at)
            held = sorted(some, key=lambda each: each.fence)  # of very many only some: a claim of all would hold up all
            found = (held, territory.waiting.overlapping(lease.claims))
            lookups[lease.claims] = found
            looked_at += len(found[0]) + len(found[1]) + 1
        behind: list[Lease] = []
        is_all = found is not None
        for other in _before(lease, *found) if found is not None else ():
            if looked_at >= looked_at_most:
                is_all = False
                break
            looked_at += 1
            if not _are_in_conflict(other, lease):
                continue
            if len(behind) == most:
                is_all = False
                break
            behind.append(other)
        yield InTheWay(lease, behind, is_all)


def ring(territory: Territory, lease: Lease) -> Lease | None:
    """A waiting lease by which agents would wait for each other in a ring, if this one waited.

    Its agent holds something that the waiting one waits for, and waits for that one's agent itself, over however many.
    """
    if not territory.held.of(lease.agent) and not territory.waiting.of(lease.agent):
        return None  # nobody waits for it
    left, seen = DEADLOCK_LOOKED_AT, {lease.agent}
    ahead = [each.agent for each in blockers(territory, lease, left)]
    while ahead:
        agent = ahead.pop()
        if agent in seen:
            continue
        seen.add(agent)
        for id_ in territory.waiting.of(agent):
            waits = territory.waiting[id_]
            overlapping = chain(
                territory.held.each_overlapping(waits.claims), territory.waiting.each_overlapping(waits.claims)
            )
            for other in overlapping:
                left -= 1
                if left < 0:
                    return None  # its time-out ends what a look of a bounded length has not found
                if (other.fence or _came_before(other, waits)) and _are_in_conflict(other, waits):
                    if other.agent == lease.agent:
                        return waits
                    ahead.append(other.agent)
    return None


# --- straight helpers ---------------------------------------------------------------------
def _blockers(territory: Territory, lease: Lease) -> Iterator[Lease]:
    yield from _against(territory, lease)
    for other in territory.waiting.overlapping(lease.claims):
        if other.id == lease.id:
            return  # what came later is not before it
        if _are_in_conflict(other, lease):
            yield other


def _against(territory: Territory, lease: Lease) -> Iterator[Lease]:
    for other in territory.held.each_overlapping(lease.claims, shared=not lease.shared):
        if _are_in_conflict(other, lease):
            yield other


def _are_in_conflict(one: Lease, other: Lease) -> bool:
    if one.id == other.id or one.agent == other.agent or (one.shared and other.shared):
        return False
    return one.id not in other.above and other.id not in one.above


def _came_before(one: Lease, other: Lease) -> bool:
    """By the numbers in their ids: those of the events that they came with."""
    return int(one.id[1:]) < int(other.id[1:])


def _before(lease: Lease, held: list[Lease], waiting: list[Lease]) -> Iterator[Lease]:
    yield from held
    for other in waiting:
        if other.id == lease.id:
            return
        yield other
