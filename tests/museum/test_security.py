"""Doors that others could open, and links that led elsewhere. The cases: index.md."""

import asyncio
import os
import socket
from pathlib import Path
from typing import cast

import pytest
from tests.coordinator.bus import Bus

from interlock.adapters import unix_socket
from interlock.adapters.effects import LocalEffects
from interlock.adapters.git_head import short_head
from interlock.adapters.paths import Home
from interlock.adapters.stream_session import Doorkeeper, StreamSession

pytestmark = pytest.mark.anyio


class Connected:
    """A transport that notes what becomes of it."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.said: list[str] = []

    def get_extra_info(self, name: str) -> socket.socket:
        return self.end

    def abort(self) -> None:
        self.said.append("aborted")

    def write(self, data: bytes) -> None:
        self.said.append(data.decode())


@pytest.mark.parametrize(("uid", "is_in"), [(os.getuid() + 1, False), (os.getuid(), True)])
async def test_who_could_reach_the_socket_was_believed_whoever_it_was(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, uid: int, is_in: bool
) -> None:
    """Not only by the modes of files: the kernel says whose process is at the other end."""
    one, other = socket.socketpair()
    with one, other:
        assert unix_socket.peer(one) == (os.getpid(), os.getuid())
        monkeypatch.setattr(unix_socket, "peer", lambda connection: (4711, uid))
        keeper = Doorkeeper(bus.supervisor, bus.router, bus.desk, lambda session: None)
        transport = Connected(one)
        session = StreamSession(keeper, unix_socket._admit)
        session.connection_made(cast("asyncio.Transport", transport))
        assert (transport.said, len(bus.supervisor.sessions)) == (([], 1) if is_in else (["aborted"], 0))


def test_one_folder_under_two_spellings_was_two(tmp_path: Path) -> None:
    """As /private/var and /var: what a worktree is, is its real path."""
    (tmp_path / "real" / "w").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    effects = LocalEffects(Home(tmp_path / "home"), None, lambda key, command: None, 0o022)  # type: ignore[arg-type]  # it starts nothing
    spellings = ["real/w", "link/w", "real/../link/w/", "link//w/."]
    found = {effects.directory(f"{tmp_path}/{each}") for each in spellings}
    assert found == {os.path.realpath(tmp_path / "real" / "w")}
    assert effects.directory("link/w") is None
    assert effects.directory(str(tmp_path / "gone")) is None


def test_a_look_at_a_worktree_failed_on_its_index_lock_or_removed_it(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    git.mkdir()
    for name, text in {
        "HEAD": "ref: refs/heads/main\n", "refs/heads/main": "c0ffee" * 6 + "c0ff\n", "objects/info/x": "",
        "config": "[core]\n\trepositoryformatversion = 0\n",
    }.items():  # fmt: skip
        (git / name).parent.mkdir(parents=True, exist_ok=True)
        (git / name).write_text(text)
    (git / "index.lock").write_text("somebody's")
    assert short_head(str(tmp_path)) == "c0ffeec0ffee"
    assert (git / "index.lock").read_text() == "somebody's"
