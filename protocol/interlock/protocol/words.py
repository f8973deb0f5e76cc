"""Words: how a text is taken apart at its white space, with quotes as a POSIX shell has them, and put together."""

import re
import shlex
from typing import NamedTuple

from interlock.protocol.visible import quoted

_BARE_WORD = re.compile(r"\s*([^\s'\"\\]+)(?:\s|\Z)")
_NEEDS_NO_QUOTES = re.compile(r"[^\s'\"\\]+")


class BadText(ValueError):
    """The text is no message; str() is one sentence that says what is wrong and what is right."""


def quote(word: str) -> str:
    """Quote a word only where the grammar needs it, so that `/srv/über` stays readable."""
    return word if _NEEDS_NO_QUOTES.fullmatch(word) else shlex.quote(word)


def read_word(text: str, at: int, form: str) -> tuple[str, int]:
    """Read one word from `at`; the white space before it is skipped, one character after it is the separator."""
    bare = _BARE_WORD.match(text, at)
    if bare is not None:  # as nearly all are
        return bare[1], bare.end()
    while at < len(text) and text[at].isspace():
        at += 1
    if at == len(text):
        raise BadText(f"a word is missing: {form}")
    out, quote_mark, started_at = "", "", at
    while at < len(text):
        character = text[at]
        if quote_mark == "'" or (quote_mark and character == quote_mark):
            if character == quote_mark:
                quote_mark = ""
            else:
                out += character
        elif character == "\\" and at + 1 < len(text) and (not quote_mark or text[at + 1] in '"\\$`'):
            at += 1
            out += text[at]
        elif quote_mark:
            out += character
        elif character in "'\"":
            quote_mark = character
        elif character.isspace():
            return out, at + 1
        else:
            out += character
        at += 1
    if quote_mark:
        raise BadText(f"the quote opened at {quoted(text[started_at:])} is never closed: {form}")
    return out, at


class Options(NamedTuple):
    """Words and options of a message. Args: words: that are none. said: (name, value). rest: after a lone dash."""

    words: tuple[str, ...]
    said: tuple[tuple[str, str], ...]
    flags: frozenset[str]
    rest: str

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of an option."""
        return tuple(value for each, value in self.said if each == name)

    def one(self, name: str) -> str:
        """The last value of an option; "" where it was not said."""
        return next(reversed(self.all(name)), "")


def read_options(text: str, at: int, form: str, names: tuple[str, ...] = (), flags: tuple[str, ...] = ()) -> Options:
    """Words, `name=value` of these names, flags, and the rest after a lone dash, verbatim."""
    words: list[str] = []
    said: list[tuple[str, str]] = []
    seen: set[str] = set()
    while text[at:].strip():
        word, at = read_word(text, at, form)
        name, equals, value = word.partition("=")
        if word == "-":
            return Options(tuple(words), tuple(said), frozenset(seen), text[at:])
        if word in flags:
            seen.add(word)
        elif equals and name in names:
            said.append((name, value))
        else:
            words.append(word)
    return Options(tuple(words), tuple(said), frozenset(seen), "")


def nothing_more(text: str, at: int, form: str) -> None:
    """Raises BadText where something follows."""
    if text[at:].strip():
        raise BadText(f"{quoted(text[at:].strip())} is too much: {form}")
