"""The text of a pattern, read: its alternatives, and of each the letters between its slashes.

Grammar, of one alternative: names and '/'; `*` `?` `[...]` within a name; `**` as a whole name; a backslash before
anything means that character itself. It never looks at a file.
"""

import re

from interlock.protocol.glob_segment import Segment
from interlock.protocol.glob_set import ANY, CLASSES, CharacterSet, Range
from interlock.protocol.glob_word import STAR, Letter, Word
from interlock.protocol.limits import (
    PATTERN_ALTERNATIVES_MAX,
    PATTERN_EXPANDED_CHARACTERS_MAX,
    PATTERN_WILDCARDS_MAX,
)
from interlock.protocol.visible import beginning, unhidden

SHOWN = 60  # characters of a pattern that a sentence quotes
ANYTHING = Segment(Word([STAR]))
_PLAIN = re.compile(r"[^\\\[{},]+")
_RUN = re.compile(r"[^\\\[*?/]+")
_NAME = re.compile(r"([^\\\[*?/]*)(\*?)([^\\\[*?/]*)(/|\Z)")  # one wildcard in it at most, a star


class BadPattern(ValueError):
    """It is no pattern; str() says why, in one sentence."""


def quoted(text: str) -> str:
    """A pattern as a sentence shows it: as `visible.quoted`, with its backslashes as they are."""
    return f"'{unhidden(beginning(text, SHOWN))}'"


def alternatives(text: str) -> list[str]:
    """What `{a,b}` stands for, written out; a brace without a comma in it means itself. Raises BadPattern."""
    if "{" not in text:
        return [text]
    current, stack = [""], list[tuple[list[str], list[str]]]()
    at = 0
    while at < len(text):
        match text[at]:
            case "{":
                stack.append(([], current))
                current = [""]
                end = at + 1
            case "," if stack:
                stack[-1][0].extend(current)
                current = [""]
                end = at + 1
            case "}" if stack:
                done, before = stack.pop()
                inner = [*done, *current] if done else [f"{{{each}}}" for each in current]
                current = _bounded(text, [head + each for head in before for each in inner[:_ENOUGH]])
                end = at + 1
            case "[":
                end = _set(text, at)[1]
                current = [each + text[at:end] for each in current]
            case "\\":
                end = at + 2
                current = [each + text[at:end] for each in current]
            case _:
                plain = _PLAIN.match(text, at)
                end = plain.end() if plain else at + 1
                current = [each + text[at:end] for each in current]
        at = end
    if stack:
        raise BadPattern(f"{quoted(text)} has a '{{' without its '}}': write '\\{{' for the character itself")
    return list(dict.fromkeys(current))


def parts(text: str) -> tuple[list[Letter], bool]:
    """The letters of one alternative: names, segments, stars; and whether it has a wildcard. Raises BadPattern."""
    found: list[Letter] = []
    name: list[Letter] = []
    stars = wildcards = at = start = 0
    while at <= len(text):
        if at == start and (simple := _NAME.match(text, at)) and simple[0] not in ("", "/"):  # most of them are
            head, star, tail, slash = simple.groups()
            found.append(_starred(head, tail) if star else _name(text, head))
            wildcards += len(star)
            at = start = simple.end() + (not slash)
            continue
        character = text[at] if at < len(text) else "/"
        end = at + 1
        match character:
            case "\\" if text[at : at + 2] != "\\/":
                if end == len(text):
                    raise BadPattern(f"{quoted(text)} ends in a backslash: write '\\\\' for the character itself")
                name.append(text[end])
                end += 1
            case "/" | "\\":
                end += character == "\\"
                found.append(_letter(text, name, is_tree=stars > 1 and stars == at - start))
                name, stars, start = [], 0, end
            case "*":
                wildcards += name[-1:] != [STAR]
                name.append(STAR)
                stars += 1
            case "?":
                name.append(ANY)
                wildcards += 1
            case "[":
                characters, end = _set(text, at)
                name.append(characters.single() or characters)
                wildcards += 1
            case _:
                run = _RUN.match(text, at)
                assert run is not None
                name.extend(run[0])
                end = run.end()
        at = end
    if wildcards > PATTERN_WILDCARDS_MAX:
        raise BadPattern(f"{quoted(text)} has more than {PATTERN_WILDCARDS_MAX} wildcards: claim a directory instead")
    if found[-1] is STAR:  # a `**` at the end: what is below, one name at least
        found[-1:] = [ANYTHING, STAR]
    return found, wildcards > 0


