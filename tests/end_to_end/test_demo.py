"""The demo is a test: it exits non-zero if anything of what it prints as proved is not so."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
BOUND_S = 180  # it takes some ten seconds; a machine that is that slow has other troubles


def test_the_demo_proves_what_it_says() -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
    done = subprocess.run(
        [str(ROOT / "scripts" / "demo")], env=kept, capture_output=True, text=True, timeout=BOUND_S, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    proved = done.stdout.partition("Proved in ")[2].splitlines()[1:]
    assert len(proved) == 9, done.stdout
    assert "NOT SO" not in done.stdout
