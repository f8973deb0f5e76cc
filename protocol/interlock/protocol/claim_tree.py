"""What is claimed, as a tree over the names in paths, so that only what can overlap is looked at.

    src ─▶ auth ─▶ login.py  (ends)       a name, found in a table
              └──▶ test_*.py (ends)       a segment, compared with the name
       └─▶ ★ ─▶ ...                       `**`: stays where it is while names pass by

A pattern is a way from the root, a letter a step; patterns that begin alike share their beginning. A question is a
pattern too: it walks the tree as one automaton walks another, and whoever ends where it ends has a path in common with
it, exactly. What it costs does not grow with how many are claimed elsewhere. A tree never changes: a change makes a new
one, which shares all but one way with the old (ADR 24).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from interlock.protocol.glob_affixes import Name
from interlock.protocol.glob_fan import EMPTY_FAN, Fan
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
    """Made from `EMPTY_TREE`, or by `planted`."""

    __slots__ = ("deep", "ends", "names", "segments", "stays")

    def __init__(self) -> None:
        self.ends: tuple[End, ...] = ()  # in order
        self.names: Fan[Tree] = EMPTY_FAN
        self.segments: Fan[Tree] = EMPTY_FAN
        self.deep: Tree | None = None  # behind a `**`
        self.stays = False  # it is behind one itself

    # --- changes: each makes a new tree ---------------------------------------------------------
    def put(self, way: Way, end: End) -> "Tree":
        """With this claim, which is not in it yet."""
        passed = self._along(way)
        last = passed[-1]._copy() if len(passed) > len(way) else Tree()
        at = bisect_left(last.ends, end)
        last.ends = (*last.ends[:at], end, *last.ends[at:])
        return _grown(passed, way, last)

    def without(self, way: Way, end: End) -> "Tree":
        """Without this claim, which is in it."""
        passed = self._along(way)
        last = passed[-1]._copy()
        at = bisect_left(last.ends, end)
        assert len(passed) > len(way)
        assert last.ends[at] == end
        last.ends = (*last.ends[:at], *last.ends[at + 1 :])
        return _grown(passed, way, last)

    # --- reading --------------------------------------------------------------------------------
    def meeting(self, way: Way) -> Iterator[End]:
        """Whoever has a path in common with that pattern, in no order, some of them several times.

        It can be left at any moment: a pattern that begins with `**` may walk through all.
        """
        seen: set[tuple[int, int]] = set()
        walk: list[Iterator[tuple[Tree, int]]] = [iter(((self, 0),))]
        while walk:
            step = next(walk[-1], None)
            if step is None:
                walk.pop()
                continue
            tree, at = step
            if (id(tree), at) not in seen:
                seen.add((id(tree), at))
                walk.append(tree._steps(way, at))
                if at == len(way):
                    yield from tree.ends

    # --- straight helpers -----------------------------------------------------------------------
    def _steps(self, way: Way, at: int) -> "Iterator[tuple[Tree, int]]":
        """Where a question can be after its next letter, and where it can be already."""
        if self.deep is not None:
            yield self.deep, at
        if at == len(way):
            return
        letter = way[at]
        if letter is STAR:
            yield self, at + 1
            for below in chain(self.names.values(), self.segments.values()):
                yield below, at
            return
        if self.stays:
            yield self, at + 1
        if isinstance(letter, str):
            named = self.names.get(letter)
            if named is not None:
                yield named, at + 1
            for below in self.segments.having(letter) if self.segments else ():
                yield below, at + 1
            return
        assert isinstance(letter, Segment)
        for below in chain(self.segments.meeting(letter), self.names.meeting(letter)):
            yield below, at + 1

    def _along(self, way: Way) -> "list[Tree]":
        """The trees from this one on, as far as the way has been walked before."""
        passed, tree = [self], self
        for letter in way:
            below = tree._below(letter)
            if below is None:
                break
            passed.append(below)
            tree = below
        return passed

    def _below(self, letter: Letter) -> "Tree | None":
        if letter is STAR:
            return self.deep
        if isinstance(letter, str):
            return self.names.get(letter)
        assert isinstance(letter, Segment)
        return self.segments.get(letter)

    def _take(self, letter: Letter, below: "Tree") -> None:
        """A new tree takes another new one, or drops it where nothing is in it."""
        empty = not (below.ends or below.names or below.segments or below.deep)
        if letter is STAR:
            below.stays = True
            self.deep = None if empty else below
        elif isinstance(letter, str):
            self.names = self.names.without(letter) if empty else self.names.put(letter, below)
        else:
            assert isinstance(letter, Segment)
            self.segments = self.segments.without(letter) if empty else self.segments.put(letter, below)

    def _copy(self) -> "Tree":
        new = Tree()
        new.ends, new.names, new.segments, new.deep, new.stays = (
            self.ends,
            self.names,
            self.segments,
            self.deep,
            self.stays,
        )
        return new


EMPTY_TREE = Tree()


def planted(claims: Iterable[tuple[Way, End]]) -> Tree:
    """The tree of all these claims at once: as `put` one after the other, for a fraction of its price."""
    drafts = [_Draft(STAR)]
    for way, end in claims:
        draft = drafts[0]
        for letter in way:
            below = draft.below.get(letter)
            if below is None:
                below = draft.below[letter] = _Draft(letter)
                drafts.append(below)
            draft = below
        draft.ends.append(end)
    for draft in reversed(drafts):  # what is below came later
        draft.settle()
    root = drafts[0].tree
    root.stays = False
    return root


class _Draft:
    """A tree in the making."""

    __slots__ = ("below", "ends", "letter", "tree")

    def __init__(self, letter: Letter) -> None:
        self.letter = letter
        self.below: dict[Letter, _Draft] = {}
        self.ends: list[End] = []
        self.tree = Tree()

    def settle(self) -> None:
        tree, below = self.tree, self.below
        names: dict[Name, Tree] = {letter: each.tree for letter, each in below.items() if isinstance(letter, str)}
        segments: dict[Name, Tree] = {
            letter: each.tree for letter, each in below.items() if isinstance(letter, Segment)
        }
        tree.ends, tree.stays = tuple(sorted(self.ends)), self.letter is STAR
        tree.names, tree.segments = Fan(names) if names else EMPTY_FAN, Fan(segments) if segments else EMPTY_FAN
        tree.deep = below[STAR].tree if STAR in below else None


def _grown(passed: list[Tree], way: Way, last: Tree) -> Tree:
    """A new tree from the root on, with this one at the end of the way."""
    tree = last
    for at in range(len(way) - 1, -1, -1):
        above = passed[at]._copy() if at < len(passed) else Tree()
        above._take(way[at], tree)
        tree = above
    return tree
