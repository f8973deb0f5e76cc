"""Repositories: whose `bus.toml` counts. A person trusts a file by its content; once that changes, none of it counts.

    trust store ──▶ Trusted(id, file, sha256) ──▶ the file's bytes ── same hash ──▶ resources `repository/<id>/<name>`
                                                                  └─ another ────▶ suspended, and why

The bytes that are hashed are the bytes that are parsed. Nothing here runs anything; a worktree's copy is never read.
"""

import hashlib
import shlex
from typing import Protocol

import msgspec

from interlock.coordinator.config import Config, TerritorySettings, parse_config
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.definition import Definition
from interlock.protocol.limits import CONFIG_LINE_DOTS_MAX
from interlock.protocol.names import short_name
from interlock.protocol.visible import one_sentence, visible

FILE = "bus.toml"
Stamp = tuple[int, ...]


class Place(msgspec.Struct, frozen=True):
    """The repository that a directory belongs to.

    Args:
        id: first 32 hex of the SHA-256 of `common`.
        common: real path of the common git directory, the same for every worktree of a clone.
        main: real path of the main worktree, "" where it cannot be told.
        worktree: real path of the worktree that holds the directory.
        listed: the repository knows that worktree too, so that no folder can pass itself off as one of its worktrees.
    """

    id: str
    common: str
    main: str
    worktree: str
    listed: bool

    @property
    def file(self) -> str:
        """The one file that can declare something for this repository."""
        return f"{self.main}/{FILE}" if self.main else ""


class Trusted(msgspec.Struct, frozen=True):
    """A person's word for one content of one file. Args: at: when, as wire time."""

    id: str
    common: str
    file: str
    sha256: str
    at: str = ""


class RepositoryFiles(Protocol):
    """What the coordinator needs of the disk here. Each look is short and bounded."""

    def place(self, directory: str) -> Place | None:
        """The repository of a directory; None outside of any."""

    def trusted(self) -> tuple[Trusted, ...]:
        """What the trust store says. Raises ConfigError where it cannot be read."""

    def trusted_stamp(self) -> Stamp:
        """Changes when the trust store does."""

    def read(self, file: str) -> bytes:
        """A regular file's content, no link followed. Raises FileNotFoundError, ConfigError."""

    def stamp(self, file: str) -> Stamp:
        """Changes when that file does."""


class NoRepositories:
    """RepositoryFiles of a bus that has none: what the home declares is all."""

    def place(self, directory: str) -> Place | None:
        return None

    def trusted(self) -> tuple[Trusted, ...]:
        return ()

    def trusted_stamp(self) -> Stamp:
        return ()

    def read(self, file: str) -> bytes:
        raise FileNotFoundError(file)

    def stamp(self, file: str) -> Stamp:
        return ()


class _Repository:
    """What is known of one trusted file."""

    def __init__(self, trusted: Trusted) -> None:
        self.trusted = trusted
        self.stamp: Stamp | None = None
        self.resources: dict[str, Definition] = {}
        self.state_files: dict[str, str] = {}
        self.builds: tuple[tuple[str, ...], ...] = ()
        self.territory = TerritorySettings()
        self.why = ""


