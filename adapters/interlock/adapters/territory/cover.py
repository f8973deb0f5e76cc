"""Who may change a path now: leases in force, asked path by path. Pure.

    no lease of one's own on it ─▶ no_lease      lines outside of one's own range ─▶ outside_range
    another's, and the two are not both shared, nor is one split from the other ─▶ held_by_other

What is next to a range, spans.py says.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from interlock.adapters.territory.lease_index import LeaseIndex
from interlock.adapters.territory.spans import Span, covered, joined, touches
from interlock.protocol.claim import BadClaim, Claim, claim_text, parse_claim
from interlock.protocol.glob import BadPattern, Pattern


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
    """Who has which paths. Args: held: every lease in force."""

    def __init__(self, held: Iterable[Held]) -> None:
        self._index = LeaseIndex(held)

    def trouble(self, path: str, own: Collection[str], lines: Lines, moved: Moved = as_taken) -> Trouble | None:
        """What is wrong with a change of that path, if anything.

        Args:
            path: relative to the repository. own: names of the agents that it is a change of.
            lines: asked only where somebody's range decides. moved: where a range lies in the text that was changed.
        """
        on = self._index.on(path)
        mine = [each for each in on if each.held.agent in own]
        covering = [each.held for each in mine if not each.claim.first]
        ranges = [each for each in mine if each.claim.first] if not covering else []
        covering += [each.held for each in ranges]
        for held, claim in on:
            if held.agent in own or any(self._is_at_peace(held, each) for each in covering):
                continue
            if not claim.first or _touched(lines(), moved(claim, False)):
                return _of(path, "held_by_other", claim, held)
        if not mine:
            return Trouble(path, "no_lease")
        if ranges and not _inside(lines(), [moved(each.claim, True) for each in ranges]):
            return _of(path, "outside_range", ranges[0].claim, ranges[0].held)
        return None

    def _is_at_peace(self, one: Held, other: Held) -> bool:
        """Both are shared, or one was split from the other."""
        return (one.shared and other.shared) or self._index.related(one.lease, other.lease)


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
    """Something inside of those lines was changed."""
    return spans is None or any(touches(each, held) for each in spans)


def _inside(spans: Sequence[Span] | None, ranges: Sequence[Span]) -> bool:
    """Each was changed within these ranges, taken together."""
    together = joined(ranges)
    return spans is not None and all(covered(each, together) for each in spans)
