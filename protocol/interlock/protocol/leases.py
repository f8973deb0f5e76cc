"""Leases, for now found by looking at all of them."""

from collections.abc import Iterable, Iterator

from interlock.protocol.claim import Claim, claims_overlap
from interlock.protocol.lease import Lease
from interlock.protocol.outcome import Deadline, Now, earliest
from interlock.protocol.table import Table


class Leases:
    __slots__ = ("_table",)

    def __init__(self, leases: Iterable[Lease] = ()) -> None:
        self._table: Table[str, Lease] = Table({lease.id: lease for lease in leases})

    def put(self, lease: Lease) -> "Leases":
        new = Leases()
        new._table = self._table.put(lease.id, lease)
        return new

    def without(self, id_: str) -> "Leases":
        new = Leases()
        new._table = self._table.without(id_)
        return new

    def __getitem__(self, id_: str) -> Lease:
        return self._table[id_]

    def get(self, id_: str) -> Lease | None:
        return self._table.get(id_)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._table

    def __len__(self) -> int:
        return len(self._table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Leases) and self._table == other._table

    __hash__ = None  # type: ignore[assignment] # as of a dictionary

    def values(self) -> Iterator[Lease]:
        return self._table.values()

    def of(self, agent: str) -> tuple[str, ...]:
        return tuple(lease.id for lease in self.values() if lease.agent == agent)

    def overlapping(self, claims: tuple[Claim, ...]) -> list[Lease]:
        return [each for each in self.values() if any(claims_overlap(a, b) for a in each.claims for b in claims)]

    def next_due(self, boot: str) -> Deadline | None:
        return earliest([each.until for each in self.values() if each.until is not None], boot)

    def due(self, now: Now, most: int) -> list[Lease]:
        return [each for each in self.values() if each.until is not None and each.until.is_due(now)][:most]


NO_LEASES = Leases()
