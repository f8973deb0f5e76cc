"""Globs mean what git means by them, and whether two have a path in common is decided as trying every path does."""

import functools
import itertools
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.protocol.glob import BadPattern, Pattern, covers, overlap
from interlock.protocol.glob_set import CLASSES

PATHS = [
    path
    for length in range(1, 7)
    for path in map("".join, itertools.product("ab./", repeat=length))
    if all(path.split("/"))
]
ALL = "\n".join(PATHS)
PIECES = ["a", "b", ".", "/", "*", "?", "**", "[ab]", "[!a]"]
# A pattern of four pieces and one of three that have a path in common have one of six characters: the longest is a path
# of four letters, and below it what one wildcard leaves of the other, 'aaaa' and '*/a'. A '/' at the end is two.


def is_pattern(text: str) -> bool:
    try:
        return bool(Pattern.parse(text))
    except BadPattern:
        return False


@functools.lru_cache(maxsize=4_096)
def naive(text: str) -> frozenset[str]:
    """Which of PATHS a pattern without braces means, by an expression that says what git's page says."""
    expression = text + "**" if text.endswith("/") else text
    expression = re.sub(r"(?<![^/])\*\*+/", "\x00", expression)  # any directories
    expression = re.sub(r"(?<![^/])\*\*+$", "\x01", expression)  # whatever is below
    expression = re.sub(r"\*+", "\x02", expression)
    expression = expression.replace(".", r"\.").replace("?", r"[^/\n]").replace("[!", r"[^/\n")
    expression = expression.replace("\x00", r"(?:[^/\n]+/)*").replace("\x01", r".+").replace("\x02", r"[^/\n]*")
    below = "" if re.search(r"[*?\[]|/$", text) else "(?:/.+)?"
    return frozenset(found[0] for found in re.finditer(f"^(?:{expression}{below})$", ALL, re.MULTILINE))


def meant(text: str) -> set[str]:
    pattern = Pattern.parse(text)
    return {path for path in PATHS if pattern.matches(path)}


def made_of(most: int) -> st.SearchStrategy[str]:
    """Patterns of so many pieces."""
    pieces = st.lists(st.sampled_from(PIECES), min_size=1, max_size=most)
    return pieces.filter(lambda each: len(each) + (each[-1] == "/") <= most).map("".join).filter(is_pattern)


plain, smaller = made_of(4), made_of(3)


