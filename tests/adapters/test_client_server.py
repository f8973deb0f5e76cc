"""The Python door on a server: where it runs, restarts, a server that dies, and one that does not come up."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import WAIT_S, Repository, executions, fetch, free_port, kill, server_config
from tests.end_to_end.playground import Bus as Command

from interlock.client import Bus, Refused

pytestmark = pytest.mark.anyio
PORT = free_port()
BROKEN = '\n[resources.broken]\nkind = "server"\nstart = "echo it broke; exit 3"\nready_line = "never"\n'


@pytest.fixture(scope="module")
def command() -> Iterator[Command]:
    with shared_bus(server_config(PORT, options="--build-s 0") + BROKEN) as bus:
        yield bus


@pytest.fixture(scope="module")
def repository(command: Command) -> Repository:
    return Repository(command)


@pytest.fixture
async def bus(command: Command) -> AsyncIterator[Bus]:
    async with Bus(agent="serves", home=str(command.home)) as bus:
        yield bus


async def test_a_server_runs_from_the_holders_worktree_and_can_be_started_again(
    bus: Bus, repository: Repository
) -> None:
    place = repository.worktree("restarts")
    async with bus.hold("server-loop", worktree=place, time="20m") as grant:
        assert grant.url == f"http://127.0.0.1:{PORT}/"
        assert fetch(PORT) == repository.page(place)
        await grant.restart()
        assert executions(place) == 2
        await grant.check()
        with pytest.raises(Refused, match="RESOURCE_BUSY"):
            await bus.hold("server-loop", worktree="/").__aenter__()  # inside, for another worktree: not under this one


async def test_a_server_that_dies_is_down_and_still_ours(bus: Bus, repository: Repository) -> None:
    place = repository.worktree("dies")
    async with bus.hold("server-loop", worktree=place, time="20m") as grant:
        kill(_server(place))
        with anyio.fail_after(WAIT_S):
            while not grant.down:
                await anyio.lowlevel.checkpoint()
        with pytest.raises(Refused, match="its server is down"):
            await grant.check()
        assert not grant.lost.is_set()
        await grant.restart()
        assert not grant.down
        assert fetch(PORT) == repository.page(place)


async def test_one_that_does_not_come_up_is_refused_with_its_last_words(bus: Bus, repository: Repository) -> None:
    with pytest.raises(Refused, match="it broke") as refused:
        await bus.hold("broken", worktree=repository.main).__aenter__()
    assert refused.value.code == "PREPARE_FAILED"
    assert not (await bus.me()).tickets


def _server(place: Path) -> int:
    """The pid of the server that was started last from there."""
    pid = int((place / "started").read_text().split()[-1])
    assert os.path.realpath(f"/proc/{pid}/cwd") == os.path.realpath(place)
    return pid
