"""The relay: a command's lines over files, where a sandbox keeps it from the socket. Standard library only.

    inboxes/coordinator/relay/<16 hex>/   where that can be written: any agent
    inboxes/<agent>/relay/<16 hex>/       where only one's own folder can: that agent

It looks like the socket to `connection.py`: what is said and answered is the same. See relay_door.py for the other end.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from enum import Enum

from interlock.adapters.cli.options import Failure
from interlock.adapters.homes import shows_only_folders, socket_path
from interlock.adapters.lock_facts import NAME, lock_facts
from interlock.adapters.record_lock import holder, take

ACCEPT_S = 7.0  # the bus looks every 2 s where it is not notified
TOLD_BYTES = 32_768  # it is told so often how far we have read
SLEEPS_S = (0.001, 0.002, 0.005, 0.01, 0.02)  # while an answer is awaited; later, as long as a tenth of the waiting
SLEEP_MAX_S = 0.1


class Standing(Enum):
    """What can be said of a supervisor without disturbing it."""

    RUNS = "runs"
    GONE = "gone"
    UNKNOWN = "unknown"


class Relay:
    """One stream. Args: directory: of its files. down, read: their descriptors; `up` is held by a record lock."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._up = os.open(os.path.join(directory, "up"), os.O_WRONLY | os.O_APPEND | flags, 0o600)
        self._down = os.open(os.path.join(directory, "down"), os.O_RDONLY | flags, 0o600)
        self._read = os.open(os.path.join(directory, "read"), os.O_WRONLY | flags, 0o600)
        take(self._up)
        self._at = 0
        self._told = 0
        self._timeout_s: float | None = None

    @property
    def heard_by(self) -> str:
        """The file in which the bus answers."""
        return os.path.join(self._directory, "down")

    def moved(self, directory: str) -> None:
        self._directory = directory

    def settimeout(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s

    def recv(self, size: int) -> bytes:
        """Some bytes; b"" once the bus has ended the session. Raises TimeoutError."""
        begun = time.monotonic()
        until = None if self._timeout_s is None else begun + self._timeout_s
        tries = 0
        while True:
            data = self.read(size)
            if data is not None:
                return data
            now = time.monotonic()
            if until is not None and now >= until:
                raise TimeoutError
            sleep_s = SLEEPS_S[tries] if tries < len(SLEEPS_S) else min(SLEEP_MAX_S, max(0.02, (now - begun) / 10))
            time.sleep(sleep_s if until is None else max(0.0, min(sleep_s, until - now)))
            tries += 1

    def read(self, size: int) -> bytes | None:
        """What there is, at once; b"" once the bus has ended the session, None where nothing has come yet."""
        ended = self._at > 0 and holder(self._down) is None  # looked at first: all that it said is there then
        data = os.pread(self._down, size, self._at)
        if not data:
            return b"" if ended else None
        skip = 1 if self._at == 0 else 0  # the empty line that says that the session is taken up
        self._at += len(data)
        if self._at - self._told > TOLD_BYTES:
            self._told = self._at
            os.pwrite(self._read, str(self._at).encode(), 0)
        return data[skip:] or None

    def sendall(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._up, data) :]

    def is_taken_up(self, within_s: float) -> bool:
        """Wait until the bus has taken it up."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if self.has_begun():
                return True
            time.sleep(0.005)
        return False

    def has_begun(self) -> bool:
        """The bus has taken it up."""
        return os.fstat(self._down).st_size > 0

    def close(self) -> None:
        """Leave: the bus sees the lock go, answers what was asked, and clears the files away."""
        for fd in (self._up, self._down, self._read):
            os.close(fd)

    def unheard(self) -> Failure:
        """Nobody has taken it up in time: leave nothing behind, now that it is closed. Why that is."""
        with contextlib.suppress(OSError):
            for name in ("up", "down", "read"):
                os.unlink(os.path.join(self._directory, name))
            os.rmdir(self._directory)
        place = os.path.dirname(self._directory)
        return Failure(69, f"no supervisor answers in {place}, and none is started from inside a sandbox: {OUTSIDE}")


def connect(root: str, agent: str) -> Relay:
    """A stream that the bus has taken up.

    Args:
        root: the home. agent: the name that was given, "" where none was.

    Raises:
        Failure: 69, with what to allow, or that no supervisor runs.
    """
    relay = begin(root, agent)
    try:
        if relay.is_taken_up(ACCEPT_S):
            return relay
    except BaseException:
        relay.close()
        raise
    relay.close()
    raise relay.unheard()


def begin(root: str, agent: str) -> Relay:
    """The same, before the bus has taken it up. Raises Failure 69."""
    if standing(root) is Standing.GONE:
        raise Failure(69, f"no supervisor runs for {root}, and none is started from inside a sandbox: {OUTSIDE}")
    for place in _places(root, agent):
        with contextlib.suppress(OSError):
            return _make(place)
    raise Failure(69, _denied(root, agent))


def shows_no_socket(root: str) -> bool:
    """Only the folders are to be seen from here: a container, or a sandbox without the socket's directory."""
    if shows_only_folders(root):
        return True
    if socket_path(root).startswith(root):  # we would see it beside the folders
        return False
    return standing(root) is not Standing.GONE


