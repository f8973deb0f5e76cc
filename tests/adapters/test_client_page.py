"""Every program on the Python page runs as it stands there, and says what the page says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import PYTHON, ROOT, Repository, free_port, server_config
from tests.end_to_end.playground import Bus as Command

PAGE = (ROOT / "docs" / "guide" / "python.md").read_text()
PROGRAMS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))
SAYS = {
    "Hold a resource for the length of a block": r"mine at http://127.0.0.1:\d+/, from /.*/w1, fence \d+\nTrue\n",
    "The same in plain code": r"migrating under fence \d+\n",
    "A pytest fixture that holds the test database": r"(?s).*1 passed.*",
    "When it is lost": r"still mine, fence \d+\n",
    "Cancel a wait": "places left: 0\nplaces left: 1\ngranted test-db\n",
    "Ask step by step": "done\n",
    "Messages and the log": "writer the build is done\nacked\nsent True\n",
}


@pytest.fixture(scope="module")
def command() -> Iterator[Command]:
    with shared_bus(server_config(free_port(), options="--build-s 0") + "\n[resources.test-db]\n") as bus:
        yield bus


@pytest.fixture(scope="module")
def worktree(command: Command) -> Path:
    return Repository(command).worktree("w1")


def test_the_page_has_these_programs() -> None:
    assert PROGRAMS.keys() == SAYS.keys()


@pytest.mark.parametrize("title", SAYS)
def test_it_runs(title: str, command: Command, worktree: Path) -> None:
    program = worktree / "test_example.py"
    program.write_text(PROGRAMS[title])
    runner = [str(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider"] if "pytest" in title else [str(PYTHON)]
    environment = command.environment_of("tester" if "pytest" in title else "")
    done = command.launch([*runner, str(program)], cwd=worktree, env=environment).end()
    assert done.code == 0, done
    assert re.fullmatch(SAYS[title], done.out), done
