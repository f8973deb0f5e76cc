"""A segment: what a pattern says of one name between two slashes, where that is more than the name itself."""

from functools import lru_cache

from interlock.protocol.glob_word import STAR, Letter, Word
from interlock.protocol.limits import PATTERNS_KEPT


class Segment:
    """Args: word: of characters and sets of them, with a wildcard; stars meet no slash, for there is none in a name.

    What each name that it means begins with is `head`, what it ends with is `tail`.
    """

    __slots__ = ("_is_simple", "_length", "anything", "head", "tail", "word")

    def __init__(self, word: Word) -> None:
        letters = word.letters
        self.word = word
        self.head = _plain_beginning(letters)
        self.tail = _plain_beginning(letters[::-1])[::-1]
        self._length = len(self.head) + len(self.tail)
        self._is_simple = self._length == len(letters) - 1 and letters[len(self.head)] is STAR
        self.anything = letters == (STAR,)

    def has(self, plain: str) -> bool:
        """It stands for that name."""
        if len(plain) < self._length or not plain.startswith(self.head) or not plain.endswith(self.tail):
            return False
        return self._is_simple or self.word.reads(plain)

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


def _plain_beginning(letters: tuple[Letter, ...]) -> str:
    found = []
    for letter in letters:
        if not isinstance(letter, str):
            break
        found.append(letter)
    return "".join(found)


@lru_cache(maxsize=PATTERNS_KEPT)
def _meet(one: Segment, other: Segment) -> bool:
    return one.word.meets(other.word)
