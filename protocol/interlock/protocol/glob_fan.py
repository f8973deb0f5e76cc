"""A fan: what lies behind each of many letters, found for a name, or for a segment that may mean several of them.

A name finds the segments that it begins and ends like; a segment finds what begins like it or what ends like it,
whichever are fewer. So one file among ten thousand in its directory, or one glob among a thousand, costs what one among
ten does. Few are simply looked through. A fan never changes: a change makes a new one (ADR 24).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from interlock.protocol.glob_segment import Segment
from interlock.protocol.line import Line
from interlock.protocol.table import EMPTY, Table

Below = TypeVar("Below")
Name = str | Segment

LOOKED_THROUGH = 24  # letters that are not worth an index


class Fan(Generic[Below]):
    """Args: below: what lies behind each letter; the dictionary is not copied."""

    __slots__ = ("_affixes", "_below")

    def __init__(self, below: "dict[Name, Below]") -> None:
        self._below: Table[Name, Below] = Table(below) if below else EMPTY
        self._affixes = _Affixes(below) if len(below) > LOOKED_THROUGH else None

    # --- changes: each makes a new fan ----------------------------------------------------------
    def put(self, letter: Name, below: Below) -> "Fan[Below]":
        """With this behind that letter."""
        affixes = self._affixes
        new = self._below.put(letter, below)
        if len(new) > len(self._below) and affixes is not None:
            affixes = affixes.add(letter)
        elif affixes is None and len(new) > LOOKED_THROUGH:
            affixes = _Affixes(new)
        return _of(new, affixes)

    def without(self, letter: Name) -> "Fan[Below]":
        """Without that letter, which is in it."""
        rest = self._below.without(letter)
        few = len(rest) <= LOOKED_THROUGH
        return _of(rest, None if few or self._affixes is None else self._affixes.remove(letter))

    # --- reading --------------------------------------------------------------------------------
    def get(self, letter: Name) -> Below | None:
        """What lies behind that very letter."""
        return self._below.get(letter)

    def __len__(self) -> int:
        return len(self._below)

    def values(self) -> Iterator[Below]:
        """What lies behind any."""
        return self._below.values()

    def having(self, name: str) -> Iterator[Below]:
        """What lies behind the segments that mean that name. Of a fan of segments."""
        if self._affixes is None:
            for letter, below in self._below.items():
                if isinstance(letter, Segment) and letter.has(name):
                    yield below
            return
        for letter in self._affixes.around(name):
            if isinstance(letter, Segment) and letter.has(name):
                yield self._below[letter]

    def meeting(self, segment: Segment) -> Iterator[Below]:
        """What lies behind the names that it means, and behind the segments that mean a name that it means."""
        if self._affixes is None or segment.anything:
            for letter, below in self._below.items():
                if _meets(segment, letter):
                    yield below
            return
        for letter in self._affixes.like(segment):
            if _meets(segment, letter):
                yield self._below[letter]


def _of(below: Table[Name, Below], affixes: "_Affixes | None") -> Fan[Below]:
    if not below:
        return EMPTY_FAN
    fan: Fan[Below] = Fan.__new__(Fan)
    fan._below, fan._affixes = below, affixes
    return fan


EMPTY_FAN: Fan[Any] = Fan({})


class _Affixes:
    """Letters by what they begin and end with.

    Args:
        pairs: letters with the same beginning and end.
        lengths: of these, how many pairs have them.
        starts, ends: each pair as a text that begins with its beginning, or with its end read backwards.
    """

    __slots__ = ("_ends", "_lengths", "_pairs", "_starts")

    def __init__(self, letters: Iterable[Name]) -> None:
        pairs: dict[tuple[str, str], dict[Name, None]] = {}
        lengths: dict[tuple[int, int], int] = {}
        for letter in letters:
            pairs.setdefault(_affixes(letter), {})[letter] = None
        for head, tail in pairs:
            both = len(head), len(tail)
            lengths[both] = lengths.get(both, 0) + 1
        self._pairs: Table[tuple[str, str], Table[Name, None]] = Table(
            {pair: Table(letters) for pair, letters in pairs.items()}
        )
        self._lengths: Table[tuple[int, int], int] = Table(lengths)
        self._starts = Line((0, _by_start(*pair)) for pair in pairs)
        self._ends = Line((0, _by_end(*pair)) for pair in pairs)

    def add(self, letter: Name) -> "_Affixes":
        """With this letter, which is not there yet."""
        new, pair = self._copy(), _affixes(letter)
        new._pairs = self._pairs.put(pair, self._pairs.get(pair, _NONE).put(letter, None))
        if pair not in self._pairs:
            both = len(pair[0]), len(pair[1])
            new._lengths = self._lengths.put(both, self._lengths.get(both, 0) + 1)
            new._starts = self._starts.add((0, _by_start(*pair)))
            new._ends = self._ends.add((0, _by_end(*pair)))
        return new

    def remove(self, letter: Name) -> "_Affixes":
        """Without this letter, which is there."""
        new, pair = self._copy(), _affixes(letter)
        rest = self._pairs[pair].without(letter)
        new._pairs = self._pairs.put(pair, rest) if rest else self._pairs.without(pair)
        if not rest:
            both = len(pair[0]), len(pair[1])
            count = self._lengths[both] - 1
            new._lengths = self._lengths.put(both, count) if count else self._lengths.without(both)
            new._starts = self._starts.remove((0, _by_start(*pair)))
            new._ends = self._ends.remove((0, _by_end(*pair)))
        return new

    def around(self, name: str) -> Iterator[Name]:
        """Letters that a name begins and ends like."""
        for head, tail in self._lengths:
            if head + tail <= len(name):
                yield from self._pairs.get((name[:head], name[len(name) - tail :]), _NONE)

    def like(self, segment: Segment) -> Iterator[Name]:
        """Letters that may mean what a segment means, some of them twice: of those that begin like it and those that
        end like it one by one in turn, until all of one kind have been told."""
        ends = self._alike(self._ends, segment.tail[::-1], {tail for _, tail in self._lengths})
        for start in self._alike(self._starts, segment.head, {head for head, _ in self._lengths}):
            yield from self._pairs[_pair_of_start(start)]
            end = next(ends, None)
            if end is None:
                return
            yield from self._pairs[_pair_of_end(end)]

    # --- straight helpers -----------------------------------------------------------------------
    def _alike(self, line: Line, begin: str, lengths: set[int]) -> Iterator[str]:
        """Of a line: what begins so, and what is the whole beginning of that."""
        for wanted in (begin, *(begin[:length] + "\0" for length in lengths if length < len(begin))):
            for text in line.since((0, wanted)):
                if not text.startswith(wanted):
                    break
                yield text

    def _copy(self) -> "_Affixes":
        new = _Affixes.__new__(_Affixes)
        new._pairs, new._lengths, new._starts, new._ends = self._pairs, self._lengths, self._starts, self._ends
        return new


_NONE: Table[Name, None] = EMPTY


def _affixes(letter: Name) -> tuple[str, str]:
    return (letter, letter) if isinstance(letter, str) else (letter.head, letter.tail)


def _by_start(head: str, tail: str) -> str:
    return f"{head}\0{tail}"


def _by_end(head: str, tail: str) -> str:
    return f"{tail[::-1]}\0{head}"


def _pair_of_start(text: str) -> tuple[str, str]:
    head, _, tail = text.partition("\0")
    return head, tail


def _pair_of_end(text: str) -> tuple[str, str]:
    tail, _, head = text.partition("\0")
    return head, tail[::-1]


def _meets(segment: Segment, letter: Name) -> bool:
    return segment.has(letter) if isinstance(letter, str) else segment.meets(letter)