@st.composite
def braced(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A pattern with alternatives, and what it stands for."""
    head, tail = draw(st.sampled_from(["", "a", "*", "a/"])), draw(st.sampled_from(["", "b", "/**", "?"]))
    inner = draw(st.lists(st.sampled_from(["a", "b", "a/b", "*", "**", "."]), min_size=2, max_size=3))
    nested = draw(st.booleans())
    text = f"{head}{{{inner[0]},{{{','.join(inner[1:])},b}}}}{tail}" if nested else f"{head}{{{','.join(inner)}}}{tail}"
    return text, [f"{head}{each}{tail}" for each in ([*inner, "b"] if nested else inner)]


@given(plain)
@settings(max_examples=40)
def test_a_pattern_means_the_paths_that_trying_each_says(text: str) -> None:
    assert meant(text) == naive(text)


@given(braced().filter(lambda each: all(map(is_pattern, [each[0], *each[1]]))))
@settings(max_examples=25)
def test_alternatives_mean_what_each_of_them_means(both: tuple[str, list[str]]) -> None:
    text, each = both
    assert meant(text) == frozenset().union(*map(naive, each))


def test_every_two_small_patterns_overlap_exactly_where_a_path_is_meant_by_both() -> None:
    texts = [text for n in (1, 2) for text in map("".join, itertools.product(PIECES, repeat=n)) if is_pattern(text)]
    for one, other in itertools.product(texts, texts):
        a, b, both = Pattern.parse(one), Pattern.parse(other), not naive(one).isdisjoint(naive(other))
        assert overlap(a, b) == both, (one, other)
        assert not covers(a, b) or naive(other) <= naive(one), (one, other)


@given(plain, smaller)
@settings(max_examples=300)
def test_larger_ones_overlap_exactly_where_a_path_is_meant_by_both(one: str, other: str) -> None:
    a, b = Pattern.parse(one), Pattern.parse(other)
    assert overlap(a, b) == overlap(b, a) == (not naive(one).isdisjoint(naive(other)))
    assert not covers(a, b) or naive(other) <= naive(one)
    assert not covers(b, a) or naive(one) <= naive(other)
    assert covers(Pattern.parse("**"), a)
    assert covers(a, a)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("src/*/a.py", "src/b/*.py", True), ("src/**", "src2/x", False), (".git", ".github", False),
        ("a/**/b", "a/b", True), ("src", "src/deep/down.py", True), ("src", "src2", False), ("src/", "src", True),
        ("src/*.py", "src/*.md", False), ("src/a*", "src/*z", True), ("*.py", "src/*.py", False),
        ("**/*.py", "src/*.py", True), ("{a,b}/x", "b/*", True), ("{a,b}/x", "c/*", False), ("a/?", "a/bc", False),
        ("[a-c]", "[d-f]", False), ("[!a]", "a", False), ("[!a]", "ä", True), ("a\\*b", "a*", True),
        ("a\\*", "ab", False), ("*/x/**", "**/y", True), ("x/**/y", "x", True), ("[[:digit:]]*", "*[[:alpha:]]", True),
        ("[[:digit:]]", "[[:alpha:]]", False), ("*a*b*", "*b*a*", True), ("**/a/**", "**/b", True),
        ("e\u0301", "\u00e9", False),
    ],
)  # fmt: skip
def test_two_patterns_have_a_path_in_common_or_not(one: str, other: str, expected: bool) -> None:
    assert overlap(Pattern.parse(one), Pattern.parse(other)) == expected
    assert overlap(Pattern.parse(other), Pattern.parse(one)) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("src/**", "src/a/**", True), ("src/**", "src", False), ("src", "src/**", True), ("src/**", "src/*.py", True),
        ("**/*.py", "src/**/a.py", True), ("*.py", "test_*.py", True), ("test_*.py", "*.py", False),
        ("a/**", "a/**/b", True), ("{a,b}/**", "b/c", True), ("a*", "a?*", True), ("[a-z]", "[b-c]", True),
        ("a/*", "a/b", False), ("a/", "a/b", True),
    ],
)  # fmt: skip
def test_one_pattern_covers_another_or_not(one: str, other: str, expected: bool) -> None:
    assert covers(Pattern.parse(one), Pattern.parse(other)) == expected


HOSTILE = {
    "stars and a last letter that never comes": "*a" * 60 + "b", "any directories, again and again": "**/a/" * 60 + "b",
    "64 alternatives of stars and sets": "{" + ",".join(f"*{'?[ab]' * 8}{n}*" for n in range(64)) + "}",
    "the longest path": "a/" * 2_047 + "a", "empty braces": "{}" * 2_000, "braces in braces": "{" * 2_000 + "}" * 2_000,
    "a set of thousands": "*[" + "".join(chr(300 + 2 * n) for n in range(4_000)) + "]",
}  # fmt: skip


def test_no_hostile_pattern_is_dear() -> None:
    begun = time.thread_time()
    for text in HOSTILE.values():
        pattern, other = Pattern.parse(text), Pattern.parse(text.replace("b", "c"))
        overlap(pattern, other)
        covers(pattern, other)
        for path in ("a" * 250, "/".join("a" * 2_000), "a*" * 250):
            pattern.matches(path)
    assert time.thread_time() - begun < 20, "what goes back over stars would take years"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"), ("/etc", "before the first"), ("a//b", "between two slashes"), ("a/../b", "'..'"),
        ("./a", "'.'"), ("[a", "without its ']'"), ("{a,b", "without its '}'"), ("a\\", "backslash"),
        ("[z-a]", "no character"), ("[[:word:]]", "alnum"), ("a\0b", "NUL"), ("*a" * 100, "wildcards"),
        ("*" * 5_000, "4096 characters"),
        ("{a,b}" * 7, "64 patterns"), ("x" * 400 + "{a,b}" * 6, "written out"), ("a/[/]", "no character"),
        ("{a,}", "nothing between"),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_with_one_sentence(text: str, why: str) -> None:
    with pytest.raises(BadPattern) as refused:
        Pattern.parse(text)
    assert why in str(refused.value)
    assert len(str(refused.value)) < 250
    assert "\n" not in str(refused.value)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
GIT_PATTERNS = [
    "a", "a/", "a/b", "*", "?", "a*", "*/b", "**", "**/b", "a/**", "a/**/b", "**/a/**", "?b**", "***/b", "*/**", "**/*",
    "a/*/b", "[ab]", "[!a]*", "[^a]/*", "[]a]*", "[a-]*", "[!]]?*", "?\\b", "\\a*", "?/?", "?????", "*.?", "a/**/?/*",
    "[[:alpha:]]*", "**a", "?/b**", "[a.]/**", "**/**/b", "*b*/**/a*", "[[:punct:]]*", "[\\a-b]/*",
]  # fmt: skip
# Not "a**", of which git compares the "**" alone, as if it stood for a whole name: its page says otherwise.
# Nor "\\a", which git takes for a wildcard: then a directory with a star in its name could not be named plainly.


def git(folder: Path, *words: str, given: str = "") -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(folder), *words], input=given.encode(), capture_output=True, check=True, env=environment
    )
    return done.stdout.decode()


def indexed(folder: Path, paths: list[str]) -> None:
    """An index of files that are nowhere: a name can be a file in one, and a directory in another."""
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "update-index", "-z", "--index-info", given="".join(f"100644 {'1' * 40}\t{path}\0" for path in paths))


@needs_git
def test_git_means_the_same(tmp_path: Path) -> None:
    here = [path for path in PATHS if not {".", ".."} & set(path.split("/"))]
    for length in (1, 3, 5):  # in each no file's name is the name of another's directory
        paths = [path for path in here if len(path) == length]
        indexed(tmp_path / str(length), paths)
        for text in filter(is_pattern, GIT_PATTERNS):
            found = git(tmp_path / str(length), "ls-files", "-z", "--", f":(glob){text}").split("\0")
            assert {path for path in paths if Pattern.parse(text).matches(path)} == {*found} - {""}, text


@needs_git
def test_git_has_the_same_characters_in_its_classes(tmp_path: Path) -> None:
    names = [f"x{chr(point)}" for point in range(1, 128) if chr(point) not in "/"]
    indexed(tmp_path / "r", names)
    for kind in CLASSES:
        found = git(tmp_path / "r", "ls-files", "-z", "--", f":(glob)x[[:{kind}:]]").split("\0")
        assert {name for name in names if Pattern.parse(f"x[[:{kind}:]]").matches(name)} == {*found} - {""}, kind
