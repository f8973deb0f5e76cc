"""Whose change it was, and whether a lease covered it when it was committed. Pure: facts in, verdicts out.

```text
own lease covers every line            ok
another's exclusive lease is there     held_by_other
own range there, other lines           outside_range
own lease covered it, and has ended    released_early (its owner gave it back or away), else expired_before_commit
before what is known                   unknown
else                                   no_lease; where nobody knows whose commit it is: unknown_agent
```

A commit's date has whole seconds. An own lease counts where it had any moment of that second, another's only where it
had all of it: nobody is charged with what a clock cannot tell (ADR 30).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from interlock.adapters.territory.history import Held, History
from interlock.adapters.territory.lease_index import LeaseIndex, Match
from interlock.adapters.territory.spans import EVERYTHING, WHOLE, Hunk, Span, covered, joined, touches
from interlock.protocol.names import why_not_agent

OK = ""
UNKNOWN = "unknown"
CAUSES = {  # what went wrong, and what to do about it
    "no_lease": "no lease covered it: take one before writing (bus lease acquire PATH, or bus run --lease PATH)",
    "expired_before_commit": "the lease had ended before the commit: renew it, or keep it with bus run --lease",
    "held_by_other": "another agent holds it: wait for its lease, or leave these lines out",
    "outside_range": "the lease covers other lines, or the whole file was changed: take these lines, or the file",
    "released_early": "the lease was given back before the commit: commit first, then release",
    "unknown_agent": "nobody knows who committed: install the hooks, write an Interlock-Agent: trailer, or give --as",
}
_GIVEN_UP = {"released", "transferred"}


class Author(NamedTuple):
    """Whose commit. Args: agent: "" where nobody knows. from_ms, to_ms: when, wall clock; it was between these."""

    agent: str
    from_ms: int
    to_ms: int


class Verdict(NamedTuple):
    """Args: cause: OK, UNKNOWN or one of CAUSES. holder: whose lease is in the way. hunks: what is not covered."""

    cause: str
    holder: str = ""
    hunks: tuple[Hunk, ...] = ()


class Ranges(Protocol):
    """Where the lines of a claim lie in a later version of the file."""

    def at(self, match: Match[Held], blob: str, *, wide: bool) -> Span:
        """The span in that blob. Args: wide: with what its edges may have grown by."""


def author_of(sha: str, at_ms: int, trailer: str, caller: str, history: History) -> Author:
    """Who committed: as it is on record, else as the commit says, else the caller.

    Args:
        sha: of the commit. at_ms: its date. trailer: the agent that it names, "" for none. caller: "" for none.
    """
    made = history.commits.get(sha)
    if made is not None:
        return Author(made.agent, made.at_ms, made.at_ms)
    if trailer:
        agent = "" if why_not_agent(trailer) else trailer
    else:
        agent = caller
    return Author(agent, at_ms, at_ms + 999)


class Judge:
    """Judges changes. Args: index: the leases. ranges: where their lines are. complete_from_ms: as History has it."""

    def __init__(self, index: LeaseIndex[Held], ranges: Ranges, complete_from_ms: int) -> None:
        self._index = index
        self._ranges = ranges
        self._complete_from_ms = complete_from_ms

    def of_commit(self, author: Author, path: str, blob: str, hunks: Sequence[Hunk]) -> Verdict:
        """Judge what a commit changed in one path.

        Args:
            blob: what it changed, for the lines of ranges. hunks: what became of it; WHOLE for the file itself.
        """
        matches = self._index.on(path)
        own = [each for each in matches if each.held.agent == author.agent]
        valid = [each for each in own if _in_force_within(each.held, author)]
        left = self._left(valid, blob, hunks)
        if author.agent and not left:
            return Verdict(OK)
        in_the_way = [
            each for each in matches if each.held.agent != author.agent and _in_force_all_of(each.held, author)
        ]
        holder, taken = self._holder(in_the_way, valid, blob, left)
        if author.agent and holder:
            return Verdict("held_by_other", holder, taken)
        if author.from_ms < self._complete_from_ms:
            return Verdict(UNKNOWN, hunks=left)
        if not author.agent:
            return Verdict("unknown_agent", holder, left)
        if valid:
            return Verdict("outside_range", hunks=left)
        return Verdict(self._ended(own, author, blob, hunks), hunks=left)

    def now(self, agents: Collection[str], path: str, blob: str, hunks: Sequence[Hunk]) -> Verdict:
        """Judge what all commits together change in one path against the leases that others have in force now.

        Args:
            agents: who committed it, and who asks. blob, hunks: from the merge base to head.
        """
        live = [each for each in self._index.on(path) if each.held.to_ms is None]
        own = [each for each in live if each.held.agent in agents]
        others = [each for each in live if each.held.agent not in agents]
        holder, taken = self._holder(others, own, blob, hunks)
        return Verdict("held_by_other", holder, taken) if holder else Verdict(OK)

    def _left(self, matches: Sequence[Match[Held]], blob: str, hunks: Sequence[Hunk]) -> tuple[Hunk, ...]:
        """The hunks that these leases do not cover together."""
        if not matches:
            return tuple(hunks)
        spans = joined(self._span(each, blob, wide=True) for each in matches)
        return tuple(hunk for hunk in hunks if not covered(hunk.old, spans))

    def _holder(
        self, others: Iterable[Match[Held]], own: Sequence[Match[Held]], blob: str, hunks: Sequence[Hunk]
    ) -> tuple[str, tuple[Hunk, ...]]:
        """Who has an exclusive lease inside of which one of these hunks lies, and which hunks; "" for nobody."""
        for each in others:
            if each.held.shared or any(self._index.related(each.held.lease, mine.held.lease) for mine in own):
                continue
            held = self._span(each, blob, wide=False)
            taken = tuple(hunk for hunk in hunks if touches(hunk.old, held))
            if taken:
                return each.held.agent, taken
        return "", ()

    def _ended(self, own: Iterable[Match[Held]], author: Author, blob: str, hunks: Sequence[Hunk]) -> str:
        """The cause, from the last of the own leases that covered all of it and has ended."""
        ended: dict[str, list[Match[Held]]] = {}
        for each in own:
            if each.held.to_ms is not None and each.held.to_ms <= author.from_ms:
                ended.setdefault(each.held.lease, []).append(each)
        covering = [each[0].held for each in ended.values() if not self._left(each, blob, hunks)]
        if not covering:
            return "no_lease"
        last = max(covering, key=lambda held: held.to_ms or 0)
        return "released_early" if last.how in _GIVEN_UP else "expired_before_commit"

    def _span(self, match: Match[Held], blob: str, *, wide: bool) -> Span:
        return self._ranges.at(match, blob, wide=wide) if match.claim.first else EVERYTHING


def whole(hunks: Sequence[Hunk] | None) -> tuple[Hunk, ...]:
    """The hunks of a change; of one that is not known line by line, the whole file."""
    return (WHOLE,) if hunks is None else tuple(hunks)


def _in_force_within(held: Held, author: Author) -> bool:
    """At some moment of those that the commit may have been made at."""
    return held.from_ms <= author.to_ms and (held.to_ms is None or held.to_ms > author.from_ms)


def _in_force_all_of(held: Held, author: Author) -> bool:
    """At each of them."""
    return held.from_ms <= author.from_ms and (held.to_ms is None or held.to_ms > author.to_ms)
