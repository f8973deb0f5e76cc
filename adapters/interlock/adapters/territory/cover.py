"""Who may change a path now: leases in force, asked path by path. Pure.

    no lease of one's own on it ─▶ no_lease      lines outside of one's own range ─▶ outside_range
    another's, and the two are not both shared, nor is one split from the other ─▶ held_by_other

Lines are points between lines: (after, last] are the lines after+1 to last, and (9, 9] is what is inserted behind line
9. Whoever has a range may insert at its edges too; another's range is touched only by what lies inside of it.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from interlock.protocol.claim import BadClaim, Claim, claim_text, parse_claim
from interlock.protocol.glob import BadPattern, Pattern

_WILD = re.compile(r"[*?\[{\\]")


class Span(NamedTuple):
    """Lines after+1 to last, from 1; where both are the same: the point behind that line."""

    after: int
    last: int


class Hunk(NamedTuple):
    """Those lines became these."""

    old: Span
    new: Span


class Held(NamedTuple):
    """A lease in force. Args: left_s: None: it lives by its process. parent: the lease that it was split from."""

    lease: str
    agent: str
    claims: tuple[Claim, ...]
    shared: bool = False
    left_s: int | None = None
    purpose: str = ""
    parent: str = ""
    worktree: str = ""


class Trouble(NamedTuple):
    """A path that was changed and should not have been. Args: lease, holder, left_s, purpose: of whose lease it is."""

    path: str
    cause: str
    lease: str = ""
    holder: str = ""
    left_s: int | None = None
    purpose: str = ""
    claim: str = ""


# The lines of a path that were changed, where a claim's lines lie now, and for whom: None: the whole file.
Lines = Callable[[], Sequence[Span] | None]
Moved = Callable[[Claim, bool], Span]


def as_taken(claim: Claim, own: bool) -> Span:
    """A claim's lines where nothing is known of what has changed since. The simplest `Moved`."""
    del own
    return Span(claim.first - 1, claim.last)


def held_of(leases: Iterable[Mapping[str, Any]]) -> list[Held]:
    """The leases of a map document that are in force. What a newer bus calls a claim, and we cannot read, is left out.

    Args:
        leases: as the document has them.
    """
    return [
        Held(
            str(each["lease"]), str(each["agent"]), _claims(each), bool(each.get("shared")), each.get("left_s"),
            str(each.get("purpose") or ""), str(each.get("parent") or ""), str(each.get("worktree") or ""),
        )
        for each in leases
        if each.get("state", "held") != "waiting"
    ]  # fmt: skip


class Cover:
    """Leases by path: looked for under the part of each pattern before its first wildcard. Args: held: all of them."""

    def __init__(self, held: Iterable[Held]) -> None:
        self._below: dict[str, list[tuple[Pattern, Claim, Held]]] = {}
        self._parents: dict[str, str] = {}
        for each in held:
            self._parents[each.lease] = each.parent
            for claim in each.claims:
                pattern = Pattern.parse(claim.pattern)
                self._below.setdefault(_plain_part(pattern), []).append((pattern, claim, each))

    def on(self, path: str) -> list[tuple[Claim, Held]]:
        """The leases on a path, by which claim of each."""
        path = unicodedata.normalize("NFC", path)
        names = path.split("/")
        return [
            (claim, held)
            for depth in range(len(names) + 1)
            for pattern, claim, held in self._below.get("/".join(names[:depth]), ())
            if (pattern.literal == path if claim.is_file() else pattern.matches(path))
        ]

    def trouble(self, path: str, own: Collection[str], lines: Lines, moved: Moved = as_taken) -> Trouble | None:
        """What is wrong with a change of that path, if anything.

        Args:
            path: relative to the repository. own: names of the agents that it is a change of.
            lines: asked only where somebody's range decides. moved: where a range lies in the text that was changed.
        """
        on = self.on(path)
        mine = [(claim, held) for claim, held in on if held.agent in own]
        covering = [held for claim, held in mine if not claim.first]
        ranges = [(claim, held) for claim, held in mine if claim.first] if not covering else []
        covering += [held for _, held in ranges]
        for claim, held in on:
            if held.agent in own or any(self._is_at_peace(held, each) for each in covering):
                continue
            if not claim.first or _touched(lines(), moved(claim, False)):
                return _of(path, "held_by_other", claim, held)
        if not mine:
            return Trouble(path, "no_lease")
        if ranges and not _inside(lines(), [moved(claim, True) for claim, _ in ranges]):
            return _of(path, "outside_range", *ranges[0])
        return None

    def _is_at_peace(self, one: Held, other: Held) -> bool:
        """Both are shared, or one was split from the other."""
        return (one.shared and other.shared) or one.lease in self._above(other) or other.lease in self._above(one)

    def _above(self, held: Held) -> set[str]:
        found: set[str] = set()
        above = held.parent
        while above and above not in found:
            found.add(above)
            above = self._parents.get(above, "")
        return found


