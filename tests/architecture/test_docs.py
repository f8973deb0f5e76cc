"""Generated pages are what the code says; files that pages name exist. Links and commands: test_pages.py."""

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
def test_files_that_are_named_exist(page: str) -> None:
    for name in re.findall(
        r"`((?:protocol|coordinator|adapters|tests|scripts|docs)/[\w./-]+)`", (ROOT / page).read_text()
    ):
        assert (ROOT / name).exists(), f"{page} names {name}, which is not there"
