"""What is claimed, as a tree over the names in paths, so that only what can overlap is looked at.

    src ─▶ auth ─▶ login.py  (ends)       a name, found in a table
              └──▶ test_*.py (ends)       a segment, compared with the name
       └─▶ ★ ─▶ ...                       `**`: stays where it is while names pass by

A pattern is a way from the root, a letter a step; patterns that begin alike share their beginning. A question is a
pattern too: it walks the tree as one automaton walks another, and whoever ends where it ends has a path in common with
it, exactly. What it costs does not grow with how many are claimed elsewhere.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from interlock.protocol.glob_fan import Fan
from interlock.protocol.glob_segment import Segment
from interlock.protocol.glob_word import STAR, Letter

Way = tuple[Letter, ...]


class End(NamedTuple):
    """Where a claim's pattern ends: whose it is, and which lines of the file (0: the whole)."""

    arrival: int
    lease: str
    first: int = 0
    last: int = 0


class Tree:
    """Made empty, and with it whatever is below."""

    __slots__ = ("deep", "ends", "names", "segments", "stays")

    def __init__(self, *, stays: bool = False) -> None:
        self.ends: list[End] = []  # in order
        self.names: Fan[str, Tree] | None = None  # most trees are leaves
        self.segments: Fan[Segment, Tree] | None = None
        self.deep: Tree | None = None  # behind a `**`
        self.stays = stays  # it is behind one itself

    # --- changes --------------------------------------------------------------------------------
    def put(self, way: Way, end: End) -> None:
        """Take in this claim, which is not in it yet."""
        tree = self
        for letter in way:
            below = tree._below(letter)
            if below is None:
                below = tree._grow(letter)
            tree = below
        insort(tree.ends, end)

    def remove(self, way: Way, end: End) -> None:
        """Take out this claim, which is in it, and the branches that nothing else is on."""
        passed, tree = list[Tree](), self
        for letter in way:
            below = tree._below(letter)
            assert below is not None
            passed.append(tree)
            tree = below
        at = bisect_left(tree.ends, end)
        assert tree.ends[at] == end
        del tree.ends[at]
        for above, letter in zip(reversed(passed), reversed(way), strict=True):
            if not tree.is_empty():
                return
            above._cut(letter)
            tree = above

    # --- reading --------------------------------------------------------------------------------
    def is_empty(self) -> bool:
        """Nothing is claimed in it."""
        return not (self.ends or self.names or self.segments or self.deep)

    def meeting(self, way: Way, before: int = 0) -> Iterator[End]:
        """Whoever has a path in common with that pattern, in no order, some of them several times.

        Args: before: only those of an earlier arrival; 0: all.

        It can be left at any moment: a pattern that begins with `**` may walk through all. Nothing is to change
        before the last one that is wanted has been told.
        """
        seen: set[tuple[int, int]] = set()
        ahead: list[tuple[Tree, int]] = [(self, 0)]
        many: list[Iterator[tuple[Tree, int]]] = []  # more of those ahead, where there may be very many
        while ahead or many:
            step = ahead.pop() if ahead else next(many[-1], None)
            if step is None:
                many.pop()
                continue
            tree, at = step
            place = id(tree), at
            if place in seen:
                continue
            seen.add(place)
            if tree.deep is not None:
                ahead.append((tree.deep, at))
            if at == len(way):
                yield from tree.ends[: bisect_left(tree.ends, (before,))] if before else tree.ends
                continue
            letter = way[at]
            if letter is STAR:
                ahead.append((tree, at + 1))
                many.append(_each([fan.values() for fan in (tree.names, tree.segments) if fan], at))
                continue
            if tree.stays:
                ahead.append((tree, at + 1))
            if isinstance(letter, str):
                named = tree.names.get(letter) if tree.names else None
                if named is not None:
                    ahead.append((named, at + 1))
                if tree.segments:
                    ahead.extend((below, at + 1) for below in tree.segments.having(letter))
            else:
                assert isinstance(letter, Segment)
                many.append(_each([fan.meeting(letter) for fan in (tree.segments, tree.names) if fan], at + 1))

    # --- straight helpers -----------------------------------------------------------------------
    def _below(self, letter: Letter) -> "Tree | None":
        if isinstance(letter, str):
            return self.names.get(letter) if self.names else None
        if letter is STAR:
            return self.deep
        assert isinstance(letter, Segment)
        return self.segments.get(letter) if self.segments else None

    def _grow(self, letter: Letter) -> "Tree":
        below = Tree(stays=letter is STAR)
        if isinstance(letter, str):
            self.names = self.names or Fan()
            self.names.put(letter, below)
        elif letter is STAR:
            self.deep = below
        else:
            assert isinstance(letter, Segment)
            self.segments = self.segments or Fan()
            self.segments.put(letter, below)
        return below

    def _cut(self, letter: Letter) -> None:
        if isinstance(letter, str):
            assert self.names is not None
            self.names.drop(letter)
        elif letter is STAR:
            self.deep = None
        else:
            assert isinstance(letter, Segment)
            assert self.segments is not None
            self.segments.drop(letter)


def _each(fans: list[Iterable[Tree]], at: int) -> Iterator[tuple[Tree, int]]:
    return ((tree, at) for fan in fans for tree in fan)
