"""A signal that comes in the very moment before a call that waits does not end that call: so no call waits for long."""

import contextlib

import anyio
import anyio.lowlevel
import pytest

from interlock.adapters.cli.connection import DEAF_S, Connection
from interlock.adapters.cli.options import Options
from interlock.adapters.client import loop_thread


class Silent:
    """A socket on which nothing comes for a while."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.waited: list[float | None] = []

    def settimeout(self, timeout_s: float | None) -> None:
        self.waited.append(timeout_s)

    def recv(self, _: int) -> bytes:
        self.times -= 1
        if self.times >= 0:
            raise TimeoutError
        return b'{"to":"ann"}\n'


def test_the_command_looks_up_from_a_wait_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUS_HOME", "/nowhere")
    connection, silent = Connection(Options()), Silent(3)
    connection._socket = silent  # type: ignore[assignment] # all that is asked of one here
    assert connection.receive(None) == {"to": "ann"}
    assert silent.waited == [DEAF_S] * 4


def test_its_own_limit_counts_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUS_HOME", "/nowhere")
    clock = iter([0.0, 0.0, 0.9, 1.8, 2.6])
    monkeypatch.setattr("interlock.adapters.cli.connection.time.monotonic", lambda: next(clock))
    connection, silent = Connection(Options()), Silent(9)
    connection._socket = silent  # type: ignore[assignment] # all that is asked of one here
    assert connection.receive(2.5) == {}
    assert silent.waited == [DEAF_S, DEAF_S, pytest.approx(0.7)]


def test_the_library_looks_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[None]()
    look = loop_thread.Gate.look

    def count(gate: loop_thread.Gate) -> None:
        looked.append(None)
        look(gate)

    async def work() -> int:
        while len(looked) < 3:
            await anyio.lowlevel.checkpoint()
        return 7

    thread = loop_thread.LoopThread(contextlib.AsyncExitStack())
    thread.open()
    monkeypatch.setattr(loop_thread, "DEAF_S", 0.01)
    monkeypatch.setattr(loop_thread.Gate, "look", count)
    try:
        assert thread.call(work) == 7
    finally:
        thread.close()
