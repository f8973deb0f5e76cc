"""A set of characters: what `?` and `[...]` stand for in one name. '/' is in none of them."""

from bisect import bisect_right
from collections.abc import Iterable

Range = tuple[int, int]  # code points, both included
LAST = 0x10FFFF
_SLASH = ord("/")
CLASSES: dict[str, tuple[Range, ...]] = {  # of ASCII, as git has them
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 10), (13, 13), (32, 32)),
    "upper": ((65, 90),),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}


class CharacterSet:
    """Args: ranges: in any order, they may overlap; those of one character that is negated are its complement."""

    __slots__ = ("_firsts", "_hash", "anything", "ranges")

    def __init__(self, ranges: Iterable[Range], *, negated: bool = False) -> None:
        joined = _joined(ranges)
        if negated:
            joined = _complement(joined)
        self.ranges = _without_slash(joined)
        self._firsts = [first for first, _ in self.ranges]
        self._hash = hash(self.ranges)
        self.anything = self.ranges == ((0, _SLASH - 1), (_SLASH + 1, LAST))

    def single(self) -> str:
        """The one character in it; "" where there are others."""
        return chr(self.ranges[0][0]) if len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1] else ""

    def has(self, plain: str) -> bool:
        """That character is in it."""
        point = ord(plain)
        at = bisect_right(self._firsts, point) - 1
        return at >= 0 and point <= self.ranges[at][1]

    def meets(self, other: "CharacterSet") -> bool:
        """Some character is in both."""
        few, many = (self, other) if len(self.ranges) <= len(other.ranges) else (other, self)
        for first, last in few.ranges:
            at = bisect_right(many._firsts, last) - 1
            if at >= 0 and many.ranges[at][1] >= first:
                return True
        return False

    def includes(self, other: "CharacterSet") -> bool:
        """Every character of the other is in it."""
        for first, last in other.ranges:
            at = bisect_right(self._firsts, first) - 1
            if at < 0 or self.ranges[at][1] < last:
                return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharacterSet) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"CharacterSet({list(self.ranges)})"


# --- straight helpers -------------------------------------------------------------------------
def _joined(ranges: Iterable[Range]) -> list[Range]:
    found: list[Range] = []
    for first, last in sorted(each for each in ranges if each[0] <= each[1]):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _complement(ranges: list[Range]) -> list[Range]:
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), LAST]
    return [(first, last) for first, last in zip(starts, ends, strict=True) if first <= last]


def _without_slash(ranges: list[Range]) -> tuple[Range, ...]:
    found: list[Range] = []
    for first, last in ranges:
        if first <= _SLASH <= last:
            found += [each for each in ((first, _SLASH - 1), (_SLASH + 1, last)) if each[0] <= each[1]]
        else:
            found.append((first, last))
    return tuple(found)


ANY = CharacterSet(((0, LAST),))  # `?`