OUTSIDE = "start it outside: bus up"


def standing(root: str) -> Standing:
    """Whether a supervisor runs, as far as its lock file and /proc say. It takes no lock and asks nobody."""
    try:
        facts = lock_facts(os.path.join(root, NAME))
        pid, ticks = int(facts["pid"]), int(facts["start_ticks"])
        boot, namespace = str(facts["boot"]), int(facts["pid_namespace"])
    except FileNotFoundError:
        return Standing.UNKNOWN if os.path.isdir(os.path.join(root, "inboxes")) else Standing.GONE
    except (OSError, ValueError, KeyError, TypeError):
        return Standing.UNKNOWN
    if sys.platform != "linux":
        return Standing.UNKNOWN
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            if file.read().strip() != boot:
                return Standing.GONE
        if os.stat("/proc/self/ns/pid").st_ino != namespace or os.readlink("/proc/self") != str(os.getpid()):
            return Standing.UNKNOWN
    except OSError:
        return Standing.UNKNOWN
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            runs = int(fields[19]) == ticks and fields[0] not in {b"Z", b"X"}
            return Standing.RUNS if runs else Standing.GONE
    except FileNotFoundError:
        return Standing.GONE
    except (OSError, ValueError, IndexError):
        return Standing.UNKNOWN


def _places(root: str, agent: str) -> list[str]:
    """Where a stream can be made, best first. In a container only one folder is to be seen: that is who we are."""
    inboxes = os.path.join(root, "inboxes")
    places = [os.path.join(inboxes, "coordinator", "relay")]
    if agent and "/" not in agent and not agent.startswith("."):
        places.append(os.path.join(inboxes, agent, "relay"))
    with contextlib.suppress(OSError):
        seen = [name for name in os.listdir(inboxes) if name != "coordinator"]
        if len(seen) == 1 and seen[0] != agent:  # whoever is named: the bus says whose folder that is
            places.append(os.path.join(inboxes, seen[0], "relay"))
    return [place for place in places if _is_ours(place)]


def _is_ours(directory: str) -> bool:
    """A directory of this user's, or root's, that nobody else can write to: else another could answer as the bus."""
    try:
        found = os.lstat(directory)
    except OSError:
        return False
    return found.st_uid in {os.getuid(), 0} and found.st_mode & 0o170022 == 0o040000


def _make(place: str) -> Relay:
    """Make the files beside, and put them in place whole. Raises OSError."""
    name = os.urandom(8).hex()
    beside, directory = os.path.join(place, f".new-{name}"), os.path.join(place, name)
    os.mkdir(beside, 0o700)
    try:
        relay = Relay(beside)
    except OSError:
        os.rmdir(beside)
        raise
    os.rename(beside, directory)
    relay.moved(directory)
    return relay


def _denied(root: str, agent: str) -> str:
    """What to allow, in the words of the settings of those who deny it."""
    inboxes = os.path.join(root, "inboxes")
    return (
        f"this program may neither use the bus's socket nor write to {inboxes} (a sandbox): allow it to write there"
        f" (Claude Code: sandbox.filesystem.allowWrite in settings.json, or sandbox.network.allowAllUnixSockets;"
        f" Codex: sandbox_workspace_write.writable_roots in config.toml; a container: mount"
        f" {os.path.join(inboxes, agent or 'NAME')})"
    )
