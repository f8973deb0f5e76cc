"""What `bus export` writes and `bus verify` reads: who held which leases when, and who made which commit.

```text
{"interlock_export": 1, "territory", "at", "complete_from_ms",
 "leases": [{"lease", "agent", "claims", "shared", "parent", "from_ms", "to_ms", "how"}],   one entry an owner
 "commits": {sha: {"agent", "at_ms"}}}
```

A file comes from somewhere else: each value is looked at, and one that is wrong makes the whole file wrong.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.adapters.territory.problem import Problem
from interlock.protocol.claim import Claim
from interlock.protocol.envelope import read_wire_time
from interlock.protocol.glob import BadPattern, Pattern
from interlock.protocol.limits import LINE_MAX
from interlock.protocol.names import why_not_agent
from interlock.protocol.visible import one_sentence

VERSION = 1
EXPORT_BYTES_MAX = 256 * 1024 * 1024  # some million leases; a larger one is cut with --since
HOW = frozenset({"", "released", "expired", "gone", "revoked", "transferred"})
AT_MS_MAX = 253_402_300_799_999  # the end of the year 9999: what is later cannot be written as a time
_HEX = frozenset("0123456789abcdef")


class Held(msgspec.Struct, frozen=True):
    """A lease while one owner had it.

    Args:
        lease: its id. agent: the owner. claims: what it covers. shared: others may hold the same, shared too.
        parent: the lease that it was split from, "" for none.
        from_ms, to_ms: since when, and until when it was in force (wall clock); None: it still is.
        how: it ended: released, expired, gone, revoked or transferred; "" while it is in force.
    """

    lease: str
    agent: str
    claims: tuple[Claim, ...]
    from_ms: int
    shared: bool = False
    parent: str = ""
    to_ms: int | None = None
    how: str = ""


class Made(msgspec.Struct, frozen=True):
    """A commit on record. Args: agent: who made it. at_ms: when (wall clock)."""

    agent: str
    at_ms: int


class History(msgspec.Struct, frozen=True):
    """All that is known.

    Args:
        at: when that was, as a wire time; later it says nothing.
        complete_from_ms: what ended before is not known; 0: known from the beginning.
    """

    interlock_export: int
    territory: str
    at: str
    complete_from_ms: int
    leases: tuple[Held, ...]
    commits: dict[str, Made]


def read_history(data: bytes, source: str) -> History:
    """The history that an exported file is.

    Args:
        data: its content. source: what it is called in a sentence.

    Raises:
        Problem: 65, and what is wrong with it.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise _wrong(source, "it is not JSON") from None
    return check_history(found, source)


def check_history(document: Any, source: str) -> History:
    """The same, of a document that has been parsed. Raises Problem 65."""
    version = document.get("interlock_export") if isinstance(document, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _wrong(source, "it has no interlock_export")
    if version > VERSION:
        raise Problem(65, f"{one_sentence(source)} was written by a newer bus: verify with that one")
    try:
        found = msgspec.convert(document, History)
    except msgspec.ValidationError as error:
        raise _wrong(source, str(error)) from None
    why = _why_not(found)
    if why:
        raise _wrong(source, why)
    return found


def cut(document: Mapping[str, Any], since_ms: int) -> dict[str, Any]:
    """The document without what ended before a moment. Args: document: one that was checked. since_ms: wall clock."""
    return {
        **document,
        "complete_from_ms": max(document["complete_from_ms"], since_ms),
        "leases": [each for each in document["leases"] if each.get("to_ms") is None or each["to_ms"] >= since_ms],
        "commits": {sha: each for sha, each in document["commits"].items() if each["at_ms"] >= since_ms},
    }


def _why_not(history: History) -> str:
    """What is wrong with a value, "" for nothing."""
    if not 0 < read_wire_time(history.at) <= AT_MS_MAX:
        return f"{history.at!r} is no time"
    if not 0 <= history.complete_from_ms <= AT_MS_MAX:
        return "complete_from_ms is no time"
    for held in history.leases:
        why = _why_not_held(held)
        if why:
            return f"lease {held.lease!r}: {why}"
    for sha, made in history.commits.items():
        if len(sha) not in {40, 64} or not _HEX.issuperset(sha):
            return f"{sha!r} is no commit's id"
        why = why_not_agent(made.agent) or ""
        if why or not 0 <= made.at_ms <= AT_MS_MAX:
            return f"commit {sha}: {why or 'at_ms is no time'}"
    return ""


def _why_not_held(held: Held) -> str:
    if not held.lease or held.parent == held.lease:
        return "it has no id, or is its own parent"
    why = why_not_agent(held.agent)
    if why:
        return why
    if not 0 <= held.from_ms <= (AT_MS_MAX if held.to_ms is None else held.to_ms) <= AT_MS_MAX:
        return "it ends before it begins, or at no time"
    if held.how not in HOW or (held.to_ms is None) is not (held.how == ""):
        return f"how it ended is {held.how!r}"
    for claim in held.claims:
        try:
            literal = Pattern.parse(claim.pattern).literal
        except BadPattern as error:
            return str(error)
        if not (claim.first == claim.last == 0 or 1 <= claim.first <= claim.last <= LINE_MAX):
            return f"{claim.first}-{claim.last} is no range of lines"
        if claim.is_file() and not literal:
            return f"{claim.pattern!r} is not one file, and has lines or a version"
        if claim.blob and (len(claim.blob) not in {40, 64} or not _HEX.issuperset(claim.blob)):
            return f"{claim.blob!r} is no blob's id"
    return "" if held.claims else "it has no claims"


def _wrong(source: str, why: str) -> Problem:
    what, why = one_sentence(source), one_sentence(why)
    return Problem(65, f"{what} is no file of bus export ({why}): write it again with bus export")
