"""Generated pages are what the code says; hand-written ones name only what exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]


def test_the_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "docs.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text()):
        assert target.startswith("http") or (ROOT / target).exists(), f"{page} leads to {target}, which is not there"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    for name in re.findall(
        r"`((?:protocol|coordinator|adapters|tests|scripts|docs)/[\w./-]+)`", (ROOT / page).read_text()
    ):
        assert (ROOT / name).exists(), f"{page} names {name}, which is not there"


def test_the_verbs_in_the_readme_exist() -> None:
    from interlock.adapters.cli.app import EVERYDAY, OTHERS

    used = set(re.findall(r"(?:`|\$ )bus (?:--as \S+ )?([a-z]+)\b", (ROOT / "README.md").read_text()))
    assert used
    assert used <= {*EVERYDAY, *OTHERS}, used - {*EVERYDAY, *OTHERS}
