"""A fan: what lies behind each of many letters, found for a name, or for a segment that may mean several of them.

Few are simply looked through; of many only those that begin and end alike. So one file among ten thousand in its
directory, or one glob among a thousand, costs what one among ten does.
"""

from collections.abc import Iterator
from typing import TypeVar

from interlock.protocol.glob_affixes import Affixes, Name
from interlock.protocol.glob_segment import Segment

Letter = TypeVar("Letter", bound=Name)
Below = TypeVar("Below")

LOOKED_THROUGH = 24  # letters that are not worth an index


class Fan(dict[Letter, Below]):
    """A dictionary by letters: read as one, and changed by `put` and `drop` alone. Made empty."""

    __slots__ = ("_affixes",)

    def __init__(self) -> None:
        self._affixes: Affixes | None = None

    def put(self, letter: Letter, below: Below) -> None:
        """Have this behind that letter, behind which nothing is yet."""
        self[letter] = below
        if self._affixes is not None:
            self._affixes.add(letter)
        elif len(self) > LOOKED_THROUGH:
            self._affixes = Affixes(self)

    def drop(self, letter: Letter) -> None:
        """Have nothing behind that letter, behind which something is."""
        del self[letter]
        if len(self) <= LOOKED_THROUGH // 2:
            self._affixes = None
        elif self._affixes is not None:
            self._affixes.remove(letter)

    def having(self, name: str) -> Iterator[Below]:
        """What lies behind the segments that mean that name. Of a fan of segments."""
        for letter in self if self._affixes is None else self._affixes.around(name):
            if isinstance(letter, Segment) and letter.has(name):
                yield self[letter]  # type: ignore[index] # what is found there is in here

    def meeting(self, segment: Segment) -> Iterator[Below]:
        """What lies behind the names that it means, and behind the segments that mean a name that it means."""
        if segment.anything:
            yield from self.values()
            return
        for letter in self if self._affixes is None else self._affixes.like(segment):
            if segment.has(letter) if isinstance(letter, str) else segment.meets(letter):
                yield self[letter]  # type: ignore[index] # as above
