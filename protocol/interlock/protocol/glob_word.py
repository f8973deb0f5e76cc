"""A word: letters in a row, among them letters that stand for several, and stars, which stand for any row of letters.

    'test_*.py'  t e s t _ ★ . p y      its letters are characters
    'src/**/x'   src ★ x                its letters are whole names of files, and words themselves: 'test_*.py' is one

Two questions of such words are decided exactly as automata decide them, for a price that grows with the product of
their lengths and with nothing else: can one row of letters be read by both, and is all that one reads read by the
other. Where a word can be after some letters is a row of bits, bit j for "before letter j".
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Protocol, TypeAlias


class Wide(Protocol):
    """A letter that stands for several. It can be compared and hashed; a plain letter is a `str`."""

    anything: bool  # it stands for every letter

    def has(self, plain: str) -> bool:
        """It stands for this one, among others."""
        ...

    def meets(self, other: Any) -> bool:
        """Both stand for some one letter."""
        ...

    def includes(self, other: Any) -> bool:
        """It stands for whatever the other one stands for. Never a wrong yes; a wrong no, if need be."""
        ...


STAR = None
Letter: TypeAlias = str | Wide | None


class Word:
    """Args: letters: plain ones are `str`; each wide one stands for at least one letter; stars in a row are one."""

    __slots__ = ("_is_ready", "_loose", "_plain", "_stars", "_wide", "letters")

    def __init__(self, letters: Iterable[Letter]) -> None:
        kept: list[Letter] = []
        for letter in letters:
            if letter is not STAR or not kept or kept[-1] is not STAR:
                kept.append(letter)
        self.letters = tuple(kept)
        self._is_ready = False
        self._loose: Word | None = None
        self._stars = 0
        self._plain: dict[str, int] = {}
        self._wide: dict[Wide, int] = {}

    def reads(self, letters: Iterable[str]) -> bool:
        """It stands for this row of plain letters."""
        self._get_ready()
        places = self._spread(1)
        for letter in letters:
            places = self._spread((places & self._places_of(letter)) << 1 | (places & self._stars))
            if not places:
                return False
        return bool(places >> len(self.letters))

    def meets(self, other: "Word") -> bool:
        """Some row of letters is read by both."""
        other._get_ready()
        places, known = other._spread(1), dict[str | Wide, int]()
        for letter in self.letters:
            if letter is STAR:  # it reads on and on, and the other goes wherever it likes
                places = ((1 << len(other.letters) + 1) - 1) & -(places & -places)
                continue
            fits = known.get(letter)
            if fits is None:
                fits = known[letter] = other._places_of(letter)
            places = other._spread((places & fits) << 1 | (places & other._stars))
            if not places:
                return False
        return bool(places >> len(other.letters))

    def includes(self, other: "Word") -> bool:
        """Whatever the other reads is read by this one. Never a wrong yes: only a star is said to read a star."""
        mine = self._loosened()
        mine._get_ready()
        places = mine._spread(1)
        for letter in other.letters:
            stay = places & mine._stars
            places = mine._spread(stay if letter is STAR else stay | (places & mine._places_around(letter)) << 1)
            if not places:
                return False
        return bool(places >> len(mine.letters))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Word) and self.letters == other.letters)

    def __hash__(self) -> int:
        return hash(self.letters)

    def __repr__(self) -> str:
        return f"Word({list(self.letters)})"

    # --- straight helpers -----------------------------------------------------------------------
    def _get_ready(self) -> None:
        """Note where each letter is; most words are only walked along, and never asked."""
        if self._is_ready:
            return
        for at, letter in enumerate(self.letters):
            if letter is STAR:
                self._stars |= 1 << at
            elif isinstance(letter, str):
                self._plain[letter] = self._plain.get(letter, 0) | 1 << at
            else:
                self._wide[letter] = self._wide.get(letter, 0) | 1 << at
        self._is_ready = True

    def _spread(self, places: int) -> int:
        """Before a star is after it too: it may stand for nothing."""
        return places | (places & self._stars) << 1

    def _places_of(self, letter: "str | Wide") -> int:
        """Which of its letters can be that one."""
        if isinstance(letter, str):
            return self._plain.get(letter, 0) | sum(at for wide, at in self._wide.items() if wide.has(letter))
        plain = sum(at for each, at in self._plain.items() if letter.has(each))
        return plain | sum(at for wide, at in self._wide.items() if letter.meets(wide))

    def _places_around(self, letter: "str | Wide") -> int:
        """Which of its letters stand for whatever that one stands for."""
        if isinstance(letter, str):
            return self._places_of(letter)
        return sum(at for wide, at in self._wide.items() if wide.includes(letter))

    def _loosened(self) -> "Word":
        """The same, with each row of stars and of letters that stand for anything written ★?★?★: none comes first."""
        if self._loose is None:
            found: list[Letter] = []
            rows = groupby(self.letters, lambda each: each is STAR or (not isinstance(each, str) and each.anything))
            for is_loose, letters in rows:
                row = list(letters)
                if is_loose and STAR in row:
                    row = [STAR, *(each for letter in row if letter is not STAR for each in (letter, STAR))]
                found += row
            self._loose = Word(found)
        return self._loose
