"""Globs: which paths of a repository a pattern means, and whether two patterns mean a path in common.

    src/auth/login.py   that file; or that directory and everything below it
    src/auth/           what is below it
    src/auth/*.py       `*` `?` `[a-z]` stay within one name
    src/**              everything below, however deep
    **/test_*.py        in any directory, the top one included
    src/{api,ui}/**     either

The meaning is that of git's pathspec `:(glob)`, and `{a,b}` besides. A path is relative to the repository, with '/'
between names and none of them empty. Nothing here looks at a file: a name may be one's or a directory's.
"""

from functools import lru_cache

from interlock.protocol.glob_text import BadPattern as BadPattern  # noqa: PLC0414 - part of what is imported from here
from interlock.protocol.glob_text import alternatives, parts, quoted
from interlock.protocol.glob_word import STAR, Letter, Word
from interlock.protocol.limits import PATTERN_CHARACTERS_MAX, PATTERNS_KEPT


class Pattern:
    """Made by `parse`.

    Args:
        text: as it was written.
        words: its alternatives, each a word of names.
        literal: the path that it is, where it has no wildcard, alternatives or '/' at its end; else "".
    """

    __slots__ = ("literal", "text", "words")

    def __init__(self, text: str, words: tuple[Word, ...], literal: str) -> None:
        self.text, self.words, self.literal = text, words, literal

    @staticmethod
    def parse(text: str) -> "Pattern":
        """Read a pattern. Raises BadPattern, which says in one sentence why it is none."""
        return _parse(text)

    def matches(self, path: str) -> bool:
        """It means that path, which is relative to the repository."""
        if self.literal:
            return path == self.literal or path.startswith(self.literal + "/")
        names = path.split("/")
        return any(word.reads(names) for word in self.words)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Pattern) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"


@lru_cache(maxsize=PATTERNS_KEPT)
def overlap(a: Pattern, b: Pattern) -> bool:
    """There is a path that both mean. Exact: decided by the automata, not by comparing texts."""
    return any(one.meets(other) for one in a.words for other in b.words)


def covers(a: Pattern, b: Pattern) -> bool:
    """Every path of `b` is one of `a`. Never a wrong yes; a wrong no where only several alternatives would."""
    return all(any(one.includes(other) for one in a.words) for other in b.words)


@lru_cache(maxsize=PATTERNS_KEPT)
def _parse(text: str) -> Pattern:
    if not text:
        raise BadPattern("the pattern is empty: '**' is the whole repository")
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise BadPattern(
            f"{quoted(text)} has more than {PATTERN_CHARACTERS_MAX} characters: claim a directory above it"
        )
    if "\0" in text:
        raise BadPattern(f"{quoted(text)} has a NUL character in it, and no path has")
    words, literals = list[Word](), list[str]()
    for each in alternatives(text):
        below = each.endswith("/")
        letters, wild = parts(each + "**" if below else each)
        words.append(Word(letters if wild else [*letters, STAR]))
        literals.append("" if wild else "/".join(_names(letters)))
    return Pattern(text, tuple(words), literals[0] if len(literals) == 1 else "")


def _names(letters: list[Letter]) -> list[str]:
    return [each for each in letters if isinstance(each, str)]
