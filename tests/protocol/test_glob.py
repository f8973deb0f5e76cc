"""Globs mean what git means by them, and whether two have a path in common is decided as trying every path does."""

import functools
import itertools
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.protocol.glob import BadPattern, Pattern, covers, overlap

PATHS = [
    path
    for length in range(1, 7)
    for path in map("".join, itertools.product("ab./", repeat=length))
    if all(path.split("/"))
]
ALL = "\n".join(PATHS)
PLACES = {path: 1 << at for at, path in enumerate(PATHS)}
PIECES = ["a", "b", ".", "/", "*", "?", "**", "[ab]", "[!a]"]
# Two patterns of four pieces that have a path in common have one of six characters: each letter is needed once.


def parse(text: str) -> Pattern | None:
    try:
        return Pattern.parse(text)
    except BadPattern:
        return None


@functools.lru_cache(maxsize=4_096)
def naive(text: str) -> int:
    """Which of PATHS a pattern without braces means, by an expression that says what git's page says."""
    expression = text + "**" if text.endswith("/") else text
    expression = re.sub(r"(?<![^/])\*\*+/", "\x00", expression)  # any directories
    expression = re.sub(r"(?<![^/])\*\*+$", "\x01", expression)  # whatever is below
    expression = re.sub(r"\*+", "\x02", expression)
    expression = expression.replace(".", r"\.").replace("?", r"[^/\n]").replace("[!", r"[^/\n")
    expression = expression.replace("\x00", r"(?:[^/\n]+/)*").replace("\x01", r".+").replace("\x02", r"[^/\n]*")
    below = "" if re.search(r"[*?\[]|/$", text) else "(?:/.+)?"
    return sum(PLACES[found[0]] for found in re.finditer(f"^(?:{expression}{below})$", ALL, re.MULTILINE))


def is_pattern(text: str) -> bool:
    return parse(text) is not None


plain = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join).filter(is_pattern)


@st.composite
def braced(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A pattern with alternatives, and what it stands for."""
    head, tail = draw(st.sampled_from(["", "a", "*", "a/"])), draw(st.sampled_from(["", "b", "/**", "?"]))
    inner = draw(st.lists(st.sampled_from(["a", "b", "a/b", "*", "**", "."]), min_size=2, max_size=3))
    nested = draw(st.booleans())
    text = f"{head}{{{inner[0]},{{{','.join(inner[1:])},b}}}}{tail}" if nested else f"{head}{{{','.join(inner)}}}{tail}"
    return text, [f"{head}{each}{tail}" for each in ([*inner, "b"] if nested else inner)]


@given(plain)
@settings(max_examples=150)
def test_a_pattern_means_the_paths_that_trying_each_says(text: str) -> None:
    pattern = Pattern.parse(text)
    assert [path for path in PATHS if pattern.matches(path)] == [path for path in PATHS if naive(text) & PLACES[path]]


@given(braced().filter(lambda each: all(map(is_pattern, [each[0], *each[1]]))))
@settings(max_examples=60)
def test_alternatives_mean_what_each_of_them_means(both: tuple[str, list[str]]) -> None:
    text, meant = both
    paths = functools.reduce(int.__or__, map(naive, meant))
    pattern = Pattern.parse(text)
    assert [path for path in PATHS if pattern.matches(path)] == [path for path in PATHS if paths & PLACES[path]]


def test_every_two_small_patterns_overlap_exactly_where_a_path_is_meant_by_both() -> None:
    texts = [
        *filter(
            is_pattern, map("".join, itertools.chain.from_iterable(itertools.product(PIECES, repeat=n) for n in (1, 2)))
        )
    ]
    for one, other in itertools.product(texts, texts):
        assert overlap(Pattern.parse(one), Pattern.parse(other)) == bool(naive(one) & naive(other)), (one, other)


@given(plain, plain)
@settings(max_examples=1_000)
def test_two_patterns_overlap_exactly_where_a_path_is_meant_by_both(one: str, other: str) -> None:
    a, b = Pattern.parse(one), Pattern.parse(other)
    assert overlap(a, b) == overlap(b, a) == bool(naive(one) & naive(other))


@given(plain, plain)
@settings(max_examples=1_000)
def test_what_a_pattern_covers_has_no_path_that_it_does_not_mean(one: str, other: str) -> None:
    assert not covers(Pattern.parse(one), Pattern.parse(other)) or not naive(other) & ~naive(one)


@given(plain)
def test_a_pattern_covers_and_overlaps_itself(text: str) -> None:
    pattern = Pattern.parse(text)
    assert overlap(pattern, pattern)
    assert covers(pattern, pattern)
    assert covers(Pattern.parse("**"), pattern)
