"""A list that people keep in one small JSON file of the home: read whole and bounded, written whole, by one at a time.

No link is followed. What is no such list is refused with one sentence, and never overwritten.
"""

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from interlock.adapters.private_files import open_folder, write_whole
from interlock.adapters.small_files import read_regular
from interlock.coordinator.repositories import Stamp
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.envelope import wire_time
from interlock.protocol.visible import visible

Entry = TypeVar("Entry")
VERSION = 1


class KeptList(Generic[Entry]):
    """One such file.

    Args:
        path: absolute. rows: the key that its rows stand under.
        entry: makes one of a row; raises ValueError, TypeError or KeyError. row: the other way round.
        bytes_max, entries_max: more is not read. none: what is said of a file that is no such list.
    """

    def __init__(
        self, path: Path, rows: str, entry: Callable[[Any], Entry], row: Callable[[Entry], Any], *,
        bytes_max: int, entries_max: int, none: str,
    ) -> None:  # fmt: skip
        self.path = path
        self._rows = rows
        self._entry = entry
        self._row = row
        self._bytes_max = bytes_max
        self._entries_max = entries_max
        self._none = none

    def read(self) -> tuple[Entry, ...]:
        """All of it; nothing where there is no file. Raises ConfigError."""
        try:
            data = read_bounded(str(self.path), self._bytes_max)
        except FileNotFoundError:
            return ()
        try:
            found = json.loads(data)
            if found["version"] != VERSION:
                raise ConfigError(f"{self.path}: written by a newer bus: use that one")
            return tuple(self._entry(each) for each in found[self._rows])[: self._entries_max]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ConfigError(f"{self.path}: {self._none}") from None

    def stamp(self) -> Stamp:
        """Changes when it does."""
        return stamp_of(str(self.path))

    @contextmanager
    def alone(self) -> Iterator[Callable[[Sequence[Entry]], None]]:
        """To change it: what it gives writes all of it. Two people at two terminals do not lose each other's word.

        Raises OSError, with the path where it cannot be written.
        """
        folder = open_folder(str(self.path.parent))
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield lambda entries: self._write(folder, entries)
        finally:
            os.close(folder)

    def _write(self, folder: int, entries: Sequence[Entry]) -> None:
        text = json.dumps({"version": VERSION, self._rows: [self._row(each) for each in entries]}, indent=1) + "\n"
        try:
            write_whole(folder, self.path.name, text.encode(), durable=True)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None


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
    """The present moment, as it stands in such a list."""
    return wire_time(time.time_ns() // 1_000_000)
