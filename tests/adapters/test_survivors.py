"""Survivors: launches whose keepers live, by what their own reports say."""

import json
import sys
from pathlib import Path

import pytest
from tests.adapters.launching import launched

from interlock.adapters.launches import Started
from interlock.adapters.paths import Home
from interlock.adapters.survivors import survivors

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="a sub-reaper and /proc"),
]


async def test_a_report_says_which_unit_of_what_it_runs_for_and_one_of_old_says_none(tmp_path: Path) -> None:
    (tmp_path / "launches").mkdir()
    env = {"BUS_RESOURCE": "machine/pages", "BUS_UNIT": "1"}
    async with launched(tmp_path / "launches", "sleep", "600", env=env, launch="pages-3-aa") as launch:
        await launch.until(Started)
        [found] = survivors(Home(tmp_path))
        assert (found.launch, found.resource, found.unit) == ("pages-3-aa", "machine/pages", "1")

        of_old = json.loads(launch.result.read_bytes().splitlines()[0])
        del of_old["unit"]
        launch.result.write_text(json.dumps(of_old) + "\n")
        [found] = survivors(Home(tmp_path))
        assert (found.launch, found.resource, found.unit) == ("pages-3-aa", "machine/pages", None)