class Repositories:
    """One per bus. Args: files: the disk. home: the home's own configuration."""

    def __init__(self, files: RepositoryFiles, home: Config) -> None:
        self.files = files
        self.problem = ""
        self._home = home
        self._known: dict[str, _Repository] = {}
        self._untrusted: dict[str, tuple[Stamp, frozenset[str]]] = {}
        self._store_stamp: Stamp | None = None

    def load(self, home: Config | None = None) -> Config:
        """Read the trust store and every trusted file. Returns the configuration with all that counts.

        Args:
            home: the home's own configuration, where that may have changed.
        """
        self._home, self._store_stamp = home or self._home, self.files.trusted_stamp()
        try:
            self._known = {each.id: _Repository(each) for each in self.files.trusted()}
            self.problem = ""
        except ConfigError as error:
            kept = (
                "what was trusted before stays in force" if self._known else "nothing that a repository declares counts"
            )
            self.problem = f"{error} - {kept}"
            for known in self._known.values():
                known.stamp = None
        for known in self._known.values():
            self._read(known)
        return self.config()

    def is_stale(self) -> bool:
        """The trust store has changed since it was read."""
        return self.files.trusted_stamp() != self._store_stamp

    def refresh(self, repository: str) -> bool:
        """Look whether a repository's file has changed; True where the configuration has."""
        known = self._known.get(repository)
        if known is None or self.files.stamp(known.trusted.file) == known.stamp:
            return False
        before = (known.resources, known.builds, known.why)
        self._read(known)
        return (known.resources, known.builds, known.why) != before

    def config(self) -> Config:
        """The home's configuration, with what the repositories add to it, and which of them add nothing now."""
        resources, suspended = dict(self._home.resources), {}
        state_files = dict(self._home.state_files)
        for id_, known in self._known.items():
            resources |= known.resources
            state_files |= known.state_files
            if known.why:
                suspended[id_] = known.why
        if self.problem and not self._known:  # nobody can say what was trusted: that takes nothing from anybody
            suspended["*"] = f"a repository, and {self.problem.partition(' - ')[0]}"
        builds = {id_: known.builds for id_, known in self._known.items() if known.builds}
        return msgspec.structs.replace(
            self._home, resources=resources, state_files=state_files, suspended=suspended, repository_builds=builds
        )

    def territory(self, repository: str) -> TerritorySettings:
        """What a trusted repository's file says of its territory."""
        known = self._known.get(repository)
        return known.territory if known is not None else TerritorySettings()

    def main_of(self, repository: str) -> str:
        """The main worktree of a trusted repository, "" of another."""
        known = self._known.get(repository)
        return known.trusted.file.rpartition("/")[0] if known is not None else ""

    def is_member(self, place: Place, repository: str) -> bool:
        """A directory lies in a worktree of that repository, and both say so (or a person named that worktree)."""
        return place.id == repository and (place.listed or place.worktree == self.main_of(repository))

    def declares(self, place: Place, name: str) -> bool:
        """The file of a repository holds that name, whether or not it counts."""
        if not place.file:
            return False
        stamp = self.files.stamp(place.file)
        known = self._untrusted.get(place.id)
        if known is None or known[0] != stamp:
            self._untrusted.pop(place.id, None)
            if len(self._untrusted) >= 256:
                self._untrusted.clear()
            known = self._untrusted[place.id] = (stamp, self._names(place))
        return name in known[1]

    def why_not(self, place: Place) -> str:
        """Why nothing of a repository's file counts, and what a person does about it."""
        known = self._known.get(place.id)
        if known is None and self.problem:
            return f"{visible(place.file)}, and {self.problem.partition(' - ')[0]}"
        return known.why if known is not None and known.why else untrusted_sentence(place.file)

    def _read(self, known: _Repository) -> None:
        file, id_ = known.trusted.file, known.trusted.id
        known.stamp, known.resources, known.state_files, known.builds = self.files.stamp(file), {}, {}, ()
        known.territory = TerritorySettings()
        try:
            data = self.files.read(file)
            if digest(data) != known.trusted.sha256:
                known.why = changed_sentence(file)
                return
            found = read(data, file, id_, self._home)
            known.resources, known.state_files, known.why = found.resources, found.state_files, ""
            known.builds, known.territory = found.builds, found.territory
        except FileNotFoundError:
            known.why = f"{visible(file)}, which is gone: a person puts it back, or runs bus forget"
        except ConfigError as error:
            known.why = f"a file that cannot be taken: {error}"

    def _names(self, place: Place) -> frozenset[str]:
        try:
            found = declared(self.files.read(place.file), place.file, place.id, self._home)
        except (FileNotFoundError, ConfigError):
            return frozenset()
        return frozenset(map(short_name, found))


def declared(data: bytes, file: str, repository: str, home: Config) -> dict[str, Definition]:
    """The resources of a repository's file, by full key; see `read`."""
    return read(data, file, repository, home).resources


def read(data: bytes, file: str, repository: str, home: Config) -> Config:
    """What a repository's file declares, by full key. Reading it runs nothing.

    Args:
        data: the file's content. file: its path, for the sentences. repository: its id. home: whose times hold.

    Raises:
        ConfigError: it is no configuration, or holds settings of the bus.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{visible(file)}: not UTF-8: save it as UTF-8") from None
    for number, line in enumerate(text.split("\n"), start=1):  # as TOML ends lines, and nothing else does
        if line.count(".") > CONFIG_LINE_DOTS_MAX and not line.lstrip().startswith("#"):
            why = f"more than {CONFIG_LINE_DOTS_MAX} dots in one line: no configuration needs so many"
            raise ConfigError(f"{visible(file)}:{number}: {why}")
    try:
        found = parse_config(text, visible(file), home)
    except ConfigError as error:
        raise ConfigError(one_sentence(str(error))) from None

    def own(key: str) -> str:
        return f"repository/{repository}/{short_name(key)}"

    return msgspec.structs.replace(
        found,
        resources={own(key): each for key, each in found.resources.items()},
        state_files={own(key): path for key, path in found.state_files.items()},
    )


def digest(data: bytes) -> str:
    """What trust is given to: the content, whatever the file is called."""
    return hashlib.sha256(data).hexdigest()


def repository_id(common: bytes) -> str:
    """Args: common: real path of the common git directory. Source: contract §1."""
    return hashlib.sha256(common).hexdigest()[:32]


def untrusted_sentence(file: str) -> str:
    return f"{visible(file)}, which nobody has trusted: a person runs bus config trust {_quoted(file)}"


def changed_sentence(file: str) -> str:
    return (
        f"{visible(file)}, which has changed since it was trusted: a person looks and runs bus config trust "
        f"{_quoted(file)}"
    )


def _quoted(file: str) -> str:
    return shlex.quote(visible(file))
