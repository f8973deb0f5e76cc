"""The leases of a territory in order of arrival, found by their id, their agent, what they claim or when they end.

They never change: a change makes new ones. The newest stand in a book that is changed; older ones know what to write
into it to stand there again, and whoever reads them has it written (ADR 32).

    oldest ──(how it differs)──▶ older ──(how it differs)──▶ newest ═ book
"""

from collections.abc import Iterable, Iterator

from interlock.protocol.claim import Claim
from interlock.protocol.lease import Lease
from interlock.protocol.lease_book import Kept, LeaseBook
from interlock.protocol.outcome import Deadline, Now, earliest


class Leases:
    """Args: leases: in order of arrival."""

    __slots__ = ("_book", "_difference", "_nearer")

    def __init__(self, leases: Iterable[Lease] = ()) -> None:
        self._book = LeaseBook()
        self._nearer: Leases | None = None  # one step nearer to what the book says; None: it says this
        self._difference: tuple[str, Kept | None, int] = ("", None, 0)  # from that one: under an id; the next arrival
        for lease in {lease.id: lease for lease in leases}.values():
            self._book.write(lease.id, Kept(lease, self._book.next_arrival, lease.until))
            self._book.next_arrival += 1

    # --- changes: each makes new ones -----------------------------------------------------------
    def put(self, lease: Lease) -> "Leases":
        """With this lease: where the one of its id is, else at the end."""
        book = self._open()
        if not book.by_id:
            return Leases((lease,))  # a book of its own: EMPTY_LEASES are everybody's
        before = book.by_id.get(lease.id)
        if before is None:
            return self._changed(lease.id, Kept(lease, book.next_arrival, lease.until), book.next_arrival + 1)
        kept = Kept(lease, before.arrival, _noted(lease.until, before.noted))
        return self._changed(lease.id, kept, book.next_arrival)

    def without(self, id_: str) -> "Leases":
        """Without that lease, if it is there."""
        book = self._open()
        if id_ not in book.by_id:
            return self
        if len(book.by_id) == 1:
            return EMPTY_LEASES
        return self._changed(id_, None, book.next_arrival)

    # --- reading --------------------------------------------------------------------------------
    def __getitem__(self, id_: str) -> Lease:
        return self._open().by_id[id_].lease

    def get(self, id_: str) -> Lease | None:
        """The lease of that id."""
        kept = self._open().by_id.get(id_)
        return None if kept is None else kept.lease

    def __contains__(self, id_: object) -> bool:
        return id_ in self._open().by_id

    def __len__(self) -> int:
        return len(self._open().by_id)

    def __iter__(self) -> Iterator[str]:
        return (lease.id for lease in self.values())

    def values(self) -> Iterator[Lease]:
        """In order of arrival."""
        return (kept.lease for kept in sorted(self._open().by_id.values(), key=_arrival))

    def of(self, agent: str) -> tuple[str, ...]:
        """Ids of an agent's leases, in order of arrival."""
        return tuple(id_ for _, id_ in self._open().of(agent))

    def overlapping(self, claims: Iterable[Claim]) -> list[Lease]:
        """Every lease that has something in common with one of these claims, whoever's it is, in order of arrival."""
        book = self._open()
        found = {end.arrival: end.lease for end in book.meeting(claims)}
        return [book.by_id[id_].lease for _, id_ in sorted(found.items())]

    def each_overlapping(
        self, claims: Iterable[Claim], *, shared: bool = True, before: str = ""
    ) -> Iterator[Lease]:  # fmt: skip
        """The same in the order in which they are found: whoever needs only the first ones looks no further.

        Args: shared: those that are shared, too. before: id of one of these; only those that came before it.

        Neither these leases nor older or newer ones may be changed or read for another before the last has been taken.
        """
        book, found = self._open(), set[int]()
        kept = book.by_id.get(before)
        for end in book.meeting(claims, shared=shared, before=0 if kept is None else kept.arrival):
            if end.arrival not in found:
                found.add(end.arrival)
                yield book.by_id[end.lease].lease

    def next_due(self, boot: str) -> Deadline | None:
        """No lease ends before this moment; None: none ends by itself.

        Args: boot: the present one; what was to end on another is due at once.
        """
        return earliest(self._open().first_noted(), boot)

    def due(self, now: Now, most: int) -> list[Lease]:
        """Leases that end now unless they are renewed, the earliest first, another boot's before all.

        Args: most: how many are wanted.
        """
        return self._open().due(now, most)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Leases):
            return NotImplemented
        return self is other or list(self.values()) == list(other.values())

    __hash__ = None  # type: ignore[assignment] # as of a dictionary

    def __repr__(self) -> str:
        return f"Leases({list(self.values())})"

    # --- straight helpers -----------------------------------------------------------------------
    def _changed(self, id_: str, kept: Kept | None, next_arrival: int) -> "Leases":
        """The ones that differ from these so; the book says them from now on."""
        new = Leases.__new__(Leases)
        new._book, new._nearer, new._difference = self._book, self, (id_, kept, next_arrival)
        new._step_in(self)
        return new

    def _open(self) -> LeaseBook:
        """The book, in which these stand now."""
        if self._nearer is not None:
            way = [self]
            while (nearer := way[-1]._nearer) is not None:
                way.append(nearer)
            for at in range(len(way) - 2, -1, -1):
                way[at]._step_in(way[at + 1])
        return self._book

    def _step_in(self, newest: "Leases") -> None:
        """Be what the book says, instead of those that are one step away."""
        id_, kept, next_arrival = self._difference
        newest._nearer, newest._difference = self, (id_, self._book.write(id_, kept), self._book.next_arrival)
        self._book.next_arrival = next_arrival
        self._nearer = None


def _arrival(kept: Kept) -> int:
    return kept.arrival


def _noted(until: Deadline | None, noted: Deadline | None) -> Deadline | None:
    """What is to be noted of an end: a later one than is noted is found when that has come."""
    later = until is not None and noted is not None and until.boot == noted.boot and noted.mono_ms <= until.mono_ms
    return noted if later else until


EMPTY_LEASES = Leases()  # as EMPTY of table.py
