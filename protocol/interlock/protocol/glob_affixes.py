"""Affixes: names and segments found by what they begin with and what they end with.

A name finds the segments that it begins and ends like; a segment finds what begins like it or what ends like it,
whichever are fewer. They never change: a change makes new ones (ADR 24).
"""

from collections.abc import Iterable, Iterator

from interlock.protocol.glob_segment import Segment
from interlock.protocol.line import Line
from interlock.protocol.spread import Spread
from interlock.protocol.table import EMPTY, Table

Name = str | Segment


class Affixes:
    """Args: letters: each once."""

    __slots__ = ("_ends", "_lengths", "_pairs", "_starts")

    def __init__(self, letters: Iterable[Name]) -> None:
        pairs: dict[tuple[str, str], dict[Name, None]] = {}
        lengths: dict[tuple[int, int], int] = {}
        for letter in letters:
            pairs.setdefault(_affixes(letter), {})[letter] = None
        for head, tail in pairs:
            both = len(head), len(tail)
            lengths[both] = lengths.get(both, 0) + 1
        # Letters with the same two; how many such pairs have beginnings and ends of these lengths; and each pair as a
        # text that begins with its beginning, or with its end read backwards.
        self._pairs: Spread[tuple[str, str], Table[Name, None]] = Spread(
            {pair: Table(letters) for pair, letters in pairs.items()}
        )
        self._lengths: Table[tuple[int, int], int] = Table(lengths)
        self._starts = Line((0, _by_start(*pair)) for pair in pairs)
        self._ends = Line((0, _by_end(*pair)) for pair in pairs)

    def add(self, letter: Name) -> "Affixes":
        """With this letter, which is not there yet."""
        new, pair = self._copy(), _affixes(letter)
        new._pairs = self._pairs.put(pair, (self._pairs.get(pair) or _NONE).put(letter, None))
        if pair not in self._pairs:
            both = len(pair[0]), len(pair[1])
            new._lengths = self._lengths.put(both, self._lengths.get(both, 0) + 1)
            new._starts = self._starts.add((0, _by_start(*pair)))
            new._ends = self._ends.add((0, _by_end(*pair)))
        return new

    def remove(self, letter: Name) -> "Affixes":
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
                yield from self._pairs.get((name[:head], name[len(name) - tail :])) or _NONE

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

    def _copy(self) -> "Affixes":
        new = Affixes.__new__(Affixes)
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
