"""What is declared here, as a command sees it without asking a supervisor: the home's file, and trusted repositories'.

It reads what the supervisor reads, by the same functions, and runs nothing.
"""

import os
from typing import Any

import msgspec

from interlock.adapters.git import place_of
from interlock.adapters.home_config import read_config
from interlock.adapters.paths import Home
from interlock.adapters.trust import LocalRepositories
from interlock.coordinator.config import Config, TerritorySettings, parse_config
from interlock.coordinator.repositories import FILE, Place, Repositories, Trusted, digest, read
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.definition import Definition, Kind, server_of
from interlock.protocol.durations import format_duration
from interlock.protocol.names import short_name
from interlock.protocol.visible import one_sentence, visible


class Here(msgspec.Struct):
    """A home, and the repository of a directory. Raises ConfigError where the home's file is wrong.

    Args:
        config: all that counts, by full key. trusted: the trust store, in its order. place: of the directory.
        territory: what its repository's file says of leases, where that counts.
    """

    home: Home
    files: LocalRepositories
    own: Config
    config: Config
    trusted: tuple[Trusted, ...]
    place: Place | None
    problem: str = ""
    territory: TerritorySettings = TerritorySettings()

    def state(self, trusted: Trusted | None) -> str:
        """How a repository's file stands: "trusted", "changed", "gone", "unreadable", "untrusted"."""
        if trusted is None:
            return "untrusted"
        try:
            return "trusted" if digest(self.files.read(trusted.file)) == trusted.sha256 else "changed"
        except FileNotFoundError:
            return "gone"
        except ConfigError:
            return "unreadable"

    def trusted_here(self) -> Trusted | None:
        """The word that was given about this directory's repository."""
        return next((each for each in self.trusted if self.place is not None and each.id == self.place.id), None)

    def resources(self) -> dict[str, Definition]:
        """What a short name can mean here: this repository's, then the machine's that it does not hide."""
        mine = f"repository/{self.place.id}/" if self.place is not None else "repository/-/"
        found = {short_name(key): each for key, each in self.config.resources.items() if key.startswith("machine/")}
        return found | {short_name(key): each for key, each in self.config.resources.items() if key.startswith(mine)}


def look_here(home: Home, directory: str) -> Here:
    """Read what is declared for a directory. Raises ConfigError."""
    files = LocalRepositories(home)
    own = read_config(home)
    repositories = Repositories(files, own)
    config = repositories.load()
    trusted = () if repositories.problem else files.trusted()
    place = place_of(directory)
    territory = repositories.territory(place.id) if place is not None else TerritorySettings()
    return Here(home, files, own, config, trusted, place, repositories.problem, territory)


def file_of(path: str) -> tuple[str, Place | None]:
    """The `bus.toml` that a path means: the file itself, or the one in a repository's main worktree.

    Args:
        path: of a file, or of a directory in a worktree. Raises ConfigError where it can be none.
    """
    real = os.path.realpath(path)
    if os.path.isdir(real):
        place = place_of(real)
        if place is None:
            return os.path.join(real, FILE), None
        if not place.file:
            raise ConfigError(f"{visible(place.common)}: a repository without a main worktree: declare it in the home")
        return place.file, place
    named = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    return named, place_of(os.path.dirname(named))


def declared_in(file: str, place: Place | None, data: bytes, own: Config) -> Config:
    """What a file declares: a repository's, if it lies at the top of a worktree. Raises ConfigError."""
    if place is not None and os.path.dirname(file) == place.worktree:
        return read(data, file, place.id, own)
    try:
        return parse_config(data.decode(), visible(file))
    except UnicodeDecodeError:
        raise ConfigError(f"{visible(file)}: not UTF-8: save it as UTF-8") from None
    except ConfigError as error:
        raise ConfigError(one_sentence(str(error))) from None


def by_short_name(config: Config) -> dict[str, Definition]:
    """Its resources, as they are called where they are declared."""
    return {short_name(key): each for key, each in config.resources.items()}


def clashes(ports_of: dict[str, Definition], here: Here, repository: str) -> list[str]:
    """Sentences about ports that something declared elsewhere has too: only one of the two can run at a time."""
    elsewhere: dict[int, str] = {}
    for key, definition in here.config.resources.items():
        if not repository or not key.startswith(f"repository/{repository}/"):
            elsewhere |= dict.fromkeys(_ports(definition), key)
    return [
        f"note: port {port} of {name} is declared by {elsewhere[port]} too: only one of them can run at a time"
        for name, definition in ports_of.items()
        for port in _ports(definition)
        if port in elsewhere
    ]


def _ports(definition: Definition) -> list[int]:
    """Of all its units."""
    servers = [server_of(definition, unit) for unit in definition.units]
    return list(dict.fromkeys(port for server in servers for port in (server.ports if server is not None else ())))


def lines_of(name: str, definition: Definition, state_file: str = "") -> list[str]:
    """A resource as a person reads it before trusting it: every word of it, nothing hidden.

    Args: state_file: where the bus writes its state besides; "" for nowhere.
    """
    units = "" if definition.units == ("",) else f", units {', '.join(definition.units)}"
    lines = [f"{visible(name)}: {definition.kind}{units}"]
    for field in msgspec.structs.fields(definition):
        part = getattr(definition, field.name)
        if isinstance(part, msgspec.Struct):
            lines += [f"  {line}" for each in msgspec.structs.fields(part) if (line := _line(each, part))]
    if definition.kind is Kind.LOCK:
        lines.append("  runs nothing")
    if state_file:
        lines.append(f"  state_file = {visible(state_file)} (the bus writes this file, and folders that lead to it)")
    return lines


def lines_of_territory(said: TerritorySettings) -> list[str]:
    """What a file says of leases, likewise; nothing where it says nothing."""
    if said == TerritorySettings():
        return []
    lines = ["territory:"]
    lines += [f"  exclude {visible(pattern)} (paths that need no lease)" for pattern in said.exclude]
    if said.mode:
        does = "warn of" if said.mode == "advisory" else "refuse"
        lines.append(f"  mode = {said.mode} (hooks {does} a commit without a lease)")
    if said.repository_id:
        lines.append(f"  repository_id = {visible(said.repository_id)} (every clone with that name shares its leases)")
    if said.ttl:
        lines.append(f"  ttl = {format_duration(said.ttl)}")
    return lines


def as_json(definition: Definition) -> dict[str, Any]:
    """A resource for programs."""
    found: dict[str, Any] = msgspec.to_builtins(definition)
    return {"kind": str(definition.kind), **found}


def _line(field: msgspec.structs.FieldInfo, part: msgspec.Struct) -> str:
    value = getattr(part, field.name)
    if value in ("", (), {}, None, False) or value == field.default:
        return ""
    if field.name.endswith("_ms"):
        return f"{field.name[:-3]} = {format_duration(value)}"
    if isinstance(value, tuple):
        value = ", ".join("=".join(each) if isinstance(each, tuple) else str(each) for each in value)  # env: pairs
    elif isinstance(value, dict):
        value = " ".join(f"{key}={each}" for key, each in value.items())
    return f"{field.name} = {visible(str(value))}"
