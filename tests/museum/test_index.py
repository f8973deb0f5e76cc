"""The index holds what it says: each test that it names is there, and nothing here is without a line."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
INDEX = Path(__file__).with_name("index.md").read_text()
LATER = {
    "HTTP", "NATS", "git hooks and verification", "sets of resources", "territories", "the guard",
}  # fmt: skip
CASE = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)(?:\[([^`]+)\])?`")
CASES = {number: (what, reported, here) for number, what, reported, here in CASE.findall(INDEX)}


@cache
def found_in(file: str) -> dict[str, str]:
    """The tests of a file, by name, and the file's text."""
    text = (TESTS / file).read_text()
    defined = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name: text for node in defined if node.name.startswith("test_")}


def test_each_number_is_there_once_in_order() -> None:
    rows = [line for line in INDEX.splitlines() if line.startswith("| ") and not line.startswith("| |")]
    assert len(rows) == len(CASES), "a line of the table is no case: | number | what | reported | here |"
    sections: dict[str, list[int]] = {}
    for number in CASES:
        sections.setdefault(number[0], []).append(int(number[1:]))
    for letter, numbers in sections.items():
        assert numbers == list(range(1, len(numbers) + 1)), f"the numbers of {letter} have a gap"


def test_every_test_that_is_named_is_there() -> None:
    for number, (_, _, here) in CASES.items():
        for file, name, row in NAMED.findall(here):
            assert (TESTS / file).exists(), f"{number} names {file}, which is not there"
            assert name in found_in(file), f"{number} names {name}, which is not in {file}"
            assert not row or f'"{row}"' in found_in(file)[name], f"{number} names the row {row!r}, not in {file}"


def test_every_case_is_covered_or_says_with_which_part_it_comes() -> None:
    for number, (_, reported, here) in CASES.items():
        assert "](https://" in reported, f"{number} says not where it was reported"
        later = re.fullmatch(r"Comes with (.+)\.", here)
        assert not later or later[1] in LATER, f"{number} comes with {later and later[1]}: one of {sorted(LATER)}"
        assert later or here.startswith("Not here: ") or NAMED.match(here), f"{number}: name a test first"
        assert "::" in here or not NAMED.match(here)
        assert here.count("::") == len(NAMED.findall(here)), f"{number}: a test's name is not as NAMED reads it"


def test_no_test_of_the_museum_is_without_a_line() -> None:
    named = {(file, name) for _, _, here in CASES.values() for file, name, _ in NAMED.findall(here)}
    for path in Path(__file__).parent.glob("test_*.py"):
        if path != Path(__file__):
            missing = [name for name in found_in(f"museum/{path.name}") if (f"museum/{path.name}", name) not in named]
            assert not missing, f"{path.name}: say in index.md which case {missing} is"
