"""State files follow what is durable, for people and a recovery, and nothing in their folder stops the bus."""

# ruff: noqa: ASYNC240 - looking at a small file blocks nothing: these tests run alone in their loop.

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.coordinator.bus import Bus
from tests.coordinator.memory_store import MemoryStore
from tests.polling import until_true

from interlock.adapters import state_files
from interlock.adapters.paths import Home
from interlock.adapters.state_files import StateFiles
from interlock.adapters.state_folder import StateFolder
from interlock.coordinator.config import Config, parse_config
from interlock.coordinator.states import Found, Mark, NoStates
from interlock.coordinator.store import NotWritten
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.limits import NUMBERS_RESERVED

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(state_files, "SETTLE_S", 0)
    monkeypatch.setattr(state_files, "ROUND_S", 0)
    home = Home(tmp_path / "home")
    home.create()
    return home


@asynccontextmanager
async def running(
    home: Home, store: MemoryStore, config: Config | None = None
) -> AsyncIterator[tuple[Bus, StateFiles]]:
    """A bus that keeps state files in a home; left, it has gone down in order."""
    states = StateFiles(StateFolder(home), str(home.logs))
    bus = Bus(store, config, states=states, found=await states.look())
    states.attach(bus.supervisor)
    async with bus.running():
        await states.begin()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(states.run)
            yield bus, states
            tasks.cancel_scope.cancel()
        await states.finish()


async def until(home: Home, name: str, says: str) -> str:
    """The content of a state file, once it says so."""
    path = home.states / name

    def text() -> str:
        return path.read_text() if stat.S_ISREG(path.lstat().st_mode if os.path.lexists(path) else 0) else ""

    await until_true(lambda: says in text(), text)
    return text()


def look(home: Home) -> Found:
    return StateFolder(home).read()


async def test_a_file_follows_its_resource(home: Home) -> None:
    async with running(home, MemoryStore()) as (bus, _):
        a, b = bus.client("a"), bus.client("b")
        await a.ask("REQUEST machine/r - try it")
        assert (home.states / "r.md").exists(), "it is there before GRANTED is said"
        await until(home, "r.md", "| owner | a |")
        await b.ask("REQUEST machine/r - later")
        await until(home, "r.md", "1. b for later")
        await a.ask("RELEASE machine/r")
        await until(home, "r.md", "| owner | b |")
    facts = look(home).files["machine/r"]
    assert facts is not None
    assert (facts.seq, facts.units[0].ticket is not None) == (bus.supervisor.world.seq, True)


async def test_a_file_that_could_not_be_written_is_tried_again_though_nothing_changes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "RETRY_S", 0)
    write, failed = StateFolder.write, list[str]()

    def fails_once(folder: StateFolder, files: list[tuple[str, bytes, str]]) -> dict[str, str]:
        owned = any(b"| owner | a |" in data for _, data, _ in files)
        if owned and not failed:
            failed.append("No space left on device")
            return {key: failed[0] for key, _, _ in files}
        return write(folder, files)

    monkeypatch.setattr(StateFolder, "write", fails_once)
    async with running(home, MemoryStore()) as (bus, states):
        await bus.client("a").ask("REQUEST machine/r - try it")
        await until(home, "r.md", "| owner | a |")
        await until_true(lambda: states.problem == "", lambda: states.problem)
    assert failed


async def test_what_could_not_be_written_once_is_no_problem_any_more_when_it_can(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "RETRY_S", 0.05)
    home.states.rmdir()
    home.states.write_text("in the way")
    states = StateFiles(StateFolder(home), str(home.logs))
    bus = Bus(MemoryStore(), states=NoStates())
    states.attach(bus.supervisor)
    async with bus.running():
        await states.begin()
        assert states.problem
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(states.run)
            with pytest.raises(NotWritten):
                await states.cover("machine/r")
            home.states.unlink()
            await until_true(lambda: states.problem == "", lambda: states.problem)
            tasks.cancel_scope.cancel()
    assert look(home).mark is not None


async def test_a_declared_resource_has_its_file_from_the_start(home: Home) -> None:
    config = parse_config("[resources.gpu]\nunits = ['0', '1']\n", "bus.toml")
    async with running(home, MemoryStore(), config):
        assert (home.states / "gpu.md").exists()
        assert "| unit 1 | free |" in await until(home, "gpu.md", "| unit 0 | free |")


async def test_what_nobody_has_or_wants_any_more_loses_its_file_and_gets_it_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "IDLE_KEPT_S", 0.01)
    async with running(home, MemoryStore()) as (bus, states):
        a = bus.client("a")
        for _ in range(3):
            await a.ask("REQUEST machine/r - x")
            assert (home.states / "r.md").exists()
            await a.ask("RELEASE machine/r")
            await until_true(lambda: not (home.states / "r.md").exists())
            assert not states.covers("machine/r")