def moved_by(span: Span, hunks: Sequence[Hunk], *, wide: bool) -> Span:
    """Where a span of the old text lies in the new one.

    Args:
        hunks: from the old to the new text, in order.
        wide: what was inserted at its edges, and what became of a hunk that is partly inside, belongs to it.
    """
    after = _edge(span.after, hunks, low=wide)
    return Span(after, max(after, _edge(span.last, hunks, low=not wide)))


def escaped(path: str) -> str:
    """The claim that means that path alone, whatever characters are in its name."""
    return claim_text(Claim(re.sub(r"([*?\[\]{},\\])", r"\\\1", path)))


# --- straight helpers ----------------------------------------------------------------------------
def _claims(lease: Mapping[str, Any]) -> tuple[Claim, ...]:
    """Its claims, with the content that ranges were taken on, where the document has that."""
    found = []
    ranges = lease.get("ranges") or [{}] * len(lease["claims"])
    for text, more in zip(lease["claims"], ranges, strict=False):
        try:
            claim = parse_claim(str(text))
            Pattern.parse(claim.pattern)
        except (BadClaim, BadPattern):
            continue
        found.append(Claim(claim.pattern, claim.first, claim.last, str(more.get("blob") or "")))
    return tuple(found)


def _of(path: str, cause: str, claim: Claim, held: Held) -> Trouble:
    return Trouble(path, cause, held.lease, held.agent, held.left_s, held.purpose, claim_text(claim))


def _touched(spans: Sequence[Span] | None, held: Span) -> bool:
    """Something inside of those lines was changed; an insertion at their edge is not."""
    if spans is None:
        return True
    return any(
        held.after < each.after < held.last
        if each.after == each.last
        else max(each.after, held.after) < min(each.last, held.last)
        for each in spans
    )


def _inside(spans: Sequence[Span] | None, ranges: Sequence[Span]) -> bool:
    """Each was changed within these ranges, taken together."""
    if spans is None:
        return False
    joined: list[Span] = []
    for each in sorted(ranges):
        if joined and each.after <= joined[-1].last:
            joined[-1] = Span(joined[-1].after, max(joined[-1].last, each.last))
        else:
            joined.append(each)
    return all(any(one.after <= span.after and span.last <= one.last for one in joined) for span in spans)


def _edge(point: int, hunks: Sequence[Hunk], *, low: bool) -> int:
    """The point behind that line in the new text. Args: low: of those that it could be the first, else the last."""
    shift = 0
    for hunk in hunks:
        if hunk.old.after == hunk.old.last == point or hunk.old.after < point < hunk.old.last:
            return hunk.new.after if low else hunk.new.last
        if hunk.old.last > point:
            break
        shift = hunk.new.last - hunk.old.last
    return point + shift


def _plain_part(pattern: Pattern) -> str:
    """The names that every path of a pattern begins with."""
    if pattern.literal:
        return pattern.literal
    wild = _WILD.search(pattern.text)
    end = len(pattern.text) if wild is None else wild.start()
    return pattern.text[: max(pattern.text.rfind("/", 0, end), 0)]
