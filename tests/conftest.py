"""What holds for every test: interrupts are heard, load is no fault, and what plays with whole processes is slow."""

import random
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.scratch import SCRATCH

SLOW = {  # half a second of CPU and more for many a test
    # Each starts processes, a supervisor of its own among them.
    "end_to_end", "museum",
    "test_sandbox.py", "test_client_sandbox.py", "test_client_page.py", "test_other_users.py", "test_cli_completion.py",
    # Each looks at every state or every source, or tells long stories: and finds the same whenever it is run.
    "architecture", "simulation", "test_every_combination.py", "test_sets_search.py",
}  # fmt: skip

# How long an example takes says how busy the machine is, and nothing about it.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("any machine")

tempfile.tempdir = SCRATCH


@pytest.fixture(autouse=True, scope="session")
def _interrupts_are_heard() -> None:
    """A shell in the background ignores SIGINT and SIGQUIT, nohup SIGHUP; what we start shall not inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for signum in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="the files, and the tests in each, in another order")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where the slow ones are not wanted, nobody has to import them."""
    return True if config.option.markexpr == "not slow" and collection_path.name in SLOW else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The quick part is the rest: every rule by its examples, every door, the command, on buses that many share."""
    here = Path(__file__).parent
    longest = {item for item in items if item.get_closest_marker("slow") is not None}  # they say so themselves
    for item in items:
        if SLOW & set(item.path.relative_to(here).parts):
            item.add_marker(pytest.mark.slow)
    items.sort(
        key=lambda item: (item not in longest, item.get_closest_marker("slow") is None)
    )  # no long one at the end
    seed = config.getoption("--shuffle")
    if seed is not None:
        chance = random.Random(seed)
        files: dict[Path, list[pytest.Item]] = {}
        for item in items:
            files.setdefault(item.path, []).append(item)
        order = list(files.values())
        chance.shuffle(order)
        for each in order:
            chance.shuffle(each)
        items[:] = [item for each in order for item in each]