async def test_the_mark_lies_above_all_numbers_and_tells_the_last_one_at_the_end(home: Home) -> None:
    store = MemoryStore()
    async with running(home, store) as (bus, states):
        await bus.client("a").ask("REQUEST machine/r - x")
        mark = look(home).mark
        assert mark is not None
        assert (mark.bus, mark.through) == (bus.supervisor.world.bus, states.numbers_through)
        assert mark.through >= NUMBERS_RESERVED
    seq = bus.supervisor.world.seq
    assert look(home).mark == Mark(bus.supervisor.world.bus, seq + NUMBERS_RESERVED, seq)


async def test_a_folder_taken_away_is_written_again(home: Home) -> None:
    config = parse_config("[resources.gpu]\n", "bus.toml")
    async with running(home, MemoryStore(), config) as (bus, _):
        a = bus.client("a")
        await a.ask("REQUEST machine/r - x")
        await until(home, "r.md", "| owner | a |")
        os.rename(home.states, home.root / "away")
        await a.ask("REQUEST machine/other - x")
        for name in ("r.md", "gpu.md", "other.md", ".numbers"):
            await until(home, name, "bus")


async def test_what_is_planted_is_replaced_or_refused_and_never_followed(home: Home, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (home.states / "linked.md").symlink_to(precious)
    (home.states / "taken.md").mkdir()
    (home.states / "notes.md").write_text("my own notes\n")
    os.mkfifo(home.states / "pipe.md")
    async with running(home, MemoryStore()) as (bus, _):
        a = bus.client("a")
        for name in ("linked", "pipe"):
            assert (await a.ask(f"REQUEST machine/{name} - x"))["state"] == "recovery_required"
            await until(home, f"{name}.md", "recovery required")
        refused = await a.ask("REQUEST machine/another - x")
        assert refused["type"] == "GRANTED"
    assert precious.read_text() == "precious"
    assert (home.states / "notes.md").read_text() != "my own notes\n", "its name is a resource's: in doubt, as any"


async def test_a_file_that_cannot_be_made_is_told_to_the_one_who_asked(home: Home) -> None:
    async with running(home, MemoryStore()) as (bus, states):
        a = bus.client("a")
        await a.ask("REQUEST machine/first - x")
        (home.states / "taken.md").mkdir()
        refused = await a.ask("REQUEST machine/taken - x")
        assert refused["code"] == "JOURNAL_UNAVAILABLE"
        assert "taken.md cannot be written (a folder has its name)" in refused["why"]
        assert states.problem
        (home.states / "taken.md").rmdir()
        assert (await a.ask("REQUEST machine/taken - x"))["type"] == "GRANTED"
        assert not states.problem


async def test_the_state_is_shown_where_the_configuration_wants_it_too(home: Home, tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    toml = f"[resources.r]\nstate_file = '{tmp_path}/elsewhere/r.md'\n[resources.s]\nstate_file = 'here/s.md'\n"
    config = parse_config(toml, f"{home.root}/bus.toml")
    mine = tmp_path / "mine.md"
    mine.write_text("my own\n")
    async with running(home, MemoryStore(), config) as (bus, _):
        await bus.client("a").ask("REQUEST machine/r - x")
        await until(home, "r.md", "| owner | a |")
        await until(home, "../here/s.md", "| state | free |")
    assert "| owner | a |" in (tmp_path / "elsewhere" / "r.md").read_text()


async def test_a_file_of_somebody_elses_is_not_written_over(home: Home, tmp_path: Path) -> None:
    mine = tmp_path.resolve() / "mine.md"
    mine.write_text("my own\n")
    config = parse_config(f"[resources.r]\nstate_file = '{mine}'\n", f"{home.root}/bus.toml")
    async with running(home, MemoryStore(), config) as (bus, states):
        await bus.client("a").ask("REQUEST machine/r - x")
        await until(home, "r.md", "| owner | a |")
        await until_true(lambda: states.problem != "")
        assert "no state file" in states.problem
    assert mine.read_text() == "my own\n"


@pytest.mark.parametrize("path", ["../x.md", "~/x.md", "a/../b.md", "x.txt", "x"])
async def test_a_state_file_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r"must be the path of a \.md file"):
        parse_config(f"[resources.r]\nstate_file = '{path}'\n", "/home/bus.toml")


async def test_two_resources_cannot_share_a_state_file() -> None:
    toml = "[resources.r]\nstate_file = 'x.md'\n[resources.s]\nstate_file = '/home/x.md'\n"
    with pytest.raises(ConfigError, match="another resource's state_file too"):
        parse_config(toml, "/home/bus.toml")


async def test_what_a_killed_supervisor_was_writing_is_swept_away(home: Home) -> None:
    (home.states / ".tmp-0123").write_text("half")
    async with running(home, MemoryStore()):
        assert not (home.states / ".tmp-0123").exists()
