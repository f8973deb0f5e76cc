"""The trust store: which content of which repository's `bus.toml` a person has trusted. One small file of the home.

It is written whole and renamed into place, by `bus config trust|untrust` and `bus forget`; the supervisor reads it.
No link is followed, neither to it nor to a repository's file.
"""

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from interlock.adapters.git import place_of
from interlock.adapters.paths import Home
from interlock.adapters.private_files import write_whole
from interlock.adapters.small_files import read_regular
from interlock.coordinator.repositories import Place, Stamp, Trusted
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.envelope import wire_time
from interlock.protocol.limits import REPOSITORIES_TRUSTED_MAX, REPOSITORY_CONFIG_BYTES_MAX, TRUST_STORE_BYTES_MAX
from interlock.protocol.visible import visible

NAME = "trusted.json"
VERSION = 1


class LocalRepositories:
    """Implements coordinator.repositories.RepositoryFiles. Args: home: whose trust store it is."""

    def __init__(self, home: Home) -> None:
        self.store = home.root / NAME

    def place(self, directory: str) -> Place | None:
        return place_of(directory)

    def trusted(self) -> tuple[Trusted, ...]:
        try:
            data = read_bounded(str(self.store), TRUST_STORE_BYTES_MAX)
        except FileNotFoundError:
            return ()
        try:
            found = json.loads(data)
            if found["version"] != VERSION:
                raise ConfigError(f"{self.store}: written by a newer bus: use that one")
            entries = tuple(_entry(each) for each in found["repositories"])
        except (ValueError, TypeError, KeyError, RecursionError):
            why = "no trust store: move it away, then run bus config trust for each repository again"
            raise ConfigError(f"{self.store}: {why}") from None
        return entries[:REPOSITORIES_TRUSTED_MAX]

    def trusted_stamp(self) -> Stamp:
        return stamp_of(str(self.store))

    def read(self, file: str) -> bytes:
        return read_bounded(file, REPOSITORY_CONFIG_BYTES_MAX)

    def stamp(self, file: str) -> Stamp:
        return stamp_of(file)

    def trust(self, entry: Trusted) -> None:
        """Take a person's word; an earlier one about the same repository is replaced. Raises ConfigError, OSError."""
        with self._alone() as folder:
            others = [each for each in self.trusted() if each.id != entry.id]
            if len(others) >= REPOSITORIES_TRUSTED_MAX:
                raise ConfigError(f"{len(others)} repositories are trusted, no more can be: bus forget --gone")
            self._write(folder, [*others, entry])

    def distrust(self, ids: Iterable[str]) -> None:
        """Take it back. Raises ConfigError, OSError."""
        with self._alone() as folder:
            gone = set(ids)
            self._write(folder, [each for each in self.trusted() if each.id not in gone])

    def _write(self, folder: int, entries: list[Trusted]) -> None:
        rows = [{"id": e.id, "common": e.common, "file": e.file, "sha256": e.sha256, "at": e.at} for e in entries]
        text = json.dumps({"version": VERSION, "repositories": rows}, indent=1) + "\n"
        try:
            write_whole(folder, NAME, text.encode(), durable=True)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.store)) from None

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """The folder of the store. Two people at two terminals do not lose each other's word."""
        folder = os.open(self.store.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(folder)


def _entry(row: Any) -> Trusted:
    values = [row[name] for name in ("id", "common", "file", "sha256", "at")]
    if not all(isinstance(each, str) and "\0" not in each for each in values) or not os.path.isabs(values[2]):
        raise ValueError("no entry")
    return Trusted(*values)


def read_bounded(path: str, bytes_max: int) -> bytes:
    """A regular file of at most so many bytes. Raises FileNotFoundError, ConfigError."""
    try:
        data = read_regular(path, bytes_max)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        why = "a symbolic link, and none is followed here" if error.errno == errno.ELOOP else str(error.strerror)
        raise ConfigError(f"{visible(path)}: {why}: put a plain file there") from None
    if len(data) > bytes_max:
        raise ConfigError(f"{visible(path)}: more than {bytes_max} bytes: that is no configuration")
    return data


def stamp_of(path: str) -> Stamp:
    """Changes when a file does; () where there is none."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return ()
    return (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def now() -> str:
    """The present moment, as it stands in the store."""
    return wire_time(time.time_ns() // 1_000_000)
