"""Who listens on a port: found on both kinds of address, told apart by tree, and never guessed."""

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import anyio
import msgspec
import psutil
import pytest
from tests.end_to_end.playground import free_port, stranger
from tests.polling import WAIT_S

from interlock.adapters.launches import Gone, LaunchSpec, start_keeper
from interlock.adapters.listeners import Listener, belongs, free, held_by, listeners
from interlock.adapters.listening_sockets import asked, printed
from interlock.adapters.paths import Home
from interlock.adapters.process import identify
from interlock.adapters.readiness import in_the_way
from interlock.protocol.resource_events import OURS, may_end

FAMILIES = [
    pytest.param(socket.AF_INET, "127.0.0.1", id="v4"),
    pytest.param(socket.AF_INET, "0.0.0.0", id="v4-any"),
    pytest.param(socket.AF_INET6, "::1", id="v6"),
    pytest.param(socket.AF_INET6, "::", id="v6-any"),
]
SERVER = """
import os, socket, time
server = socket.create_server(("127.0.0.1", 0))
server.set_inheritable(True)
if os.fork():
    os.write(1, f"{server.getsockname()[1]} {os.getpid()}\\n".encode())
time.sleep(600)
"""


@contextmanager
def listening(family: socket.AddressFamily, address: str) -> Iterator[int]:
    try:
        server = socket.socket(family, socket.SOCK_STREAM)
        server.bind((address, 0))
    except OSError as error:
        pytest.skip(f"no such address here: {error}")
    with server:
        server.listen()
        yield server.getsockname()[1]


@pytest.mark.parametrize(("family", "address"), FAMILIES)
def test_a_listener_is_found_with_its_process(family: socket.AddressFamily, address: str) -> None:
    with listening(family, address) as port:
        [found] = listeners([port])

        assert (found.port, found.address, found.pid) == (port, address, os.getpid())
        assert found.command.split()[0] == psutil.Process().cmdline()[0]
        assert found.user is not None
        assert found.since_ms is not None
        assert 0 <= time.time() * 1000 - found.since_ms < 24 * 3600 * 1000
        assert not free(port)
    assert listeners([port]) == []
    assert free(port)


def test_only_the_ports_asked_about_are_told() -> None:
    with listening(socket.AF_INET, "127.0.0.1") as one, listening(socket.AF_INET, "127.0.0.1") as two:
        assert [found.port for found in listeners([one])] == [one]
        assert [found.port for found in listeners([two, one])] == sorted([one, two])
        assert listeners([]) == []


def test_a_port_that_is_bound_but_does_not_listen_is_not_free() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]

        assert listeners([port]) == []
        assert not free(port)


def test_a_connection_that_is_closing_blocks_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            accepted.close()  # the server's side closes first, and waits in TIME_WAIT
            assert client.recv(1) == b""
    assert free(port)


def test_a_listener_whose_process_cannot_be_seen_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.adapters.listeners.inodes_of", lambda pid: iter(()))
    me = identify(os.getpid())
    assert me is not None
    with listening(socket.AF_INET, "127.0.0.1") as port:
        [found] = listeners([port])

        assert (found.pid, found.command, found.since_ms) == (None, "", None)
        assert not belongs(found, me)
        assert not free(port)


@pytest.mark.skipif(sys.platform != "linux", reason="netlink and /proc")
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_kernel_answers_what_it_prints(family: socket.AddressFamily) -> None:
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    with listening(family, address) as port, listening(family, address):
        shown = [found for name in ("tcp", "tcp6") for found in printed(name) if found.port == port]

        assert asked(port) == shown
        assert [(found.port, found.address, found.uid) for found in shown] == [(port, address, os.getuid())]
    assert asked(port) == []


@pytest.mark.skipif(sys.platform != "linux", reason="netlink and /proc")
def test_where_the_kernel_cannot_be_asked_its_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(port: int) -> NoReturn:
        raise OSError(errno.EPROTONOSUPPORT, "no such family")

    monkeypatch.setattr("interlock.adapters.listening_sockets.asked", refused)
    with listening(socket.AF_INET, "127.0.0.1") as port:
        assert [found.pid for found in listeners([port])] == [os.getpid()]


@pytest.mark.skipif(sys.platform != "linux", reason="the keeper's tree needs a sub-reaper")
@pytest.mark.anyio
async def test_a_listener_in_the_keeper_s_tree_is_ours_and_a_stranger_is_not(tmp_path: Path) -> None:
    spec = LaunchSpec(
        argv=("sh", "-c", '"$0" -c "$1" & wait', sys.executable, SERVER),
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        result=str(tmp_path / "launch.jsonl"),
        launch="launch",
        stop_timeout_ms=100,
    )
    read, write = os.pipe()
    keeper = await start_keeper(
        spec, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.DEVNULL, new_session=True
    )
    os.close(write)
    try:
        await keeper.go()
        with anyio.fail_after(WAIT_S):
            await anyio.wait_readable(read)
            port, master = (int(word) for word in os.read(read, 100).split())
            with listening(socket.AF_INET, "127.0.0.1") as strange:
                [ours], [stranger] = listeners([port]), listeners([strange])

                assert ours.pid == master, "the oldest holder, not its fork"
                assert belongs(ours, keeper.identity)
                assert held_by(keeper.identity, [port])
                assert not held_by(keeper.identity, [strange])
                assert not held_by(keeper.identity, [port, strange])
                assert not belongs(stranger, keeper.identity)
                assert not belongs(Listener(port, "127.0.0.1", None, "", None, None), keeper.identity)
    finally:
        os.close(read)
        keeper.kill()
        with anyio.CancelScope(shield=True), anyio.fail_after(WAIT_S):
            events = [event async for event in keeper.events]
        keeper.close()
    assert isinstance(events[-1], Gone)
    assert listeners([port]) == []


def test_a_server_of_another_resource_of_this_bus_is_named_and_no_stranger(tmp_path: Path) -> None:
    home, port = Home(tmp_path / "bus"), free_port()
    home.create()
    keeper = identify(os.getpid())  # whose child the listener is
    with stranger(port) as pid:
        assert f"(pid {pid}, since " in in_the_way((port,), home)
        up = {"event": "up", "identity": msgspec.to_builtins(keeper), "subreaper": True, "resource": "machine/a"}
        (home.launches / "a-1-00.jsonl").write_bytes(msgspec.json.encode(up) + b"\n")
        said = in_the_way((port,), home)
    assert said == f"port {port} is held by {OURS}machine/a: bus status machine/a says who has it"
    assert not may_end(said)
    assert in_the_way((port,), home) == ""
