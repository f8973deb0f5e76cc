"""Housekeeping: old leftovers go, and nothing that anybody may still ask for."""

import os
from functools import partial
from pathlib import Path

import anyio
import pytest

from interlock.adapters.housekeeping import keep_house, sweep
from interlock.adapters.paths import Home, is_of_a_home
from interlock.adapters.sqlite_copy import SqliteCopy
from interlock.coordinator.world import World
from interlock.protocol.definition import ServerDefinition
from interlock.protocol.identity import Identity
from interlock.protocol.resource_state import Resource, Server, Unit

DAY_MS = 86_400_000
KEEPER = Identity("machine", "boot", 1, 1, 1)


def made(home: Home, name: str, *, days_old: int) -> Path:
    folder = home.launches if name.endswith(".jsonl") else home.logs
    path = folder / name
    path.write_text("x")
    at = path.stat().st_mtime - days_old * DAY_MS / 1000
    os.utime(path, (at, at))
    return path


def test_old_leftovers_go_and_what_is_known_or_new_stays(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    server = Server("live-2-abcdef", KEEPER, "/w", ServerDefinition("run"))
    world = World(resources={"machine/x": Resource("machine/x", units=(Unit("", server=server),))})
    gone = [made(home, "old-1-abcdef.jsonl", days_old=2), made(home, "old-1-abcdef.log", days_old=40)]
    stays = [
        made(home, "live-2-abcdef.jsonl", days_old=100),
        made(home, "live-2-abcdef.log", days_old=100),
        made(home, "new-3-abcdef.jsonl", days_old=0),
        made(home, "recent-4-abcdef.log", days_old=29),
        made(home, "supervisor.log", days_old=100),
        made(home, "notes.txt", days_old=100),
        made(home, "of-somebody-else.log", days_old=100),
        made(home, "of-somebody-else.jsonl", days_old=100),
    ]
    outside = tmp_path / "outside.log"
    outside.write_text("x")
    os.utime(outside, (0, 0))
    (home.logs / "link-5-abcdef.log").symlink_to(outside)

    assert sweep(home, world.launches(), 30 * DAY_MS) == 2

    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in [*stays, outside])


@pytest.mark.anyio
async def test_a_backup_whose_supervisor_died_goes_at_the_next_start_and_one_under_way_stays(tmp_path: Path) -> None:
    """It is as large as the log, and stayed for a day."""
    home = Home(tmp_path / "home")
    home.create()
    left, taken_soon = home.root / ".backup-0011.part", home.root / ".backup-0022"
    for path in (left, taken_soon):
        path.write_text("x")
    under_way = SqliteCopy(home)
    await under_way.add([])

    assert sweep(home, (), 30 * DAY_MS) == 1

    assert not left.exists()
    assert taken_soon.exists()
    made = Path(await under_way.finish(None))
    await under_way.close()
    assert sorted(home.root.glob(".backup-*")) == sorted([taken_soon, made])
    assert is_of_a_home(left.name)


@pytest.mark.anyio
async def test_a_supervisor_that_runs_for_long_sweeps_again(tmp_path: Path) -> None:
    """Else the logs of months of servers stay until its next start."""
    home = Home(tmp_path / "home")
    home.create()
    known = {"live-2-abcdef"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(keep_house, home, lambda: known, lambda: 30 * DAY_MS, every_s=0.001))
        for name in ("first-1-abcdef.log", "second-1-abcdef.log"):  # the second one is a later round's
            old, live = made(home, name, days_old=40), made(home, "live-2-abcdef.log", days_old=40)
            with anyio.fail_after(30):
                while old.exists():  # noqa: ASYNC110 - it polls
                    await anyio.sleep(0.001)  # polls: a directory tells nobody
            assert live.exists()
        tasks.cancel_scope.cancel()
