"""How tests wait: for an event, and never for a number of seconds. Each message says what to do instead.

A test that sleeps is slow where the machine is fast, and wrong where it is slow. Real time has one place where it
may be slept away, `tests/polling.py`, for what tells nobody; virtual time costs nothing, so its folders are let off.
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
VIRTUAL_TIME = {"coordinator", "simulation"}
PROGRAMS = {"fixtures"}  # what tests run, in processes of its own
POLLING = TESTS / "polling.py"
NEVER_WAITED_FOR_S = 60  # a child that sleeps so long is there to be killed
IN_A_PROGRAM = re.compile(r"\bsleep(?:\(| +)(\d+(?:\.\d+)?)")
LOOP = re.compile(r"\b(while|until)\b")


def in_real_time() -> list[Path]:
    return [path for path in sorted(TESTS.rglob("*.py")) if not (VIRTUAL_TIME | PROGRAMS) & set(path.parts)]


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def name_of(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def number_of(node: ast.Call, default: float) -> float:
    """The first argument, where it is a plain number."""
    first = node.args[0] if node.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, int | float) else default


def fixed_sleeps(nodes: list[ast.AST]) -> Iterator[int]:
    """Lines that sleep, in the file itself or in the text of a program; neither for 0 s, nor until they are killed.

    A program that looks again and again, or keeps a pace, has a loop around its sleep.
    """
    for node in nodes:
        if isinstance(node, ast.Call) and name_of(node.func) == "sleep":
            if 0 < number_of(node, 1) < NEVER_WAITED_FOR_S:
                yield node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for found in IN_A_PROGRAM.finditer(node.value):
                if 0 < float(found[1]) < NEVER_WAITED_FOR_S and not LOOP.search(node.value[: found.start()]):
                    yield node.lineno


def short_bounds(nodes: list[ast.AST]) -> Iterator[int]:
    """Lines that give what must happen a bound of their own."""
    for node in nodes:
        if isinstance(node, ast.Call) and name_of(node.func) == "fail_after" and number_of(node, 0):
            yield node.lineno


def test_nothing_sleeps_for_a_fixed_time() -> None:
    for path in in_real_time():
        lines = list(fixed_sleeps(nodes(path))) if path not in (POLLING, Path(__file__)) else []
        assert not lines, f"{path}:{lines[0]}: wait for an event; for what tells nobody there is polling.until"


def test_what_must_happen_is_given_all_the_time_of_a_loaded_machine() -> None:
    for path in in_real_time():
        lines = list(short_bounds(nodes(path)))
        assert not lines, f"{path}:{lines[0]}: say fail_after(WAIT_S) of tests/polling.py: only a failure waits so long"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("time.sleep(0.1)", True),
        ("await anyio.sleep(SOON_S)", True),
        ("sleep(2)", True),
        ("await asyncio.sleep(0)", False),
        ("run('sh', '-c', 'sleep 3; echo x')", True),
        ("run('import time; time.sleep(1)')", True),
        ("run('sleep 600')", False),
        ("run('while busy(): time.sleep(0.01)')", False),
    ],
    ids=str,
)
def test_a_fixed_sleep_is_found(line: str, found: bool) -> None:
    tree = ast.parse(f"async def of() -> None:\n    {line}")
    assert bool(list(fixed_sleeps([*ast.walk(tree)]))) is found
