"""Unread letters in order of arrival, one at most in a slot. They never change: a change makes new ones (ADR 24)."""

from collections.abc import Iterable, Iterator

import msgspec

from interlock.protocol.messages import FromBus
from interlock.protocol.table import EMPTY, Table


class Letter(msgspec.Struct, frozen=True, omit_defaults=True, rename={"sender": "from"}):
    """One message as it lies in an inbox. `seq` orders it among all messages of the bus, and names its file."""

    id: str
    sender: str
    at_ms: int
    body: FromBus
    slot: str = ""
    reply_to: str = ""
    delivered: bool = False
    acked_ms: int = 0
    seq: int = 0


class Letters:
    """Args: letters: in order."""

    __slots__ = ("_by_id", "_slots")

    def __init__(self, letters: Iterable[Letter] = ()) -> None:
        by_id = {letter.id: letter for letter in letters}
        self._by_id: Table[str, Letter] = Table(by_id) if by_id else EMPTY
        slots = {letter.slot: letter.id for letter in by_id.values() if letter.slot}
        self._slots: Table[str, str] = Table(slots) if slots else EMPTY

    # --- changes: each makes new ones -----------------------------------------------------------
    def put(self, letter: Letter) -> "Letters":
        """With this letter: where the one of its id lies, else at the end; the other one in its slot goes."""
        there, before = self.in_slot(letter.slot), self.get(letter.id)
        rest = self.without(there.id) if there is not None and there.id != letter.id else self
        slots = rest._slots
        if before is not None and before.slot and before.slot != letter.slot:
            slots = slots.without(before.slot)
        if letter.slot:
            slots = slots.put(letter.slot, letter.id)
        return _of(rest._by_id.put(letter.id, letter), slots)

    def without(self, id_: str) -> "Letters":
        """Without that letter, if it is there."""
        letter = self._by_id.get(id_)
        if letter is None:
            return self
        return _of(self._by_id.without(id_), self._slots.without(letter.slot) if letter.slot else self._slots)

    # --- reading --------------------------------------------------------------------------------
    def in_slot(self, slot: str) -> Letter | None:
        """The letter in that slot, if there is one; "" is none."""
        id_ = self._slots.get(slot) if slot else None
        return None if id_ is None else self._by_id[id_]

    def __getitem__(self, id_: str) -> Letter:
        return self._by_id[id_]

    def get(self, id_: str) -> Letter | None:
        """The letter of that id."""
        return self._by_id.get(id_)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._by_id

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def values(self) -> Iterator[Letter]:
        """In order of arrival."""
        return self._by_id.values()

    def __eq__(self, other: object) -> bool:
        return self._by_id == other._by_id if isinstance(other, Letters) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # as of a dictionary

    def __repr__(self) -> str:
        return f"Letters({list(self.values())})"


# --- straight helpers -------------------------------------------------------------------------
def _of(by_id: Table[str, Letter], slots: Table[str, str]) -> Letters:
    letters = Letters.__new__(Letters)
    letters._by_id, letters._slots = by_id, slots
    return letters
