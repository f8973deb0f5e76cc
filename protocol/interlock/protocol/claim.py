"""A claim: what a lease is for. Paths that a pattern means, or lines of one file.

src/auth/**       a pattern, see glob.py
README.md:10-40   lines 10 to 40, both included
README.md:7       line 7
notes\\:7          the file 'notes:7'
"""

import re

import msgspec

from interlock.protocol.glob import BadPattern, Pattern, covers, overlap
from interlock.protocol.glob_text import quoted
from interlock.protocol.limits import LINE_MAX

_LINES = re.compile(r"(\\*):([0-9]+)(?:-([0-9]+))?\Z")


class BadClaim(ValueError):
    """It is no claim; str() says why, in one sentence."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one agent wants for itself.

    Args:
        pattern: a glob.
        first: first line, from 1; 0: the whole file. Only of a pattern that is one path.
        last: last line, included.
        blob: hex object id of the file's content when the lines were taken; "": unknown. Whoever has one is a file:
            nothing is below it.
    """

    pattern: str
    first: int = 0
    last: int = 0
    blob: str = ""

    def is_file(self) -> bool:
        """It is one file, known to be no directory."""
        return bool(self.first or self.blob)


def parse_claim(text: str) -> Claim:
    """Read a claim as people write it. Raises BadClaim, which says in one sentence why it is none."""
    lines = _LINES.search(text)
    pattern, first, last = text, 0, 0
    if lines is not None and len(lines[1]) % 2:
        pattern = text[: lines.end(1) - 1] + text[lines.end(1) :]  # written '\\:': it is part of the name
    elif lines is not None:
        pattern, first, last = text[: lines.end(1)], _line(text, lines[2]), _line(text, lines[3] or lines[2])
        if not first or first > last:
            raise BadClaim(f"{quoted(text)} has no lines: write 'FILE:FIRST-LAST', the first line is 1")
    try:
        parsed = Pattern.parse(pattern)
    except BadPattern as error:
        raise BadClaim(str(error)) from None
    if first and not parsed.literal:
        raise BadClaim(f"{quoted(text)} has lines of more than one file: write one path before the ':'")
    return Claim(pattern, first, last)


def claim_text(claim: Claim) -> str:
    """Write a claim so that `parse_claim` reads the same one; its blob is not written."""
    if claim.first:
        lines = f"{claim.first}" if claim.first == claim.last else f"{claim.first}-{claim.last}"
        return f"{claim.pattern}:{lines}"
    lines_like = _LINES.search(claim.pattern)
    if lines_like is None or len(lines_like[1]) % 2:
        return claim.pattern
    at = lines_like.end(1)
    return f"{claim.pattern[:at]}\\{claim.pattern[at:]}"


def claims_overlap(a: Claim, b: Claim) -> bool:
    """There is a line, or a whole path, that both are for."""
    return lines_overlap(a.first, a.last, b.first, b.last) and _paths_overlap(a, b)


def claim_covers(a: Claim, b: Claim) -> bool:
    """All that `b` is for is what `a` is for. Never a wrong yes."""
    if a.first and not (b.first and a.first <= b.first and b.last <= a.last):
        return False
    one, other = Pattern.parse(a.pattern), Pattern.parse(b.pattern)
    if a.is_file():
        return b.is_file() and one.literal == other.literal
    return one.matches(other.literal) if b.is_file() else covers(one, other)


def lines_overlap(first: int, last: int, other_first: int, other_last: int) -> bool:
    """Two ranges have a line in common; one from 0 is the whole file."""
    return not first or not other_first or (first <= other_last and other_first <= last)


# --- straight helpers -------------------------------------------------------------------------
def _paths_overlap(a: Claim, b: Claim) -> bool:
    one, other = Pattern.parse(a.pattern), Pattern.parse(b.pattern)
    if a.is_file():
        return one.literal == other.literal if b.is_file() else other.matches(one.literal)
    return one.matches(other.literal) if b.is_file() else overlap(one, other)


def _line(text: str, digits: str) -> int:
    if len(digits) > len(str(LINE_MAX)) or int(digits) > LINE_MAX:
        raise BadClaim(f"{quoted(text)} has a line above {LINE_MAX}: no file has so many")
    return int(digits)
