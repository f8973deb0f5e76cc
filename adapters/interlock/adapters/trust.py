"""The trust store: which content of which repository's `bus.toml` a person has trusted. One small file of the home.

It is written whole and renamed into place, by `bus config trust|untrust` and `bus forget`; the supervisor reads it.
No link is followed, neither to it nor to a repository's file.
"""

import os
from collections.abc import Iterable
from typing import Any

from interlock.adapters.git import place_of
from interlock.adapters.kept_list import KeptList, read_bounded, stamp_of
from interlock.adapters.paths import Home
from interlock.coordinator.repositories import Place, Stamp, Trusted
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.limits import REPOSITORIES_TRUSTED_MAX, REPOSITORY_CONFIG_BYTES_MAX, TRUST_STORE_BYTES_MAX

NAME = "trusted.json"
FIELDS = ("id", "common", "file", "sha256", "at")  # of a row, in the order of Trusted's
NONE = "no trust store: move it away, then run bus config trust for each repository again"


class LocalRepositories:
    """Implements coordinator.repositories.RepositoryFiles. Args: home: whose trust store it is."""

    def __init__(self, home: Home) -> None:
        self.store = home.root / NAME
        self._list = KeptList(
            self.store, "repositories", _entry, _row,
            bytes_max=TRUST_STORE_BYTES_MAX, entries_max=REPOSITORIES_TRUSTED_MAX, none=NONE,
        )  # fmt: skip

    def place(self, directory: str) -> Place | None:
        return place_of(directory)

    def trusted(self) -> tuple[Trusted, ...]:
        return self._list.read()

    def trusted_stamp(self) -> Stamp:
        return self._list.stamp()

    def read(self, file: str) -> bytes:
        return read_bounded(file, REPOSITORY_CONFIG_BYTES_MAX)

    def stamp(self, file: str) -> Stamp:
        return stamp_of(file)

    def trust(self, entry: Trusted) -> None:
        """Take a person's word; an earlier one about the same repository is replaced. Raises ConfigError, OSError."""
        with self._list.alone() as write:
            others = [each for each in self.trusted() if each.id != entry.id]
            if len(others) >= REPOSITORIES_TRUSTED_MAX:
                raise ConfigError(f"{len(others)} repositories are trusted, no more can be: bus forget --gone")
            write([*others, entry])

    def distrust(self, ids: Iterable[str]) -> None:
        """Take it back. Raises ConfigError, OSError."""
        with self._list.alone() as write:
            gone = set(ids)
            write([each for each in self.trusted() if each.id not in gone])


def _entry(row: Any) -> Trusted:
    values = [row[name] for name in FIELDS]
    if not all(isinstance(each, str) and "\0" not in each for each in values) or not os.path.isabs(values[2]):
        raise ValueError("no entry")
    return Trusted(*values)


def _row(entry: Trusted) -> dict[str, str]:
    return {name: getattr(entry, name) for name in FIELDS}
