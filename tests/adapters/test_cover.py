"""Who may change a path: a table of leases and changes; and where a range of lines lies after other changes."""

from collections.abc import Sequence
from typing import Any

import pytest

from interlock.adapters.territory.cover import Cover, Held, escaped, held_of
from interlock.adapters.territory.spans import Hunk, Span, moved
from interlock.protocol.claim import Claim, parse_claim
from interlock.protocol.glob import Pattern


def lease(agent: str, *claims: str, id_: str = "", shared: bool = False, parent: str = "") -> Held:
    return Held(id_ or f"{agent}{len(claims)}", agent, tuple(map(parse_claim, claims)), shared, parent=parent)


A, B = lease("a", "src/**", "README.md:10-40"), lease("b", "docs", "README.md:50-60")
WHOLE = None


@pytest.mark.parametrize(
    ("held", "path", "lines", "cause"),
    [
        ([], "x", WHOLE, "no_lease"),
        ([A], "src/x/y.py", WHOLE, ""),
        ([A], "src2/y.py", WHOLE, "no_lease"),
        ([B], "docs/y.md", WHOLE, "held_by_other"),
        ([B], "docs", WHOLE, "held_by_other"),
        ([A, B], "README.md", [Span(9, 40)], ""),
        ([A, B], "README.md", [Span(9, 9), Span(40, 40)], ""),  # inserted at the edges
        ([A, B], "README.md", [Span(8, 9)], "outside_range"),
        ([A, B], "README.md", [Span(40, 41)], "outside_range"),
        ([A, B], "README.md", [Span(49, 49)], "outside_range"),  # at the edge of another's
        ([A, B], "README.md", [Span(50, 50)], "held_by_other"),  # inside of it
        ([A, B], "README.md", [Span(12, 13), Span(59, 70)], "held_by_other"),
        ([A, B], "README.md", WHOLE, "held_by_other"),
        ([A], "README.md", WHOLE, "outside_range"),
        ([A], "README.md/below", WHOLE, "no_lease"),
        ([lease("a", "f:1-5"), lease("a", "f:6-9")], "f", [Span(2, 8)], ""),  # two ranges that meet
        ([lease("a", "f:1-5", "f:7-9")], "f", [Span(2, 8)], "outside_range"),
        ([lease("a", "f", shared=True), lease("b", "f", shared=True)], "f", WHOLE, ""),
        ([lease("a", "f", shared=True), lease("b", "f")], "f", WHOLE, "held_by_other"),
        ([lease("b", "f", shared=True)], "f", WHOLE, "held_by_other"),
        ([lease("b", "src", id_="P"), lease("a", "src/x", id_="C", parent="P")], "src/x/1", WHOLE, ""),
        ([lease("b", "src", id_="P"), lease("a", "src/x", id_="C", parent="P")], "src/y", WHOLE, "held_by_other"),
        ([lease("b", "f", id_="P", parent="C"), lease("a", "f", id_="C", parent="P")], "f", WHOLE, ""),  # a circle ends
        ([lease("a", "caf\u00e9/**")], "cafe\u0301/x", WHOLE, ""),
        ([lease("a", "**/*.py")], "deep/er/x.py", WHOLE, ""),
        ([lease("a", "{src,lib}/**")], "lib/x", WHOLE, ""),
        ([lease("a", r"a\*b")], "a*b", WHOLE, ""),
    ],
)
def test_what_is_wrong_with_a_change(held: list[Held], path: str, lines: Sequence[Span] | None, cause: str) -> None:
    trouble = Cover(held).trouble(path, {"a"}, lambda: lines)
    assert (trouble.cause if trouble else "") == cause
    if trouble and cause == "held_by_other":
        assert trouble.holder == "b"


def test_lines_are_asked_for_only_where_a_range_decides() -> None:
    def never() -> None:
        raise AssertionError

    cover = Cover([A, B])
    assert cover.trouble("src/x", {"a"}, never) is None
    assert cover.trouble("other", {"a"}, never)
    assert cover.trouble("docs/x", {"a"}, never)


@pytest.mark.parametrize(
    ("span", "hunks", "narrow", "wide"),
    [
        (Span(9, 40), [], Span(9, 40), Span(9, 40)),
        (Span(9, 40), [Hunk(Span(2, 3), Span(2, 7))], Span(13, 44), Span(13, 44)),  # grown above it
        (Span(9, 40), [Hunk(Span(20, 21), Span(20, 25))], Span(9, 44), Span(9, 44)),  # grown within
        (Span(9, 40), [Hunk(Span(50, 60), Span(50, 50))], Span(9, 40), Span(9, 40)),  # below it
        (Span(9, 40), [Hunk(Span(9, 9), Span(9, 12))], Span(12, 43), Span(9, 43)),  # inserted at its upper edge
        (Span(9, 40), [Hunk(Span(40, 40), Span(40, 42))], Span(9, 40), Span(9, 42)),  # and at its lower one
        (Span(9, 40), [Hunk(Span(5, 12), Span(5, 6))], Span(6, 34), Span(5, 34)),  # partly inside
        (Span(9, 12), [Hunk(Span(9, 12), Span(9, 9))], Span(9, 9), Span(9, 9)),  # all of it deleted
    ],
)
def test_where_a_range_lies_after_other_changes(span: Span, hunks: list[Hunk], narrow: Span, wide: Span) -> None:
    assert moved(span, hunks, wide=False) == narrow
    assert moved(span, hunks, wide=True) == wide


@pytest.mark.parametrize("path", ["a b", "a*?[x]{c,d}", "back\\slash", "notes:7", "é\n", "a:1-2:3", "x]", "a,b"])
def test_a_path_can_be_claimed_whatever_is_in_its_name(path: str) -> None:
    claim = parse_claim(escaped(path))
    assert (Pattern.parse(claim.pattern).literal, claim.first) == (path, 0)


def test_a_map_is_read_as_far_as_it_can_be() -> None:
    rows: list[dict[str, Any]] = [
        {"lease": "1", "agent": "a", "claims": ["src/**", "f:2-3"], "left_s": None, "ranges": [{}, {"blob": "ab"}]},
        {"lease": "2", "agent": "b", "claims": ["{", "[", "ok"], "state": "draining", "shared": True},
        {"lease": "3", "agent": "c", "claims": ["x"], "state": "waiting"},
    ]
    one, two = held_of(rows)
    assert one.claims == (Claim("src/**"), Claim("f", 2, 3, "ab"))
    assert (two.lease, two.shared, two.claims[-1]) == ("2", True, Claim("ok"))
