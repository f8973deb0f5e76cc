"""Every sentence that a user can meet, as the sources have it; what is put in when it is said is `…`.

Used by the tests: troubleshooting (docs/operations/troubleshooting.md) has an entry for each.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("protocol", "coordinator", "adapters")
SAYERS = {  # what a sentence is given to: our refusals, failures and errors, and the helpers that make them
    "Failure", "Refused", "No", "ConfigError", "CannotServe", "BadHome", "LaunchFailed", "Unusable", "NotWritten",
    "Unknown", "BadText", "BadEnvelope", "BusUnavailable", "ServiceError", "StillRunning", "BadActivation",
    "BadClaim", "BadPattern", "Problem", "GitFailed", "NoPlace", "CannotInstall", "_Failed", "fail", "refuse",
    "_refuse",
}  # fmt: skip


@functools.cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def sentences() -> dict[str, str]:
    """Every sentence, and the file that it stands in."""
    found: dict[str, str] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for text in _of(_parsed(path)):
                found.setdefault(text, path.relative_to(ROOT).as_posix())
    return found


@functools.cache
def every_text() -> set[str]:
    """Every piece of text in the sources, sentence or not."""
    return {
        text
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(_parsed(path))
        for text in _texts(node, {})
    }


def _of(tree: ast.AST) -> Iterator[str]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        values: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        values.setdefault(target.id, []).append(node.value)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _name(node.func) in SAYERS:
                given = [*node.args, *(each.value for each in node.keywords)]
                yield from (text for each in given for text in _texts(each, values) if " " in text)


def _texts(node: ast.AST, values: dict[str, list[ast.expr]]) -> Iterator[str]:
    """The texts that an expression can be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, values)
        yield from _texts(node.orelse, values)
    elif isinstance(node, ast.BinOp):
        yield from _texts(node.left, values)
    elif isinstance(node, ast.Name):
        for value in values.get(node.id, ()):
            yield from _texts(value, {})


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
