"""Spans of lines, what a diff makes of them, and which of them others cover. Pure.

```text
a span (after, last]:   after=9 last=40 are the lines 10 to 40;   after=last=9 is the point between the lines 9 and 10
a hunk:                 a span of the old text that became a span of the new one
```

What is next to a range (ADR 30): whoever has a range may also insert right before its first and right behind its last
line, and what was inserted there is theirs. Another one's range is touched only by what lies inside of it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

ENDLESS = 1 << 62


class Span(NamedTuple):
    """Lines after+1 to last, counted from 1; where both are the same: the point behind that line, for an insertion."""

    after: int
    last: int


class Hunk(NamedTuple):
    """A change: these lines became those."""

    old: Span
    new: Span


EVERYTHING = Span(-1, ENDLESS)  # the file itself: its name, its mode, every line that it has or could have
WHOLE = Hunk(EVERYTHING, EVERYTHING)


def covered(span: Span, spans: Iterable[Span]) -> bool:
    """Whether one of these spans, as `joined` has them, has all of it; an insertion at the edge of one is covered."""
    return any(each.after <= span.after and span.last <= each.last for each in spans)


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same lines in as few spans as can be, in order."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.after <= found[-1].last:
            found[-1] = Span(found[-1].after, max(found[-1].last, span.last))
        else:
            found.append(span)
    return found


def touches(span: Span, held: Span) -> bool:
    """Whether a change of `span` changes anything inside of `held`; an insertion at its edge does not."""
    if span.after == span.last:
        return held.after < span.after < held.last
    return max(span.after, held.after) < min(span.last, held.last)


def moved(span: Span, hunks: Sequence[Hunk], *, wide: bool) -> Span:
    """Where a span of the old text lies in the new one.

    Args:
        hunks: from the old to the new text, in order.
        wide: what was inserted at its edges, and what became of a hunk that is partly inside, belongs to it.

    Returns:
        The span; without lines where all of them were deleted.
    """
    after = _edge(span.after, hunks, low=wide)
    return Span(after, max(after, _edge(span.last, hunks, low=not wide)))


def _edge(point: int, hunks: Sequence[Hunk], *, low: bool) -> int:
    """The point behind that line in the new text. Args: low: of those that it could be the first, else the last."""
    shift = 0
    for hunk in hunks:
        inserted_here = hunk.old.after == hunk.old.last == point
        if inserted_here or hunk.old.after < point < hunk.old.last:
            return hunk.new.after if low else hunk.new.last
        if hunk.old.last > point:
            break
        shift = hunk.new.last - hunk.old.last
    return point + shift


def in_each(sides: Sequence[Sequence[Hunk]]) -> tuple[Hunk, ...]:
    """What a merge changed against every parent.

    Args:
        sides: for each parent, the hunks from its text to the merge's.

    Returns:
        Those hunks of the first parent whose new lines are new to all the others too.
    """
    first, others = sides[0], sides[1:]
    return tuple(hunk for hunk in first if all(any(_meet(hunk.new, each.new) for each in side) for side in others))


def _meet(one: Span, other: Span) -> bool:
    """They have a line in common; or one of them is a point at or within the other: a deletion."""
    if one.after == one.last or other.after == other.last:
        return max(one.after, other.after) <= min(one.last, other.last)
    return max(one.after, other.after) < min(one.last, other.last)


def line_pairs(spans: Iterable[Span]) -> list[tuple[int, int]]:
    """First and last line of each, to be shown; nothing for the whole file. A deletion is shown at the line before."""
    plain = [Span(max(each.last - 1, 0), max(each.last, 1)) if each.after == each.last else each for each in spans]
    return [] if EVERYTHING in plain else [(each.after + 1, each.last) for each in joined(plain)]


def side_of_heading(first: bytes, count: bytes | None) -> Span:
    """A side of a hunk's heading: `12` is one line, `12,3` are three, `12,0` is the point behind line 12."""
    at, lines = int(first), 1 if count is None else int(count)
    return Span(at - 1, at - 1 + lines) if lines else Span(at, at)