def names(text: str) -> list[str]:
    """The names of a path without wildcards. Raises BadPattern."""
    found = text.split("/")
    if not _NO_NAMES.isdisjoint(found):
        for name in found:
            _letter(text, [name] if name else [], is_tree=False)
    return found


# --- straight helpers -------------------------------------------------------------------------
_NO_NAMES = frozenset({"", ".", ".."})
_ENOUGH = PATTERN_ALTERNATIVES_MAX + 1


def _bounded(text: str, found: list[str]) -> list[str]:
    if len(found) > PATTERN_ALTERNATIVES_MAX:
        raise BadPattern(f"{quoted(text)} stands for more than {PATTERN_ALTERNATIVES_MAX} patterns: name a directory")
    if sum(map(len, found)) > PATTERN_EXPANDED_CHARACTERS_MAX:
        raise BadPattern(
            f"{quoted(text)} has more than {PATTERN_EXPANDED_CHARACTERS_MAX} characters written out: name a directory"
        )
    return found


def _letter(text: str, name: list[Letter], *, is_tree: bool) -> Letter:
    if is_tree:
        return STAR
    if not name:
        raise BadPattern(
            f"{quoted(text)} has nothing between two slashes, or before the first: write it as git does, 'src/a.py'"
        )
    plain = [each for each in name if isinstance(each, str)]
    if len(plain) < len(name):
        return ANYTHING if name == [STAR] else Segment(Word(name))
    return _name(text, "".join(plain))


def _starred(head: str, tail: str) -> Segment:
    return Segment(Word((*head, STAR, *tail))) if head or tail else ANYTHING


def _name(text: str, name: str) -> str:
    if name in (".", ".."):
        raise BadPattern(f"{quoted(text)} has '{name}' in it: write the path from the repository's root")
    return name


def _set(text: str, at: int) -> tuple[CharacterSet, int]:
    """The set that begins at that '[', and where it ends. A ']' that is its first character is one of it."""
    negated = text[at + 1 : at + 2] in ("!", "^") and bool(text[at + 1 : at + 2])
    first = at = at + 1 + negated
    ranges: list[Range] = []
    low = -1  # what a range could begin with: the character before
    while at == first or text[at : at + 1] != "]":
        if text.startswith("-", at) and low >= 0 and text[at + 1 : at + 2] not in ("", "]"):
            high, at = _point(text, at + 1)
            ranges[-1] = low, high
            low = -1
        elif (
            text.startswith("[:", at) and (end := text.find("]", at + 2)) >= 0 and text[end - 1] == ":" and end > at + 2
        ):
            kind = text[at + 2 : end - 1]
            if kind not in CLASSES:
                raise BadPattern(
                    f"{quoted(text)} has '[:{unhidden(kind[:SHOWN])}:]': the classes are {', '.join(CLASSES)}"
                )
            ranges += CLASSES[kind]
            low, at = -1, end + 1
        else:
            low, at = _point(text, at)
            ranges.append((low, low))
    found = CharacterSet(ranges, negated=negated)
    if not found.ranges:
        raise BadPattern(f"{quoted(text)} has a '[…]' that no character is in: nothing would be claimed")
    return found, at + 1


def _point(text: str, at: int) -> tuple[int, int]:
    at += text.startswith("\\", at)
    if at >= len(text):
        raise BadPattern(f"{quoted(text)} has a '[' without its ']': write '\\[' for the character itself")
    return ord(text[at]), at + 1
