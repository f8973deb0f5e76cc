"""A spread: a table of very many, in no order. It never changes: a change makes a new one, which shares nearly all.

    FEW at most                a Table
    more        64 spreads, by six bits of the key's hash each

A Table of a hundred thousand copies all of itself once in three hundred changes, and whoever makes that change waits
for a millisecond. Here the longest change copies a few hundred, however many there are (ADR 24).
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from interlock.protocol.table import EMPTY, Table

Key = TypeVar("Key")
Value = TypeVar("Value")

FEW = 512
_BITS, _DEPTH = 6, 4  # deeper are only those whose hashes are alike: they stay together
_PARTS = 1 << _BITS


class Spread(Generic[Key, Value]):
    """Args: entries: they are not copied. depth: how many bits of the hashes have been used, by six."""

    __slots__ = ("_count", "_depth", "_few", "_parts")

    def __init__(self, entries: dict[Key, Value], depth: int = 0) -> None:
        self._count, self._depth = len(entries), depth
        self._few: Table[Key, Value] = EMPTY
        self._parts: tuple[Spread[Key, Value], ...] = ()
        if self._count > FEW and depth < _DEPTH:
            parts: list[dict[Key, Value]] = [{} for _ in range(_PARTS)]
            for key, value in entries.items():
                parts[self._part(key)][key] = value
            self._parts = tuple(Spread(each, depth + 1) for each in parts)
        elif entries:
            self._few = Table(entries)

    # --- changes: each makes a new spread -------------------------------------------------------
    def put(self, key: Key, value: Value) -> "Spread[Key, Value]":
        """With this entry."""
        if self._parts:
            return self._with(key, self._parts[self._part(key)].put(key, value))
        few = self._few.put(key, value)
        if len(few) > FEW and self._depth < _DEPTH:
            return Spread(few.as_dict(), self._depth)
        return self._of(few)

    def without(self, key: Key) -> "Spread[Key, Value]":
        """Without that entry, if it is there."""
        if not self._parts:
            return self._of(self._few.without(key))
        new = self._with(key, self._parts[self._part(key)].without(key))
        return new if new._count > FEW // 2 else Spread(dict(new.items()), self._depth)

    # --- reading, as of a dictionary ------------------------------------------------------------
    def get(self, key: Key) -> Value | None:
        """The value of a key, or None."""
        spread = self
        while spread._parts:
            spread = spread._parts[spread._part(key)]
        return spread._few.get(key)

    def __getitem__(self, key: Key) -> Value:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type] # what is no key is not in it

    def __len__(self) -> int:
        return self._count

    def items(self) -> Iterator[tuple[Key, Value]]:
        """In no order."""
        if not self._parts:
            yield from self._few.items()
        for part in self._parts:
            yield from part.items()

    def values(self) -> Iterator[Value]:
        """In no order."""
        return (value for _, value in self.items())

    # --- straight helpers -----------------------------------------------------------------------
    def _part(self, key: Key) -> int:
        return hash(key) >> _BITS * self._depth & _PARTS - 1

    def _with(self, key: Key, part: "Spread[Key, Value]") -> "Spread[Key, Value]":
        at = self._part(key)
        before, new = self._parts[at], self._of(EMPTY)
        new._parts = (*self._parts[:at], part, *self._parts[at + 1 :])
        new._count = self._count + part._count - before._count
        return new

    def _of(self, few: Table[Key, Value]) -> "Spread[Key, Value]":
        new: Spread[Key, Value] = Spread.__new__(Spread)
        new._few, new._parts, new._count, new._depth = few, (), len(few), self._depth
        return new
