"""Housekeeping: old leftovers go, and nothing that anybody may still ask for."""

import os
from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.polling import until_true

from interlock.adapters.housekeeping import keep_house, sweep, sweep_parts
from interlock.adapters.paths import COPY_PREFIX, Home, is_of_a_home
from interlock.adapters.sqlite_copy import SqliteCopy
from interlock.coordinator.store import Row
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
async def test_what_a_killed_supervisor_had_of_a_backup_goes_at_the_next_start_and_a_whole_one_stays(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    home.create()
    whole, part = SqliteCopy(home), SqliteCopy(home)
    for copy in (whole, part):
        await copy.add([Row(1, 1, 1, 0, b"h", b"x")])
    told = Path(await whole.finish(None))

    sweep_parts(home)

    assert [each for each in os.listdir(home.root) if each.startswith(COPY_PREFIX)] == [told.name]
    assert all(is_of_a_home(name) for name in os.listdir(home.root))
    await part.close()


def _is_gone(path: Path) -> bool:
    return not path.exists()


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
            await until_true(partial(_is_gone, old))
            assert live.exists()
        tasks.cancel_scope.cancel()
