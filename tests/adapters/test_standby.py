"""A keeper on standby: taken it is as good as any other; not taken it is gone, and has executed nothing."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from tests.adapters.launching import PATIENCE_S

from interlock.adapters import standby
from interlock.adapters.launches import Gone, LaunchFailed, LaunchSpec, open_keeper, read_result
from interlock.adapters.process import identify, wait_gone
from interlock.adapters.standby import Standby
from interlock.protocol.identity import Identity

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="a sub-reaper and /proc")]
UNIT = ("machine/web", "1")


def spec(folder: Path) -> LaunchSpec:
    output = folder / "output.log"
    output.touch()
    return LaunchSpec(
        argv=("/bin/sh", "-c", "echo out; echo err >&2"),
        cwd=str(folder),
        env={"PATH": "/usr/bin:/bin"},
        result=str(folder / "launch.jsonl"),
        launch="launch",
        output=str(output),
    )


async def test_it_keeps_what_it_is_told_later_and_prints_into_its_file(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        kept = Standby(tasks)
        kept.prepare(UNIT)
        waiting = kept.take(UNIT)
        assert waiting is not None
        assert kept.take(UNIT) is None
        with anyio.fail_after(PATIENCE_S):
            keeper = await open_keeper(spec(tmp_path), *waiting)
            assert not (tmp_path / "output.log").read_bytes()
            await keeper.go()
            assert isinstance([event async for event in keeper.events][-1], Gone)
        keeper.close()
        assert (tmp_path / "output.log").read_text() == "out\nerr\n"
        assert read_result(tmp_path / "launch.jsonl").code == 0


async def test_one_that_is_not_taken_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "KEPT_S", 0.0)
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            kept = Standby(tasks)
            kept.prepare(UNIT)
            pid = kept._kept[UNIT][0].pid
            identity = identify(pid)
            assert identity is not None
            kept.drop_soon(UNIT)
            await wait_gone(identity)
    assert kept.take(UNIT) is None


def killed_supervisor() -> Identity:
    """One on standby, whose supervisor has been killed since."""
    program = (
        "import sys\nfrom interlock.adapters.standby import Standby\n"
        "kept = Standby(None); kept.prepare(('a', '1')); print(kept._kept['a', '1'][0].pid, flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        identity = identify(int(supervisor.stdout.readline()))
        supervisor.kill()
    assert identity is not None
    return identity


async def test_it_leaves_when_we_die() -> None:
    with anyio.fail_after(PATIENCE_S):
        await wait_gone(killed_supervisor())


async def test_one_that_has_died_is_not_handed_out() -> None:
    async with anyio.create_task_group() as tasks:
        kept = Standby(tasks)
        kept.prepare(UNIT)
        process = kept._kept[UNIT][0]
        identity = identify(process.pid)
        assert identity is not None
        process.kill()
        with anyio.fail_after(PATIENCE_S):
            await wait_gone(identity)
            assert kept.take(UNIT) is None


async def test_a_file_that_cannot_be_printed_into_executes_nothing(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        kept = Standby(tasks)
        kept.prepare(UNIT)
        waiting = kept.take(UNIT)
        assert waiting is not None
        with anyio.fail_after(PATIENCE_S), pytest.raises(LaunchFailed, match="cannot work"):
            await open_keeper(replace(spec(tmp_path), output=str(tmp_path / "none.log")), *waiting)
