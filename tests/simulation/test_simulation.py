"""The whole bus in a simulated world: twenty stories here, ten thousand with `scripts/simulate 10000`."""

import hashlib
import os
import subprocess
import sys

import pytest
from tests.simulation.story import tell


@pytest.mark.parametrize("seed", range(20))
def test_every_promise_holds(seed: int) -> None:
    tell(seed)


@pytest.mark.parametrize("seed", range(6))
def test_policies_and_the_ledger_agree_whatever_happens(seed: int) -> None:
    often = {"policy": 30, "confirm": 6, "run": 60, "command_keeper_dies": 8, "crash": 12, "wrapper_dies": 8}
    story = tell(seed, often=often)
    assert {"PolicySet", "CommandAdmitted", "CommandFinished", "Governed"} <= story.promises.seen.keys()


@pytest.mark.parametrize("seed", [0, 1, 2, 5])
def test_tasks_know_what_is_held_for_them_whatever_happens(seed: int) -> None:
    story = tell(seed, often={"task": 90, "inbox": 20, "crash": 12, "reboot": 3, "handover": 8})
    assert {"TaskAssigned", "TaskReserved", "TaskReported", "TaskJudged"} <= story.promises.seen.keys()


@pytest.mark.parametrize("seed", range(8))
def test_sets_keep_every_promise_too(seed: int) -> None:
    tell(seed, often={"several": 40, "release": 20, "crash": 8})


def test_the_same_seed_tells_the_same_story() -> None:
    assert tell(7).lines == tell(7).lines
    assert tell(7).lines != tell(8).lines


def test_the_story_does_not_depend_on_the_process_that_tells_it() -> None:
    """Not on the order of sets, which every process makes anew."""
    here = hashlib.sha256("\n".join(tell(3).lines).encode()).hexdigest()
    code = "import hashlib; from tests.simulation.story import tell; "
    code += "print(hashlib.sha256('\\n'.join(tell(3).lines).encode()).hexdigest())"
    for number in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": number}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == here
