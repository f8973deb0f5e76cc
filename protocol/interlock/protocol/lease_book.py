"""A book of leases: each with its place, found by its id, its agent, what it claims or when it ends.

It changes; who needs leases that never do has `Leases`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

from interlock.protocol.claim import Claim, claim_ways, lines_overlap
from interlock.protocol.claim_tree import End, Tree, Way
from interlock.protocol.lease import Lease
from interlock.protocol.outcome import Deadline, Now
from interlock.protocol.row import Row


class Kept(NamedTuple):
    """A lease, its place, and what is noted of its end: never later than that."""

    lease: Lease
    arrival: int
    noted: Deadline | None


class LeaseBook:
    """Made empty. What is public is there to be read: `by_id`, and the place of whoever comes next."""

    __slots__ = ("_exclusive", "_noted", "_of_agent", "_shared", "by_id", "next_arrival")

    def __init__(self) -> None:
        self.by_id: dict[str, Kept] = {}
        self.next_arrival = 1
        self._of_agent: defaultdict[str, Row[tuple[int, str]]] = defaultdict(Row)
        self._noted: defaultdict[str, Row[tuple[int, str]]] = defaultdict(Row)  # of each boot
        self._exclusive, self._shared = Tree(), Tree()  # apart: of a thousand that share a path none is in the way

    def write(self, id_: str, kept: Kept | None) -> Kept | None:
        """Have this under that id, or nothing. Returns what was there before: written again, all is as it was."""
        before = self.by_id.get(id_)
        if kept is None:
            if before is not None:
                self._uproot(before)
                self._leave(before)
                self._forget(id_, before.noted)
                del self.by_id[id_]
            return before
        if before is None or (before.lease.claims, before.lease.shared) != (kept.lease.claims, kept.lease.shared):
            ends = _ends(kept)  # first: what is no claim changes nothing
            if before is not None:
                self._uproot(before)
            for way, end in ends:
                self._tree(kept.lease).put(way, end)
        if before is None or before.lease.agent != kept.lease.agent:
            if before is not None:
                self._leave(before)
            self._of_agent[kept.lease.agent].add((kept.arrival, id_))
        if before is None or before.noted != kept.noted:
            if before is not None:
                self._forget(id_, before.noted)
            if kept.noted is not None:
                self._noted[kept.noted.boot].add((kept.noted.mono_ms, id_))
        self.by_id[id_] = kept
        return before

    def of(self, agent: str) -> Iterable[tuple[int, str]]:
        """Places and ids of an agent's leases, in order."""
        return self._of_agent.get(agent, ())

    def meeting(self, claims: Iterable[Claim], *, shared: bool = True, before: int = 0) -> Iterator[End]:
        """Whoever has something in common with one of these claims, in no order, some of them several times.

        Args: shared: those that share, too. before: only those of an earlier arrival; 0: all.
        """
        trees = [tree for tree in (self._exclusive, *((self._shared,) if shared else ())) if not tree.is_empty()]
        for claim in claims:
            for way, tree in product(claim_ways(claim), trees):
                for end in tree.meeting(way, before):
                    if lines_overlap(claim.first, claim.last, end.first, end.last):
                        yield end

    def first_noted(self) -> Iterable[Deadline]:
        """Of each boot the earliest end that is noted."""
        return [Deadline(boot, row.first()[0]) for boot, row in self._noted.items()]

    def due(self, now: Now, most: int) -> list[Lease]:
        """Leases that end now, the earliest first, another boot's before all.

        One that was renewed since its end was noted is noted anew: renewals cost nothing until then.
        """
        found, later = list[Lease](), list[Kept]()
        for boot in sorted(self._noted, key=lambda each: each == now.boot):
            for mono_ms, id_ in self._noted[boot]:
                if len(found) >= most or (boot == now.boot and mono_ms > now.mono_ms):
                    break
                kept = self.by_id[id_]
                assert kept.lease.until is not None
                if kept.lease.until.is_due(now):
                    found.append(kept.lease)
                else:
                    later.append(kept)
        for kept in later:
            self.write(kept.lease.id, kept._replace(noted=kept.lease.until))
        return found

    # --- straight helpers -----------------------------------------------------------------------
    def _uproot(self, kept: Kept) -> None:
        for way, end in _ends(kept):
            self._tree(kept.lease).remove(way, end)

    def _tree(self, lease: Lease) -> Tree:
        return self._shared if lease.shared else self._exclusive

    def _leave(self, kept: Kept) -> None:
        """Its agent has it no more."""
        _take_out(self._of_agent, kept.lease.agent, (kept.arrival, kept.lease.id))

    def _forget(self, id_: str, noted: Deadline | None) -> None:
        if noted is not None:
            _take_out(self._noted, noted.boot, (noted.mono_ms, id_))


def _take_out(rows: dict[str, Row[tuple[int, str]]], key: str, place: tuple[int, str]) -> None:
    rows[key].remove(place)
    if not rows[key]:
        del rows[key]


def _ends(kept: Kept) -> Iterable[tuple[Way, End]]:
    """Where its claims stand in the tree; two that say the same are one."""
    lease = kept.lease
    return dict.fromkeys(
        (way, End(kept.arrival, lease.id, claim.first, claim.last))
        for claim in lease.claims
        for way in claim_ways(claim)
    )
