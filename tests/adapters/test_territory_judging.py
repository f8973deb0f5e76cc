"""Verdicts as tables: facts in, causes out; spans and what a diff makes of them; which files are no history."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.territory_repository import MINUTE, T0, document, lease, ranged

from interlock.adapters.territory.history import Held, History, check_history, cut, read_history
from interlock.adapters.territory.judging import CAUSES, Judge, Verdict, author_of
from interlock.adapters.territory.lease_index import LeaseIndex, Match
from interlock.adapters.territory.problem import Problem
from interlock.adapters.territory.spans import (
    EVERYTHING,
    WHOLE,
    Hunk,
    Span,
    covered,
    in_each,
    joined,
    line_pairs,
    moved,
    touches,
)
from interlock.protocol.glob import Pattern


class AsTheyAre:
    """Lines that nothing has moved."""

    def at(self, match: Match[Held], blob: str, *, wide: bool) -> Span:
        del blob, wide
        return Span(match.claim.first - 1, match.claim.last)


def change(first: int, last: int) -> Hunk:
    """Lines changed in their place; first = last + 1: an insertion before `first`."""
    return Hunk(Span(first - 1, last), Span(first - 1, last))


def history(*leases: dict[str, Any], **more: Any) -> History:
    return check_history(document(*leases, **more), "a test")


def judge(
    known: History, agent: str, hunks: Sequence[Hunk] = (WHOLE,), *, minute: float = 10, path: str = "src/a"
) -> Verdict:
    author = author_of("0" * 40, T0 + int(minute * MINUTE), agent, "", known)
    return Judge(LeaseIndex(known.leases), AsTheyAre(), known.complete_from_ms).of_commit(author, path, "", hunks)


def held(agent: str, *claims: Any, begun: float = 5, ended: float | None = 20, **more: Any) -> dict[str, Any]:
    return lease(agent, *claims, begun=begun, ended=ended, **more)


LINES = (change(12, 14),)
PARENT = held("a", "src/**", lease="P")
TABLE: list[tuple[str, str, list[dict[str, Any]], Sequence[Hunk], float, tuple[str, str]]] = [
    ("own", "a", [held("a", "src/**")], [WHOLE], 10, ("", "")),
    ("own, still in force", "a", [held("a", "src/a", ended=None)], [WHOLE], 10, ("", "")),
    ("own, shared", "a", [held("a", "src/a", shared=True), held("b", "src/*", shared=True)], [WHOLE], 10, ("", "")),
    ("another path", "a", [held("a", "src/ab", "sr", "src/a/b/c/*")], [WHOLE], 10, ("no_lease", "")),
    ("other's shared alone", "a", [held("b", "src/*", shared=True)], [WHOLE], 10, ("no_lease", "")),
    ("other's", "a", [held("b", "src/*")], [WHOLE], 10, ("held_by_other", "b")),
    ("other's, over own that ended", "a", [held("a", "src/a", ended=9), held("b", "src/a", begun=9.5)], [WHOLE], 10,
     ("held_by_other", "b")),
    ("too late", "a", [held("a", "src/a", begun=11)], [WHOLE], 10, ("no_lease", "")),
    ("expired", "a", [held("a", "src/a", ended=9)], [WHOLE], 10, ("expired_before_commit", "")),
    ("its process gone", "a", [held("a", "src/a", ended=9, how="gone")], [WHOLE], 10, ("expired_before_commit", "")),
    ("released", "a", [held("a", "src/a", ended=9, how="released")], [WHOLE], 10, ("released_early", "")),
    ("given away", "a", [held("a", "src/a", ended=9, how="transferred")], [WHOLE], 10, ("released_early", "")),
    ("the last end counts", "a", [held("a", "src/a", ended=9, how="released"), held("a", "src/*", ended=8)], [WHOLE],
     10,
     ("released_early", "")),
    ("ended, and never covered it", "a", [held("a", ranged("src/a", 1, 5), ended=9)], LINES, 10, ("no_lease", "")),
    ("within the range", "a", [held("a", ranged("src/a", 12, 14))], LINES, 10, ("", "")),
    ("two ranges together", "a", [held("a", ranged("src/a", 1, 12)), held("a", ranged("src/a", 13, 20))], LINES, 10,
     ("", "")),
    ("two ranges with a gap", "a", [held("a", ranged("src/a", 1, 12), ranged("src/a", 14, 20))], LINES, 10,
     ("outside_range", "")),
    ("the file itself, with a range", "a", [held("a", ranged("src/a", 1, 999))], [WHOLE], 10, ("outside_range", "")),
    ("before its first line", "a", [held("a", ranged("src/a", 12, 14))], [change(12, 11)], 10, ("", "")),
    ("behind its last line", "a", [held("a", ranged("src/a", 12, 14))], [change(15, 14)], 10, ("", "")),
    ("one line further", "a", [held("a", ranged("src/a", 12, 14))], [change(16, 15)], 10, ("outside_range", "")),
    ("between two ranges", "a", [held("a", ranged("src/a", 1, 11)), held("b", ranged("src/a", 12, 14))], [change(12,
     11)],
     10, ("", "")),
    ("at the edge of other's", "a", [held("b", ranged("src/a", 12, 14))], [change(12, 11)], 10, ("no_lease", "")),
    ("inside of other's", "a", [held("b", ranged("src/a", 12, 14))], [change(13, 12)], 10, ("held_by_other", "b")),
    ("own range, other's lines too", "a", [held("a", ranged("src/a", 1, 12)), held("b", ranged("src/a", 13, 20))],
     LINES, 10,
     ("held_by_other", "b")),
    ("parent, where a child holds", "a", [PARENT, held("b", "src/a", parent="P")], [WHOLE], 10, ("", "")),
    ("child, within its part", "b", [PARENT, held("b", "src/a", parent="P")], [WHOLE], 10, ("", "")),
    ("child, outside of its part", "b", [PARENT, held("b", "src/b", parent="P")], [WHOLE], 10, ("held_by_other", "a")),
    ("child, other lines than its own", "b", [PARENT, held("b", ranged("src/a", 1, 5), parent="P")], LINES, 10,
     ("outside_range", "")),
    ("a child of a child is related", "c", [PARENT, held("b", "src/a", parent="P", lease="C"),
     held("c", ranged("src/a", 1, 5), parent="C")], LINES, 10, ("outside_range", "")),
    ("a sibling is not", "c", [PARENT, held("b", "src/a", parent="P"), held("c", ranged("src/a", 1, 5), parent="P")],
     LINES,
     10, ("held_by_other", "b")),
    ("parents in a circle", "a", [held("b", "src/a", lease="X", parent="Y"), held("a", ranged("src/a", 1, 2), lease="Y",
     parent="X")], LINES, 10, ("outside_range", "")),
    ("nobody", "", [], [WHOLE], 10, ("unknown_agent", "")),
    ("nobody, where somebody holds", "", [held("b", "src/a")], [WHOLE], 10, ("unknown_agent", "b")),
    ("no agent's name", "all", [], [WHOLE], 10, ("unknown_agent", "")),
    ("taken within the commit's second", "a", [held("a", "src/a", begun=10 + 0.9 / 60)], [WHOLE], 10, ("", "")),
    ("ended within the commit's second", "a", [held("a", "src/a", ended=10 + 0.1 / 60)], [WHOLE], 10, ("", "")),
    ("taken in the second after", "a", [held("a", "src/a", begun=10 + 1.1 / 60)], [WHOLE], 10, ("no_lease", "")),
    ("other's ended within that second", "a", [held("b", "src/a", ended=10 + 0.5 / 60)], [WHOLE], 10, ("no_lease", "")),
    ("other's had only a part of that second", "a", [held("b", "src/a", begun=10 + 0.5 / 60)], [WHOLE], 10,
     ("no_lease", "")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "leases", "hunks", "minute", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_a_verdict(
    agent: str, leases: list[dict[str, Any]], hunks: Sequence[Hunk], minute: float, expected: tuple[str, str]
) -> None:
    verdict = judge(history(*leases), agent or "--", hunks, minute=minute)
    assert (verdict.cause, verdict.holder) == expected
    assert verdict.cause in {"", *CAUSES}


@pytest.mark.parametrize(
    ("agent", "leases", "expected"),
    [
        ("a", [], "unknown"),
        ("--", [], "unknown"),  # that of a record which is no longer kept
        ("a", [held("a", "src/a", ended=9, how="released")], "unknown"),
        ("a", [held("a", ranged("src/a", 1, 2))], "unknown"),
        ("a", [held("a", "src/a")], ""),  # known all the same: it was still in force later
        ("a", [held("b", "src/a")], "held_by_other"),
    ],
)
def test_before_what_is_known_only_what_is_known_counts(
    agent: str, leases: list[dict[str, Any]], expected: str
) -> None:
    known = history(*leases, complete_from_ms=T0 + 11 * MINUTE)
    assert judge(known, agent).cause == expected


def test_who_committed_is_on_record_else_in_the_commit_else_the_caller() -> None:
    sha = "a" * 40
    known = history(commits={sha: ("recorded", T0 + 5)})
    assert author_of(sha, T0, "trailer", "caller", known) == ("recorded", T0 + 5, T0 + 5)
    assert author_of("b" * 40, T0, "trailer", "caller", known) == ("trailer", T0, T0 + 999)
    assert author_of("b" * 40, T0, "", "caller", known) == ("caller", T0, T0 + 999)
    assert author_of("b" * 40, T0, "no name!", "caller", known).agent == "", (
        "a wrong trailer is not somebody else's commit"
    )
    assert author_of("b" * 40, T0, "", "", known).agent == ""


@pytest.mark.parametrize(
    ("leases", "hunks", "expected"),
    [
        ([held("b", "src/a", ended=None)], [WHOLE], "b"),
        ([held("b", "src/a")], [WHOLE], ""),
        ([held("b", "src/a", ended=None, shared=True)], [WHOLE], ""),
        ([held("a", "src/a", ended=None)], [WHOLE], ""),
        ([held("b", ranged("src/a", 1, 11), ended=None)], LINES, ""),
        ([held("b", ranged("src/a", 14, 20), ended=None)], LINES, "b"),
        ([held("a", "src/**", ended=None, lease="P"), held("b", "src/a", ended=None, parent="P")], [WHOLE], ""),
    ],
)
def test_what_is_to_land_is_judged_by_what_others_hold_now(
    leases: list[dict[str, Any]], hunks: Sequence[Hunk], expected: str
) -> None:
    known = history(*leases)
    verdict = Judge(LeaseIndex(known.leases), AsTheyAre(), 0).now({"a", "c"}, "src/a", "", hunks)
    assert verdict.holder == expected
    assert verdict.cause == ("held_by_other" if expected else "")


# --- spans ------------------------------------------------------------------------------------
def test_spans_join_cover_and_touch() -> None:
    assert joined([Span(5, 9), Span(0, 3), Span(3, 5), Span(20, 21)]) == [Span(0, 9), Span(20, 21)]
    assert covered(Span(2, 8), joined([Span(0, 3), Span(3, 9)]))
    assert not covered(Span(2, 8), joined([Span(0, 3), Span(4, 9)]))
    assert not covered(EVERYTHING, [Span(0, 1 << 40)])
    assert touches(EVERYTHING, Span(4, 5))
    assert not touches(EVERYTHING, Span(4, 4)), "a range of which no line is left is in nobody's way"
    assert line_pairs([Span(0, 0), Span(4, 7), Span(9, 9)]) == [(1, 1), (5, 7), (9, 9)]
    assert line_pairs([EVERYTHING, Span(1, 2)]) == []


EDITS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 3)), max_size=6)


def edited(edits: list[tuple[int, int, int]]) -> tuple[list[Hunk], dict[int, int], int]:
    """Hunks of a text of which lines are kept, taken out, put in by turns; where each kept one went; the old length."""
    hunks, kept, old, new = list[Hunk](), dict[int, int](), 0, 0
    for keep, out, put in edits:
        for _ in range(keep):
            old, new = old + 1, new + 1
            kept[old] = new
        if out or put:
            hunks.append(Hunk(Span(old, old + out), Span(new, new + put)))
        old, new = old + out, new + put
    return hunks, kept, old


@settings(max_examples=300)
@given(EDITS, st.data())
def test_a_span_that_is_followed_has_exactly_its_own_lines(
    edits: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    hunks, kept, length = edited(edits)
    first = data.draw(st.integers(1, max(1, length)))
    last = data.draw(st.integers(first, max(first, length)))
    span = Span(first - 1, last)
    narrow, wide = moved(span, hunks, wide=False), moved(span, hunks, wide=True)
    for old, new in kept.items():
        for each in (narrow, wide):
            assert (each.after < new <= each.last) is (first <= old <= last), (span, hunks, each)
    assert narrow.after == narrow.last or (wide.after <= narrow.after and narrow.last <= wide.last)
    for hunk in hunks:
        if hunk.old.after >= span.after and hunk.old.last <= span.last:  # within it, or put in right beside it
            assert covered(hunk.new, [wide])


def test_what_a_merge_adds_is_what_is_new_to_every_parent() -> None:
    mine, theirs, own = change(1, 2), change(9, 9), change(5, 5)
    assert in_each([[theirs], [mine]]) == ()
    assert in_each([[theirs, own], [mine, own]]) == (own,)
    assert in_each([[mine, Hunk(Span(4, 6), Span(4, 4))], [Hunk(Span(3, 6), Span(4, 4))]]) == (
        Hunk(Span(4, 6), Span(4, 4)),
    )
    assert in_each([[own], [own], []]) == ()


# --- which leases are on a path ---------------------------------------------------------------
PATTERNS = [
    "src/**",
    "src",
    "src/a",
    "src/*/b",
    "**/b",
    "{src,doc}/a",
    "s[rx]c/*",
    "src/a/",
    "\\[x\\]/y",
    "*",
    "a\\*b",
    "é/**",
]
PATHS = ["src", "src/a", "src/a/b", "src/c/b", "b", "doc/a", "sxc/q", "[x]/y", "a*b", "axb", "e\u0301/x", "srcx/a"]


def test_the_index_finds_what_looking_at_every_pattern_finds() -> None:
    known = history(*(held("a", each, lease=each) for each in PATTERNS))
    index = LeaseIndex(known.leases)
    for path in PATHS:
        composed = path.replace("e\u0301", "é")
        expected = {each for each in PATTERNS if Pattern.parse(each).matches(composed)}
        assert {match.held.lease for match in index.on(path)} == expected
        assert index.on(path) is index.on(path)
    assert index.on("src/a/b"), "the table above finds something"


def test_lines_are_of_one_file_and_of_nothing_below_its_name() -> None:
    index = LeaseIndex(history(held("a", ranged("src/a", 1, 2))).leases)
    assert [bool(index.on(path)) for path in ("src/a", "src/a/b", "src")] == [True, False, False]


# --- the file ---------------------------------------------------------------------------------
def test_a_history_is_read_as_it_was_written() -> None:
    given = document(held("a", ranged("f", 1, 2, "c" * 40), "no-utf8-\udcff"), commits={"b" * 40: ("a", 5)})
    read = read_history(json.dumps(given).encode(), "f")
    assert msgspec.to_builtins(read)["commits"] == given["commits"]
    assert read.leases[0].claims[1].pattern == "no-utf8-\udcff"
    assert read_history(json.dumps({**given, "later": 1}).encode(), "f") == read, (
        "what a newer one says besides is no fault"
    )
    shortened = cut(given, T0 + 30 * MINUTE)
    assert (shortened["leases"], shortened["commits"], shortened["complete_from_ms"]) == ([], {}, T0 + 30 * MINUTE)
    assert cut(document(complete_from_ms=9), 5)["complete_from_ms"] == 9


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(JSON, st.integers(0, 40))
def test_a_file_with_any_value_put_anywhere_is_read_or_refused(value: Any, where: int) -> None:
    """Whatever it is, it ends in a history or in one sentence; and a history can be judged by."""
    whole = document(held("a", ranged("src/a", 1, 2, "c" * 40)), commits={"b" * 40: ("a", 5)})
    at = [(each, key) for each in _inside(whole) for key in (each if isinstance(each, dict) else range(len(each)))]
    holder, key = at[where % len(at)]
    holder[key] = value
    known = read_or_refuse(json.dumps(whole).encode())
    if isinstance(known, Problem):
        assert (known.exit_code, str(known).isprintable()) == (65, True)
    else:
        assert judge(known, "a", LINES).cause in {"", "unknown", *CAUSES}


def read_or_refuse(data: bytes) -> History | Problem:
    try:
        return read_history(data, "f")
    except Problem as problem:
        return problem


def _inside(value: Any) -> list[Any]:
    """Every container in it, itself first."""
    if not isinstance(value, dict | list):
        return []
    return [value, *(each for part in (value.values() if isinstance(value, dict) else value) for each in _inside(part))]


def spoilt(**changes: Any) -> bytes:
    """A history of one lease, with some of that lease's values changed."""
    return json.dumps(document({**held("a", ranged("f", 1, 2)), **changes})).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", "it has no interlock_export"),
        (b'{"interlock_export": true}', "it has no interlock_export"),
        (b'{"interlock_export": 2}', "was written by a newer bus"),
        (b'{"interlock_export": 1}', "missing required field `territory`"),
        (json.dumps({**document(), "at": "today"}).encode(), "'today' is no time"),
        (json.dumps({**document(), "complete_from_ms": -1}).encode(), "complete_from_ms is no time"),
        (json.dumps({**document(), "complete_from_ms": 10**18}).encode(), "complete_from_ms is no time"),
        (json.dumps({**document(), "leases": {}}).encode(), "Expected `array`"),
        (json.dumps(document(commits={"main": ("a", 1)})).encode(), "'main' is no commit's id"),
        (json.dumps(document(commits={"a" * 40: ("all", 1)})).encode(), "'all' is reserved"),
        (json.dumps(document(commits={"a" * 40: ("a", -1)})).encode(), "at_ms is no time"),
        (spoilt(agent="\x1b[2J"), "is no agent name"),
        (spoilt(agent=None), "Expected `str`"),
        (spoilt(lease=""), "it has no id"),
        (spoilt(parent="a/f@5"), "is its own parent"),
        (spoilt(to_ms=T0), "it ends before it begins"),
        (spoilt(from_ms=10**18, to_ms=10**18), "or at no time"),
        (spoilt(to_ms=None), "how it ended is 'expired'"),
        (spoilt(how="lost"), "how it ended is 'lost'"),
        (spoilt(from_ms=1.5), "Expected `int`"),
        (spoilt(claims=[]), "it has no claims"),
        (spoilt(claims=[{"pattern": ""}]), "the pattern is empty"),
        (spoilt(claims=[ranged("f", 5, 2)]), "5-2 is no range of lines"),
        (spoilt(claims=[ranged("f", 0, 2)]), "0-2 is no range of lines"),
        (spoilt(claims=[ranged("f", 1, 10**12)]), "is no range of lines"),
        (spoilt(claims=[ranged("*", 1, 2)]), "is not one file"),
        (spoilt(claims=[ranged("f", 1, 2, "HEAD")]), "'HEAD' is no blob's id"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_one_sentence(data: bytes, why: str) -> None:
    with pytest.raises(Problem) as wrong:
        read_history(data, "leases\n.json")
    assert wrong.value.exit_code == 65
    assert why in str(wrong.value)
    assert str(wrong.value).isprintable()
    assert "leases\\n.json" in str(wrong.value)
