"""What lean has of the standard library says what the standard library says, and the keeper imports little else."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.adapters import lean
from interlock.adapters.keeper_start import KEEPER

VALUES: list[Any] = [
    None, True, False, 0, -1, 2**70, 0.5, 1e300, "", "é 漢 😀 \ud800 \x00 \x1b \" \\ \u2028", [], {}, [[], {}],
    {"a": [1, {"b": None}], "ключ": "x", "": False}, ("a", 1),
]  # fmt: skip
TEXTS = ["1", " [1, 2]\n", '{"a":{"b":[true,null,-0.5e3]}}', '"\\ud83d\\ude00"', "NaN", "-Infinity", "[1,\t2]"]
NO_JSON = ["", " ", "{", "[1,]", '{"a" 1}', "1 2", "nul", '"\n"', "{'a': 1}", "\x00"]
MAY_COST = {"interlock", "select", "time", "posix", "errno"}  # C, or ours; what `os` itself brings is there before


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_it_writes_what_json_writes(value: object) -> None:
    assert lean.dumps(value) == json.dumps(value)


@pytest.mark.parametrize("text", [*TEXTS, *(json.dumps(value) for value in VALUES)])
def test_it_reads_what_json_reads(text: str) -> None:
    assert repr(lean.loads(text)) == repr(lean.loads(text.encode())) == repr(json.loads(text))


@pytest.mark.parametrize("text", NO_JSON)
def test_what_is_no_json_is_a_value_error_of_both(text: str) -> None:
    said = []
    for loads in (json.loads, lean.loads):
        try:
            said.append(loads(text))
        except ValueError:
            said.append(ValueError)
    assert said == [ValueError, ValueError]


def test_bytes_that_are_no_text_are_a_value_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        lean.loads(b'"\xff"')


@pytest.mark.parametrize("raised", [OSError, FileNotFoundError, ValueError, None], ids=str)
def test_it_suppresses_what_contextlib_suppresses(raised: type[Exception] | None) -> None:
    def passed(suppressing: Any) -> bool:
        try:
            with suppressing(OSError):
                if raised is not None:
                    raise raised
        except Exception:
            return False
        return True

    assert passed(lean.suppress) == passed(contextlib.suppress)


def test_the_keeper_imports_nothing_dear() -> None:
    """It is on the way of each hand-over and each `bus run`: what it imports is what they wait for."""
    program = (
        "import os, sys; before = set(sys.modules)\n"
        f"sys.path.append({str(Path(KEEPER).parents[3])!r}); import interlock.adapters.keeper.keeper\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if not name.startswith("_")}
    assert {name.partition(".")[0] for name in loaded} <= MAY_COST, "import what is C, or add it to lean.py"
