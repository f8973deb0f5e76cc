"""A segment: what a pattern says of one name between two slashes, where that is more than the name itself."""

import re
from functools import cached_property, lru_cache

from interlock.protocol.glob_set import CharacterSet
from interlock.protocol.glob_word import STAR, Letter, Word
from interlock.protocol.limits import PATTERNS_KEPT


class Segment:
    """Args: word: of characters and sets of them; stars do not reach over a slash, for there is none in a name."""

    def __init__(self, word: Word) -> None:
        self.word = word
        self.anything = word.letters == (STAR,)

    def has(self, plain: str) -> bool:
        """It stands for that name."""
        return self._expression.fullmatch(plain) is not None

    def meets(self, other: "Segment") -> bool:
        """Some name is meant by both."""
        return self.anything or other.anything or _meet(self, other)

    def includes(self, other: "Segment") -> bool:
        """Every name that the other means is meant; see `Word.includes`."""
        return self.anything or self.word.includes(other.word)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Segment) and self.word == other.word)

    def __hash__(self) -> int:
        return hash(self.word)

    def __repr__(self) -> str:
        return f"Segment({list(self.word.letters)})"

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        """What stands between two stars is found where it is first possible, once for all: no going back over stars."""
        pieces: list[list[str]] = [[]]
        for letter in self.word.letters:
            if letter is STAR:
                pieces.append([])
            else:
                pieces[-1].append(_character(letter))
        first, *middle, last = ("".join(each) for each in pieces) if len(pieces) > 1 else ("".join(pieces[0]), "")
        if len(pieces) == 1:
            return re.compile(first, re.DOTALL)
        return re.compile(first + "".join(f"(?>.*?{each})" for each in middle) + f".*{last}", re.DOTALL)


@lru_cache(maxsize=PATTERNS_KEPT)
def _meet(one: Segment, other: Segment) -> bool:
    return one.word.meets(other.word)


def _character(letter: Letter) -> str:
    if isinstance(letter, str):
        return re.escape(letter)
    assert isinstance(letter, CharacterSet)
    return "[" + "".join(f"{_escaped(first)}-{_escaped(last)}" for first, last in letter.ranges) + "]"


def _escaped(point: int) -> str:
    return f"\\U{point:08x}"
