"""Launches under test: a keeper with its command's output, and everything in it gone afterwards."""

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
from tests.polling import WAIT_S

from interlock.adapters.launches import Keeper, KeeperEvent, LaunchSpec, start_keeper
from interlock.adapters.process import identify, send_signal, wait_gone
from interlock.protocol.identity import Identity

PATIENCE_S = WAIT_S
Wanted = TypeVar("Wanted")

# A tree that does all it can to be missed: ignores SIGTERM, forks twice, leaves the session and its parent. Every
# member prints its pid.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def say(): os.write(1, f"{os.getpid()}\\n".encode())
say()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        say()
        time.sleep(600)
    os._exit(0)
if os.fork() == 0:
    say()
    time.sleep(600)
time.sleep(600)
"""


class Output:
    """The command's stdout, line by line."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)
        self.buffer = b""

    async def line(self) -> str:
        with anyio.fail_after(PATIENCE_S):
            while b"\n" not in self.buffer:
                await anyio.wait_readable(self.read)
                chunk = os.read(self.read, 65536)
                assert chunk, f"the output ended; left over: {self.buffer!r}"
                self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    async def lines(self) -> list[str]:
        """All there is to the end; only for a command that has ended and left nobody."""
        with anyio.fail_after(PATIENCE_S):
            await anyio.wait_readable(self.read)
        self.buffer += os.read(self.read, 65536)
        return self.buffer.decode().splitlines()

    async def pids(self, count: int) -> list[Identity]:
        return [known(int(await self.line())) for _ in range(count)]

    def close(self) -> None:
        os.close(self.read)
        if self.write >= 0:
            os.close(self.write)


class Launch:
    """One launch under test, and everything in it that must be gone afterwards."""

    def __init__(self, keeper: Keeper, spec: LaunchSpec, output: Output) -> None:
        self.keeper = keeper
        self.spec = spec
        self.output = output
        self.result = Path(spec.result)
        self.events = keeper.events

    async def until(self, kind: type[Wanted]) -> Wanted:
        """The next event of this kind; those before it are passed over."""
        with anyio.fail_after(PATIENCE_S):
            async for event in self.events:
                if isinstance(event, kind):
                    return event
        raise AssertionError(f"the keeper left without {kind.__name__}")

    async def rest(self) -> list[KeeperEvent]:
        with anyio.fail_after(PATIENCE_S):
            return [event async for event in self.events]


def known(pid: int) -> Identity:
    identity = identify(pid)
    assert identity is not None, f"no process {pid}"
    return identity


def lines(path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


async def all_gone(members: Iterable[Identity]) -> None:
    with anyio.fail_after(PATIENCE_S):
        for member in members:
            await wait_gone(member)


@asynccontextmanager
async def launched(
    folder: Path,
    *argv: str,
    env: Mapping[str, str] | None = None,
    attached: bool = False,
    stop_timeout_ms: int = 300,
    go: bool = True,
    launch: str = "launch-1",
    cwd: str = "/",
    new_session: bool = True,
) -> AsyncIterator[Launch]:
    """A launch whose tree is killed at the end, whatever happened."""
    spec = LaunchSpec(
        argv=argv,
        cwd=cwd,
        env={"PATH": os.environ["PATH"]} | dict(env or {}),
        result=str(folder / f"{launch}.jsonl"),
        launch=launch,
        stop_timeout_ms=stop_timeout_ms,
        attached=attached,
    )
    output = Output()
    keeper = None
    try:
        keeper = await start_keeper(
            spec, stdin=subprocess.DEVNULL, stdout=output.write, stderr=subprocess.STDOUT, new_session=new_session
        )
        os.close(output.write)
        output.write = -1
        if go:
            await keeper.go()
        yield Launch(keeper, spec, output)
    finally:
        output.close()
        if keeper is not None:
            keeper.kill()
            keeper.close()
            send_signal(keeper.identity, signal.SIGTERM)
            with anyio.CancelScope(shield=True), anyio.fail_after(PATIENCE_S):
                await keeper.wait()
