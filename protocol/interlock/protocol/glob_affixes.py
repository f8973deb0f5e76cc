"""Affixes: names and segments found by what they begin with and what they end with.

A name finds the segments that it begins and ends like; a segment finds what begins like it or what ends like it,
whichever are fewer.
"""

from collections.abc import Iterable, Iterator

from interlock.protocol.glob_segment import Segment
from interlock.protocol.row import Row

Name = str | Segment


class Affixes:
    """Args: letters: each once."""

    __slots__ = ("_ends", "_lengths", "_pairs", "_starts")

    def __init__(self, letters: Iterable[Name]) -> None:
        # Letters with the same two; how many such pairs have beginnings and ends of these lengths; and each pair as a
        # text that begins with its beginning, or with its end read backwards.
        self._pairs: dict[tuple[str, str], dict[Name, None]] = {}
        self._lengths: dict[tuple[int, int], int] = {}
        self._starts: Row[str] = Row()
        self._ends: Row[str] = Row()
        for letter in letters:
            self.add(letter)

    def add(self, letter: Name) -> None:
        """Take in this letter, which is not there yet."""
        pair = _affixes(letter)
        alike = self._pairs.get(pair)
        if alike is not None:
            alike[letter] = None
            return
        self._pairs[pair] = {letter: None}
        both = len(pair[0]), len(pair[1])
        self._lengths[both] = self._lengths.get(both, 0) + 1
        self._starts.add(_by_start(*pair))
        self._ends.add(_by_end(*pair))

    def remove(self, letter: Name) -> None:
        """Take out this letter, which is there."""
        pair = _affixes(letter)
        alike = self._pairs[pair]
        del alike[letter]
        if alike:
            return
        del self._pairs[pair]
        both = len(pair[0]), len(pair[1])
        self._lengths[both] -= 1
        if not self._lengths[both]:
            del self._lengths[both]
        self._starts.remove(_by_start(*pair))
        self._ends.remove(_by_end(*pair))

    def around(self, name: str) -> Iterator[Name]:
        """Letters that a name begins and ends like."""
        for head, tail in self._lengths:
            if head + tail <= len(name):
                yield from self._pairs.get((name[:head], name[len(name) - tail :]), ())

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
    def _alike(self, row: Row[str], begin: str, lengths: set[int]) -> Iterator[str]:
        """Of a row: what begins so, and what is the whole beginning of that."""
        for wanted in (begin, *(begin[:length] + "\0" for length in lengths if length < len(begin))):
            for text in row.since(wanted):
                if not text.startswith(wanted):
                    break
                yield text


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
