"""A fan: what lies behind each of many letters, found for a name, or for a segment that may mean several of them.

Few are simply looked through; of many only those that begin and end alike. So one file among ten thousand in its
directory, or one glob among a thousand, costs what one among ten does. A fan never changes: a change makes a new one,
which shares what is large of the old (ADR 24).
"""

from collections.abc import Collection, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from interlock.protocol.glob_affixes import Affixes, Name
from interlock.protocol.glob_segment import Segment
from interlock.protocol.spread import Spread

Below = TypeVar("Below")

LOOKED_THROUGH = 24  # letters that are not worth an index


class _Many(NamedTuple):
    below: Spread[Name, Any]
    affixes: Affixes


class Fan(Generic[Below]):
    """Args: below: what lies behind each letter; the dictionary is not copied."""

    __slots__ = ("_few", "_many")

    def __init__(self, below: "dict[Name, Below]") -> None:
        few = len(below) <= LOOKED_THROUGH
        self._few = below if few else _NOTHING
        self._many = None if few else _Many(Spread(below), Affixes(below))

    # --- changes: each makes a new fan ----------------------------------------------------------
    def put(self, letter: Name, below: Below) -> "Fan[Below]":
        """With this behind that letter."""
        if self._many is None:
            return Fan({**self._few, letter: below})
        all_, affixes = self._many
        new = all_.put(letter, below)
        return _of(_Many(new, affixes.add(letter) if len(new) > len(all_) else affixes))

    def without(self, letter: Name) -> "Fan[Below]":
        """Without that letter, which is in it."""
        if self._many is None:
            rest = self._few.copy()
            del rest[letter]
            return Fan(rest) if rest else EMPTY_FAN
        all_ = self._many.below.without(letter)
        if len(all_) <= LOOKED_THROUGH // 2:
            return Fan(dict(all_.items()))
        return _of(_Many(all_, self._many.affixes.remove(letter)))

    # --- reading --------------------------------------------------------------------------------
    def get(self, letter: Name) -> Below | None:
        """What lies behind that very letter."""
        return self._few.get(letter) if self._many is None else self._many.below.get(letter)

    def __len__(self) -> int:
        return len(self._few if self._many is None else self._many.below)

    def values(self) -> Collection[Below] | Iterator[Below]:
        """What lies behind any."""
        return self._few.values() if self._many is None else self._many.below.values()

    def having(self, name: str) -> Iterator[Below]:
        """What lies behind the segments that mean that name. Of a fan of segments."""
        if self._many is None:
            for letter, below in self._few.items():
                if isinstance(letter, Segment) and letter.has(name):
                    yield below
            return
        for letter in self._many.affixes.around(name):
            if isinstance(letter, Segment) and letter.has(name):
                yield self._many.below[letter]

    def meeting(self, segment: Segment) -> Iterator[Below]:
        """What lies behind the names that it means, and behind the segments that mean a name that it means."""
        if self._many is None:
            for letter, below in self._few.items():
                if _meets(segment, letter):
                    yield below
            return
        if segment.anything:
            yield from self._many.below.values()
            return
        for letter in self._many.affixes.like(segment):
            if _meets(segment, letter):
                yield self._many.below[letter]


_NOTHING: dict[Any, Any] = {}  # never changed
EMPTY_FAN: Fan[Any] = Fan(_NOTHING)


# --- straight helpers -------------------------------------------------------------------------
def _of(many: _Many) -> Fan[Any]:
    fan: Fan[Any] = Fan.__new__(Fan)
    fan._few, fan._many = _NOTHING, many
    return fan


def _meets(segment: Segment, letter: Name) -> bool:
    return segment.has(letter) if isinstance(letter, str) else segment.meets(letter)
