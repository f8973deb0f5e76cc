"""Rules of the house that no linter knows. Each message says what to do instead."""

import ast
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "protocol": {"protocol"},
    "coordinator": {"protocol", "coordinator"},
    "adapters": {"protocol", "coordinator", "adapters"},
}
PURE = {  # what protocol may import besides itself: msgspec and the pure part of the standard library
    "bisect", "collections", "dataclasses", "datetime", "difflib", "enum", "functools", "heapq", "itertools", "json",
    "math", "msgspec", "re", "shlex", "string", "typing",
}  # fmt: skip
WORLD = {"os", "socket", "subprocess", "sqlite3", "aiosqlite", "psutil", "signal", "shutil", "fcntl", "pathlib"}
MAY_TOUCH_THE_WORLD = {"ids.py"}  # chance and time for names of messages
LINES_MAX = 350


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def sources(folder: str) -> Iterator[Path]:
    yield from sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write the absolute import"
            yield node.module or ""


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_arrows_point_inward(folder: str) -> None:
    for path in sources(folder):
        for name in imports(path):
            package, _, rest = name.partition(".")
            if package == "interlock":
                assert rest.split(".")[0] in MAY_IMPORT[folder], f"{path} may not import {name}"


def test_protocol_is_pure() -> None:
    for path in sources("protocol"):
        touched = {name.split(".")[0] for name in imports(path)} - PURE - {"interlock"}
        assert not touched, f"{path} imports {touched}: take the value as an argument instead"
        tree = parsed(path)
        waits = [node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef)]
        assert not waits, f"{path} awaits: that belongs in coordinator/"


def test_coordinator_touches_the_world_through_ports_only() -> None:
    for path in sources("coordinator"):
        if path.name not in MAY_TOUCH_THE_WORLD:
            touched = {name.split(".")[0] for name in imports(path)} & WORLD
            assert not touched, f"{path} imports {touched}: add it to a port in effects.py, store.py or clock.py"


def test_the_keeper_imports_itself_and_the_standard_library_only() -> None:
    """It runs without site-packages, and all is imported before it starts: an upgrade may come under its feet."""
    own, shared = "interlock.adapters.keeper", ("lean", "proc_memory")
    lean = [ROOT / f"adapters/interlock/adapters/{name}.py" for name in shared]
    for path in [*sources("adapters/interlock/adapters/keeper"), *lean]:
        foreign = {name for name in imports(path) if not f"{name}.".startswith(f"{own}.")}
        foreign -= {f"interlock.adapters.{name}" for name in shared}
        foreign -= {name for name in foreign if name.split(".")[0] in sys.stdlib_module_names}
        assert not foreign, f"{path} imports {foreign}: a keeper cannot see that"
        lazy = [
            node
            for inside in ast.walk(parsed(path))
            if isinstance(inside, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(inside)
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        assert not lazy, f"{path} imports inside a function: it may be another version's by then"


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_the_namespace_stays_open(folder: str) -> None:
    """A file beside the package would be importable by its bare name from anywhere."""
    assert [p.name for p in (ROOT / folder).iterdir() if p.name != "README.md"] == ["interlock"]
    assert not (ROOT / folder / "interlock" / "__init__.py").exists(), "delete it: it hides the other two folders"
    assert (ROOT / folder / "interlock" / folder / "py.typed").exists(), "types are part of what is shipped"


@pytest.mark.parametrize("folder", [*MAY_IMPORT, "tests", "scripts"])
def test_one_noun_a_file(folder: str) -> None:
    for path in sources(folder):
        lines = len(path.read_text().splitlines())
        if folder in MAY_IMPORT:
            assert lines <= LINES_MAX, f"{path} has {lines} lines: a second noun is hiding in it"


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_every_module_says_what_it_means(folder: str) -> None:
    for path in sources(folder):
        assert ast.get_docstring(parsed(path)), f"{path}: begin with one line of meaning"


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_every_folder_is_a_package_that_says_what_is_in_it(folder: str) -> None:
    """Without its own `__init__.py` a folder is a namespace that others could add to, and some tools pass it over."""
    for path in sources(folder):
        package = path.parent / "__init__.py"
        shared = path.parent == ROOT / folder / "interlock"  # see test_the_namespace_stays_open
        assert shared or package.exists(), f"{path.parent} has no __init__.py: add one that says what the folder is for"


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_public_classes_and_functions_are_explained(folder: str) -> None:
    """Message types whose tag says it all are let off; functions and classes are not."""
    for path in sources(folder):
        for node in parsed(path).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                lines = (node.end_lineno or 0) - node.lineno
                assert ast.get_docstring(node) or lines <= 8, f"{path}: {node.name} has no docstring"


def test_numbers_stand_in_limits() -> None:
    """A bound of the protocol that stands elsewhere is a bound that nobody finds."""
    for path in sources("protocol"):
        if path.name == "limits.py":
            continue
        for node in parsed(path).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                assert not re.search(r"_(MAX|MIN|MS)$", name) or name.startswith("_"), f"{path}: move {name} to limits"


def test_no_reason_no_exception() -> None:
    """A `noqa` or `type: ignore` carries its reason."""
    exception = re.compile(r"#\s*(noqa: [A-Z0-9, ]+|type:\s*ignore\[[^]]+\])(.*)")
    for folder in (*MAY_IMPORT, "tests", "scripts"):
        for path in sources(folder):
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                found = exception.search(line) if path != Path(__file__) else None
                assert not found or re.match(r"\s*[-#] \S+", found[2]), f"{path}:{number}: say why after ` - `"


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_nothing_is_raised_within_except_star(folder: str) -> None:
    for path in sources(folder):
        for tried in ast.walk(parsed(path)):
            handlers = tried.handlers if isinstance(tried, ast.TryStar) else []
            raises = [node for each in handlers for node in ast.walk(each) if isinstance(node, ast.Raise)]
            assert not raises, f"{path}: Pythons differ in whether it comes out in a group: raise it after the try"


def test_scripts_can_be_run() -> None:
    for name in (
        "scripts/setup",
        "scripts/demo",
        "scripts/test",
        "scripts/bench",
        "scripts/flakes",
        "scripts/site",
        "scripts/picture",
        ".ci/run",
    ):
        assert os.access(ROOT / name, os.X_OK), f"{name}: chmod +x"


def test_the_project_stands_alone() -> None:
    """No page, message or comment leads to a place that its reader does not have."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    done = subprocess.run(
        ["git", "-C", str(ROOT), "grep", "-lF", "-e", f"{ROOT}/", "-e", f"{ROOT.parent}/shared", "--", "."],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.stdout.split(), f"{done.stdout.split()}: name no path of one machine"
