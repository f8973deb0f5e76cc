"""The folder of state files on disk: what is there, and how it is written. Everything here waits for the disk.

    shared-resources/<resource>.md    one a resource, see coordinator/state_text.py
    shared-resources/.numbers         the high-water mark

Nothing is followed, and nothing that the bus did not write is removed, or written over outside of this folder.
"""

import os
import stat
import sys

import msgspec

from interlock.adapters import private_files
from interlock.adapters.paths import Home
from interlock.adapters.survivors import survivors
from interlock.coordinator import state_text
from interlock.coordinator.states import Found, Mark, StateFacts
from interlock.protocol.limits import RESOURCES_LIVE_MAX, STATE_FILE_BYTES_MAX
from interlock.protocol.names import key_of_state_file, state_file_name

NUMBERS = ".numbers"
MARK_BYTES_MAX = 4_096
FOLDS_CASE = sys.platform == "darwin"


class StateFolder:
    """Args: home: whose. Every method may be called from any thread, one at a time, and raises OSError."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.path = str(home.states)

    def look(self) -> Found:
        """All that is there at the start of a supervisor; what a killed one was writing is swept away."""
        with _Folder(self.path) as folder:
            for entry in os.scandir(folder):
                if entry.name.startswith(private_files.TEMPORARY):
                    os.unlink(entry.name, dir_fd=folder)
        found = self.read()
        return Found(found.mark, found.files, survivors(self._home))

    def read(self) -> Found:
        """The mark and the files. Changes nothing."""
        files: dict[str, StateFacts | None] = {}
        folder = private_files.open_folder(self.path)
        try:
            for entry in os.scandir(folder):
                key = key_of_state_file(entry.name)
                if key is not None and len(files) < RESOURCES_LIVE_MAX:
                    facts = state_text.read(private_files.read_whole(folder, entry.name, STATE_FILE_BYTES_MAX) or b"")
                    files[key] = facts if facts is not None and facts.key == key else None
            mark = _mark(private_files.read_whole(folder, NUMBERS, MARK_BYTES_MAX) or b"")
        finally:
            os.close(folder)
        return Found(mark, files)

    def inode(self) -> tuple[int, int]:
        """What tells this folder from another one under its name; (0, 0) where there is none."""
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            return (0, 0)
        return (found.st_dev, found.st_ino)

    def create(self, keys: list[str]) -> dict[str, str]:
        """See that these keys have a file, durably. Returns what went wrong, by key."""
        failed = {}
        with _Folder(self.path) as folder:
            for key in keys:
                try:
                    private_files.make_sure(folder, _name(key))
                except OSError as error:
                    failed[key] = f"{self.path}/{_name(key)} cannot be written ({error.strerror})"
            os.fsync(folder)
        return failed

    def write(self, files: list[tuple[str, bytes, str]]) -> dict[str, str]:
        """Write state files, each (key, content, another place to show it at or ""). Returns what went wrong."""
        failed = {}
        with _Folder(self.path) as folder:
            for key, data, elsewhere in files:
                path = f"{self.path}/{_name(key)}"
                try:
                    private_files.write_whole(folder, _name(key), data)
                    if elsewhere:
                        path = elsewhere
                        _show(elsewhere, data)
                except OSError as error:
                    failed[key] = f"{path} cannot be written ({error.strerror})"
        return failed

    def remove(self, keys: list[str]) -> None:
        """Take away the files of resources that nobody has or wants; what the bus did not write stays."""
        with _Folder(self.path) as folder:
            for key in keys:
                data = private_files.read_whole(folder, _name(key), STATE_FILE_BYTES_MAX)
                if data is not None and state_text.is_ours(data):
                    os.unlink(_name(key), dir_fd=folder)

    def write_mark(self, mark: Mark) -> None:
        """Keep the high-water mark, fsynced when this returns."""
        with _Folder(self.path) as folder:
            private_files.write_whole(folder, NUMBERS, msgspec.json.encode(mark) + b"\n", durable=True)


class _Folder:
    """The folder, open; made where it has gone."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> int:
        if not os.path.lexists(self._path):
            os.mkdir(self._path, 0o700)
        self._fd = private_files.open_folder(self._path)
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _name(key: str) -> str:
    return state_file_name(key, folds_case=FOLDS_CASE)


def _mark(data: bytes) -> Mark | None:
    try:
        return msgspec.json.decode(data, type=Mark)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _show(path: str, data: bytes) -> None:
    """Write a state file where a configuration wants it. It is never read from there: others may write there too."""
    place, _, name = path.rpartition("/")
    folder = private_files.walk_to(place)
    try:
        try:
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            kind = 0
        before = private_files.read_whole(folder, name, STATE_FILE_BYTES_MAX) if stat.S_ISREG(kind) else None
        if kind and (before is None or not state_text.is_ours(before)):
            raise FileExistsError(0, "it is there already and no state file: move it away, or name another state_file")
        private_files.write_whole(folder, name, data)
    finally:
        os.close(folder)
