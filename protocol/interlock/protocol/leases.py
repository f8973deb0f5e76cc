"""The leases of a territory in order of arrival, found by their id, their agent, what they claim or when they end.

They never change: a change makes new ones, at nearly the same small cost however many there are (ADR 24).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from interlock.protocol.claim import Claim, claim_ways, lines_overlap
from interlock.protocol.claim_tree import End, Way, planted
from interlock.protocol.lease import Lease
from interlock.protocol.line import EMPTY_LINE, Line
from interlock.protocol.outcome import Deadline, Now, earliest
from interlock.protocol.spread import Spread


class _Kept(NamedTuple):
    """A lease, its place, and what is noted of its end: never later than that."""

    lease: Lease
    arrival: int
    noted: Deadline | None


class Leases:
    """Args: leases: in order of arrival."""

    __slots__ = ("_by_id", "_next_arrival", "_noted", "_of_agent", "_tree")

    def __init__(self, leases: Iterable[Lease] = ()) -> None:
        by_id = {lease.id: lease for lease in leases}
        kept = {each.id: _Kept(each, at, each.until) for at, each in enumerate(by_id.values(), start=1)}
        places: dict[str, list[tuple[int, str]]] = {}
        noted: dict[str, list[tuple[int, str]]] = {}
        for lease, arrival, until in kept.values():
            places.setdefault(lease.agent, []).append((arrival, lease.id))
            if until is not None:
                noted.setdefault(until.boot, []).append((until.mono_ms, lease.id))
        self._by_id: Spread[str, _Kept] = Spread(kept)
        self._of_agent: Spread[str, Line] = Spread({agent: Line(each) for agent, each in places.items()})
        self._noted: dict[str, Line] = {boot: Line(each) for boot, each in noted.items()}
        self._tree = planted(each for lease, arrival, _ in kept.values() for each in _ways(lease, arrival))
        self._next_arrival = len(kept) + 1

    # --- changes: each makes new ones -----------------------------------------------------------
    def put(self, lease: Lease) -> "Leases":
        """With this lease: where the one of its id is, else at the end."""
        before = self._by_id.get(lease.id)
        new = self._copy()
        arrival = self._next_arrival if before is None else before.arrival
        if before is None:
            new._next_arrival += 1
        if before is None or before.lease.agent != lease.agent:
            new._give_up(before)
            line = self._of_agent.get(lease.agent) or EMPTY_LINE
            new._of_agent = new._of_agent.put(lease.agent, line.add((arrival, lease.id)))
        if before is None or before.lease.claims != lease.claims:
            new._uproot(before)
            for way, end in _ways(lease, arrival):
                new._tree = new._tree.put(way, end)
        noted = new._note(lease, None if before is None else before.noted)
        new._by_id = self._by_id.put(lease.id, _Kept(lease, arrival, noted))
        return new

    def without(self, id_: str) -> "Leases":
        """Without that lease, if it is there."""
        kept = self._by_id.get(id_)
        if kept is None:
            return self
        if len(self._by_id) == 1:
            return EMPTY_LEASES
        new = self._copy()
        new._give_up(kept)
        new._uproot(kept)
        new._forget(id_, kept.noted)
        new._by_id = self._by_id.without(id_)
        return new

    # --- reading --------------------------------------------------------------------------------
    def __getitem__(self, id_: str) -> Lease:
        return self._by_id[id_].lease

    def get(self, id_: str) -> Lease | None:
        """The lease of that id."""
        kept = self._by_id.get(id_)
        return None if kept is None else kept.lease

    def __contains__(self, id_: object) -> bool:
        return id_ in self._by_id

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[str]:
        return (lease.id for lease in self.values())

    def values(self) -> Iterator[Lease]:
        """In order of arrival."""
        return (kept.lease for kept in sorted(self._by_id.values(), key=_arrival))

    def of(self, agent: str) -> tuple[str, ...]:
        """Ids of an agent's leases, in order of arrival."""
        return tuple(self._of_agent.get(agent) or ())

    def overlapping(self, claims: Iterable[Claim]) -> list[Lease]:
        """Every lease that has something in common with one of these claims, whoever's it is, in order of arrival."""
        found = {end.arrival: end.lease for end in self._meeting(claims)}
        return [self._by_id[id_].lease for _, id_ in sorted(found.items())]

    def each_overlapping(self, claims: Iterable[Claim]) -> Iterator[Lease]:
        """The same in the order in which they are found: whoever needs only the first ones looks no further."""
        found: set[int] = set()
        for end in self._meeting(claims):
            if end.arrival not in found:
                found.add(end.arrival)
                yield self._by_id[end.lease].lease

    def next_due(self, boot: str) -> Deadline | None:
        """No lease ends before this moment; None: none ends by itself.

        Args: boot: the present one; what was to end on another is due at once.
        """
        return earliest((Deadline(of, line.first_number()) for of, line in self._noted.items()), boot)

    def due(self, now: Now, most: int) -> list[Lease]:
        """Leases that end now unless they are renewed, the earliest first, another boot's before all.

        A lease that was renewed since its end was noted is noted anew here; nothing else can be told of it.

        Args: most: how many are wanted.
        """
        found: list[Lease] = []
        for boot in sorted(self._noted, key=lambda each: each == now.boot):
            found += self._due_of(boot, now, most - len(found))
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Leases):
            return NotImplemented
        same = len(self) == len(other)
        return self is other or (same and all(other.get(each.id) == each for each in self.values()))

    __hash__ = None  # type: ignore[assignment] # as of a dictionary

    def __repr__(self) -> str:
        return f"Leases({list(self.values())})"

    # --- straight helpers -----------------------------------------------------------------------
    def _copy(self) -> "Leases":
        new = Leases.__new__(Leases)
        new._by_id, new._of_agent, new._tree = self._by_id, self._of_agent, self._tree
        new._noted, new._next_arrival = self._noted, self._next_arrival
        return new

    def _meeting(self, claims: Iterable[Claim]) -> Iterator[End]:
        for claim in claims:
            for way in claim_ways(claim):
                for end in self._tree.meeting(way):
                    if lines_overlap(claim.first, claim.last, end.first, end.last):
                        yield end

    def _due_of(self, boot: str, now: Now, most: int) -> list[Lease]:
        found: list[Lease] = []
        line = self._noted[boot]
        for mono_ms, id_ in line.places():
            if len(found) >= most or (boot == now.boot and mono_ms > now.mono_ms):
                break
            lease, arrival, _ = self._by_id[id_]
            assert lease.until is not None
            if lease.until.is_due(now):
                found.append(lease)
            else:
                line = line.remove((mono_ms, id_)).add((lease.until.mono_ms, id_))
                self._by_id = self._by_id.put(id_, _Kept(lease, arrival, lease.until))
        if line is not self._noted[boot]:
            self._noted = {**self._noted, boot: line}
        return found

    def _note(self, lease: Lease, noted: Deadline | None) -> Deadline | None:
        """Note when it ends. A later end than the noted one is found when that has come: renewals cost nothing here."""
        until = lease.until
        if noted == until:
            return noted
        if noted is not None and until is not None and noted.boot == until.boot and noted.mono_ms <= until.mono_ms:
            return noted
        self._forget(lease.id, noted)
        if until is not None:
            line = self._noted.get(until.boot, EMPTY_LINE)
            self._noted = {**self._noted, until.boot: line.add((until.mono_ms, lease.id))}
        return until

    def _forget(self, id_: str, noted: Deadline | None) -> None:
        if noted is not None:
            rest = self._noted[noted.boot].remove((noted.mono_ms, id_))
            others = {boot: line for boot, line in self._noted.items() if boot != noted.boot}
            self._noted = {**others, noted.boot: rest} if rest.first() else others

    def _give_up(self, kept: _Kept | None) -> None:
        """Its agent has it no more."""
        if kept is not None:
            agent = kept.lease.agent
            rest = self._of_agent[agent].remove((kept.arrival, kept.lease.id))
            self._of_agent = self._of_agent.put(agent, rest) if rest.first() else self._of_agent.without(agent)

    def _uproot(self, kept: _Kept | None) -> None:
        if kept is not None:
            for way, end in _ways(kept.lease, kept.arrival):
                self._tree = self._tree.without(way, end)


def _arrival(kept: _Kept) -> int:
    return kept.arrival


def _ways(lease: Lease, arrival: int) -> Iterable[tuple[Way, End]]:
    """Where its claims stand in the tree; two that say the same are one."""
    return dict.fromkeys(
        (way, End(arrival, lease.id, claim.first, claim.last)) for claim in lease.claims for way in claim_ways(claim)
    )


EMPTY_LEASES = Leases()  # as EMPTY of table.py
