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


def test_the_map_has_every_module_and_no_other() -> None:
    """A module that nobody finds on the map is written a second time; one that is gone leads nowhere."""
    page = re.sub(r"```.*?```", "", (ROOT / "ARCHITECTURE.md").read_text(), flags=re.DOTALL)
    named = {word for quoted in re.findall(r"`([^`]+)`", page) for word in re.findall(r"[a-z_]+", quoted)}
    there = {
        path.stem if path.is_file() else path.name
        for root in ("protocol", "coordinator", "adapters")
        for path in (ROOT / root / "interlock" / root).iterdir()
        if not path.name.startswith("__") and (path.suffix == ".py" or path.is_dir())
    }
    assert not there - named, f"say in ARCHITECTURE.md what {sorted(there - named)} are: By noun"
    table = page.partition("By noun")[2].partition("A `BUS_HOME`")[0]
    by_noun = set(re.findall(r"`([a-z_]+)(?:/\w*)?`", table))
    inside = {path.stem for path in ROOT.glob("adapters/interlock/adapters/resources/*.py")}
    assert not by_noun - there - inside, (
        f"ARCHITECTURE.md names {sorted(by_noun - there - inside)}, which are not there"
    )
