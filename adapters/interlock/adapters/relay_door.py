"""The relay door: sessions over files, for commands that a sandbox keeps from the socket. Source: contract §5, ADR 13.

    relay/<16 hex>/up      the client appends its lines, and holds a record lock while it lives
                  /down    the bus appends its lines, and holds a record lock while the session lives
                  /read    how many bytes of `down` the client has read

The kernel says which process holds the lock of `up`: that, and nothing that a client writes, is who it is.
"""

import contextlib
import os
import re
import time
from pathlib import Path

import anyio
import structlog

from interlock.adapters.callers import PeerCaller
from interlock.adapters.folder_watch import CLOSE_WRITE, MODIFY, FolderWatch
from interlock.adapters.folders import Folder, Folders
from interlock.adapters.process_table import here
from interlock.adapters.record_lock import holder, take
from interlock.adapters.relay_transport import Ends, RelayTransport
from interlock.adapters.safe_files import Unsafe, look_at, open_directory, open_regular
from interlock.adapters.stream_session import Doorkeeper, StreamSession
from interlock.protocol.identity import Identity
from interlock.protocol.limits import RELAYS_MAX, RELAYS_OF_ONE_MAX
from interlock.protocol.names import COORDINATOR

log = structlog.get_logger("relay_door")
NAME = re.compile(r"[0-9a-f]{16}")
LOOKED_AT_MAX = 1_024  # entries of one relay/ in one look
LEFT_NS = 60_000_000_000  # a client makes a stream's files in a moment
POLL_S = 0.1  # while a reader is slow, or where nothing notifies


class RelayCaller(PeerCaller):
    """Who holds the lock. Args: pid: as the kernel translates it into our numbers, 0 where it is not seen from here."""

    def bind_to(self, pid: int) -> tuple[Identity, str] | None:
        """A process by the client's number; in another pid namespace that number is not ours."""
        try:
            same = bool(self._pid) and os.stat(f"/proc/{self._pid}/ns/pid").st_ino == here().pid_namespace
        except OSError:
            same = False
        return super().bind_to(pid) if same else None


class RelayDoor:
    """One per bus. Args: doorkeeper: as every stream door has it."""

    def __init__(self, doorkeeper: Doorkeeper, folders: Folders, watch: FolderWatch) -> None:
        self._doorkeeper = doorkeeper
        self._folders = folders
        self._watch = watch
        self._streams: dict[Path, RelayTransport] = {}
        self._left_out: dict[str, None] = {}  # folders with more streams than there was room for
        self._slow = anyio.Event()

    def is_busy(self) -> bool:
        return bool(self._streams)

    async def run(self) -> None:
        """Poll what nobody notifies of: how far slow readers have come."""
        while True:
            self._slow = anyio.Event()
            if any(stream.is_slow() for stream in self._streams.values()) or (self._streams and not self._watch.works):
                await anyio.sleep(POLL_S)
                self.poll()
            else:
                await self._slow.wait()

    def look(self, agent: str) -> None:
        """Take up what is new in a folder's relay/, and clear what was left there."""
        self._folders.using(agent, self._look)

    def heard(self, path: Path) -> None:
        """A client's file has changed. Args: path: of that file."""
        stream = self._streams.get(path.parent)
        if stream is not None:
            stream.poll()

    def poll(self) -> None:
        """Look at all of them."""
        for stream in list(self._streams.values()):
            stream.poll()

    def close(self) -> None:
        for stream in list(self._streams.values()):
            stream.abort()

    def _look(self, folder: Folder) -> bool:
        relay, path = folder["relay"], self._folders.path(folder.agent) / "relay"
        with os.scandir(relay) as entries:
            names = [entry.name for _, entry in zip(range(LOOKED_AT_MAX), entries, strict=False)]
        for name in names:
            if path / name in self._streams:  # taken up
                continue
            if name.startswith("."):  # still being made, or left by a client that was killed as it made it
                if _is_left(relay, name):
                    clear(relay, name)
                continue
            if not self._has_room(folder.agent, path):
                log.warning("too_many_relays", agent=folder.agent, limit=RELAYS_MAX, of_one=RELAYS_OF_ONE_MAX)
                self._left_out[folder.agent] = None
                break
            ends = _open(relay, name) if NAME.fullmatch(name) else None
            if ends is None:
                clear(relay, name)
            else:
                self._take_up(folder.agent, path / name, ends)
        return True

    def _has_room(self, agent: str, path: Path) -> bool:
        mine = sum(each.parent == path for each in self._streams)
        return len(self._streams) < RELAYS_MAX and (agent == COORDINATOR or mine < RELAYS_OF_ONE_MAX)

    def _take_up(self, agent: str, path: Path, ends: Ends) -> None:
        owner = "" if agent == COORDINATOR else agent
        caller = RelayCaller(ends.pid)

        def ended() -> None:
            self._watch.drop(path / "up")
            self._streams.pop(path, None)
            self._folders.using(agent, lambda folder: clear(folder["relay"], path.name))
            left_out, self._left_out = self._left_out, {}
            for each in left_out:
                self.look(each)

        def slow() -> None:
            self._slow.set()

        session = StreamSession(self._doorkeeper, lambda _: caller, owner=owner, claimed=True)
        stream = self._streams[path] = RelayTransport(ends, session, ended, slow)
        self._watch.add(path / "up", MODIFY | CLOSE_WRITE, file=True)
        stream.start()


def _open(relay: int, name: str) -> Ends | None:
    """Open a client's files; None where no living client made them, or their session is over."""
    try:
        directory = open_directory(name, relay)
    except (FileNotFoundError, Unsafe):
        return None
    opened: list[int] = []
    try:
        opened.append(open_regular("up", directory, os.O_RDONLY))
        opened.append(open_regular("down", directory, os.O_WRONLY | os.O_APPEND))
        opened.append(open_regular("read", directory, os.O_RDONLY))
        pid = holder(opened[0])
        if pid is not None and os.fstat(opened[1]).st_size == 0 and take(opened[1]):
            return Ends(opened[0], opened[1], opened[2], pid)
    except (OSError, Unsafe):
        pass
    finally:
        os.close(directory)
    for fd in opened:
        os.close(fd)
    return None


def _is_left(relay: int, name: str) -> bool:
    found = look_at(name, relay)
    return found is not None and time.time_ns() - found.ctime_ns > LEFT_NS


def clear(relay: int, name: str) -> bool:
    """Remove what a stream has left. A link is removed, never followed; what else lies there stays, and is harmless."""
    found = look_at(name, relay)
    with contextlib.suppress(OSError, Unsafe):
        if found is not None and found.why_not != "it is a directory, and only a regular file is read":
            os.unlink(name, dir_fd=relay)
            return True
        directory = open_directory(name, relay)
        try:
            for each in ("up", "down", "read"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(each, dir_fd=directory)
        finally:
            os.close(directory)
        os.rmdir(name, dir_fd=relay)
    return True
