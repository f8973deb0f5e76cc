"""A table: a dictionary that never changes. A change makes a new table, which shares almost all of it with the old one.

    base     a dictionary that many tables share
    changed  keys of base that have another value here, or are gone        ─▶  read as one dictionary, in its order
    added    keys that came later

A change copies `changed` or `added`, which hold √n entries at most; then they are folded into a new base. So a change
costs the same, nearly, for ten entries as for ten thousand, and every older table stays what it was (ADR 24).
"""

from collections.abc import Iterable, Iterator, Mapping
from math import isqrt
from typing import Any, Generic, TypeVar, cast, overload

Key = TypeVar("Key")
Value = TypeVar("Value")
Other = TypeVar("Other")

LOOSE = 16  # entries beside the base that are not worth a new one, however small it is
_GONE: Any = object()
_new = object.__new__


class Table(Generic[Key, Value]):
    """Args: entries: in order. They are not copied: whoever gives a dictionary away does not change it any more."""

    __slots__ = ("_added", "_base", "_changed", "_count")

    def __init__(self, entries: "Mapping[Key, Value] | Iterable[tuple[Key, Value]]" = ()) -> None:
        self._base: dict[Key, Value] = entries if isinstance(entries, dict) else dict(entries)
        self._changed: dict[Key, Value] = _NOTHING
        self._added: dict[Key, Value] = _NOTHING
        self._count = len(self._base)

    # --- changes: each makes a new table --------------------------------------------------------
    def put(self, key: Key, value: Value) -> "Table[Key, Value]":
        """With this entry: in its old place if it is there, else at the end."""
        added = self._added
        if key in self._base and key not in added and self._changed.get(key) is not _GONE:
            return self._with({**self._changed, key: value}, added, self._count)
        return self._with(self._changed, {**added, key: value}, self._count + (key not in added))

    def put_all(self, entries: "dict[Key, Value]") -> "Table[Key, Value]":
        """With all of these, each as `put` has it, for the price of one copy where they are many."""
        if len(entries) > LOOSE:
            return Table({**self.as_dict(), **entries})
        table = self
        for key, value in entries.items():
            table = table.put(key, value)
        return table

    def put_last(self, key: Key, value: Value) -> "Table[Key, Value]":
        """With this entry at the end, wherever it was."""
        return self.without(key).put(key, value)

    def without(self, key: Key) -> "Table[Key, Value]":
        """Without that entry, if it is there."""
        if key in self._added:
            added = self._added.copy()
            del added[key]
            return self._with(self._changed, added, self._count - 1)
        if self._is_in_base(key):
            return self._with({**self._changed, key: _GONE}, self._added, self._count - 1)
        return self

    def newest(self, most: int) -> "Table[Key, Value]":
        """Without its oldest entries, where it has more than so many."""
        table = self
        while table._count > most:
            table = table.without(next(iter(table)))
        return table

    # --- reading, as of a dictionary ------------------------------------------------------------
    def __getitem__(self, key: Key) -> Value:
        found = self.get(key, _GONE)
        if found is _GONE:
            raise KeyError(key)
        return cast("Value", found)

    @overload
    def get(self, key: Key) -> Value | None: ...
    @overload
    def get(self, key: Key, default: Other) -> Value | Other: ...
    def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or else the default."""
        found = self._added.get(key, _GONE)
        if found is _GONE:
            found = self._changed.get(key, self._base.get(key, _GONE)) if self._changed else self._base.get(key, _GONE)
        return default if found is _GONE else found

    def __contains__(self, key: object) -> bool:
        return key in self._added or self._is_in_base(key)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Key]:
        return (key for key, _ in self.items())

    def keys(self) -> Iterator[Key]:
        """In order."""
        return iter(self)

    def values(self) -> Iterator[Value]:
        """In order of their keys."""
        return (value for _, value in self.items())

    def items(self) -> Iterator[tuple[Key, Value]]:
        """In order."""
        for key, value in self._base.items():
            now = self._changed.get(key, value) if self._changed else value
            if now is not _GONE:
                yield key, now
        yield from self._added.items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Table):
            return self is other or (len(self) == len(other) and self.as_dict() == other.as_dict())
        return self.as_dict() == other if isinstance(other, dict) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # as of a dictionary: what it holds need not have one

    def __repr__(self) -> str:
        return f"Table({self.as_dict()})"

    def as_dict(self) -> dict[Key, Value]:
        """All of it, in order; a dictionary of its own."""
        found = self._base.copy()
        for key, value in self._changed.items():
            if value is _GONE:
                del found[key]
            else:
                found[key] = value
        found.update(self._added)
        return found

    # --- straight helpers -----------------------------------------------------------------------
    def _is_in_base(self, key: object) -> bool:
        return key in self._base and self._changed.get(key) is not _GONE

    def _with(self, changed: dict[Key, Value], added: dict[Key, Value], count: int) -> "Table[Key, Value]":
        if not count:
            return EMPTY
        table: Table[Key, Value] = _new(Table)
        table._base, table._changed, table._added, table._count = self._base, changed, added, count
        loose = len(changed) + len(added)
        return table if loose <= LOOSE or loose <= isqrt(len(self._base)) else Table(table.as_dict())


_NOTHING: dict[Any, Any] = {}  # never changed
EMPTY: Table[Any, Any] = Table()  # the only one without entries that a change makes: a snapshot leaves it out
