"""The configuration: `bus.toml` as text in, checked settings out. One clear sentence for each thing that is wrong."""

import re
import tomllib
from typing import Any

import msgspec

from interlock.protocol.definition import Definition, Kind, ServerDefinition
from interlock.protocol.durations import parse_duration
from interlock.protocol.limits import RESOURCES_DECLARED_MAX, UNITS_MAX
from interlock.protocol.names import nearest, why_not_resource

KNOWN_HOSTS = (
    "claude", "codex", "gemini", "opencode", "copilot", "cursor-agent", "Runner.Worker", "gitlab-runner",
)  # fmt: skip
LATER = {
    "prepare": "prepare steps",
    "env": "an environment of its own",
    "terminal": "servers in a terminal",
    "repeatable": "repeatable steps",
    "stop": "the kind 'command'",
    "verify": "the kind 'command'",
    "step_timeout": "the kind 'command'",
    "state_file": "state files",
    "spare": "spared daemons",
}
BUS_LATER = {"revoke_grace": "a grace period"}

_BUS_TIMES = {
    "poll_every": 180_000,
    "claim": 120_000,
    "reservation": 30_000,
    "wait": 300_000,
    "time_max": 1_800_000,
    "keep": 30 * 86_400_000,
}
_SERVER_TIMES = {"start_timeout": 300_000, "stop_timeout": 30_000}
_SERVER_KEYS = {"start", "url", "health", "ready_line", "ports", *_SERVER_TIMES}


class ConfigError(Exception):
    """One sentence: file, line, what is wrong, what would be right."""


class Config(msgspec.Struct, frozen=True):
    """Settings of a bus. Every time in milliseconds; `resources` by full key.

    Args:
        all_files: every agent's messages go into its inbox folder, not only those of agents that use one.
    """

    poll_every: int = _BUS_TIMES["poll_every"]
    claim: int = _BUS_TIMES["claim"]
    reservation: int = _BUS_TIMES["reservation"]
    wait: int = _BUS_TIMES["wait"]
    time_max: int = _BUS_TIMES["time_max"]
    keep: int = _BUS_TIMES["keep"]
    hosts: frozenset[str] = frozenset(KNOWN_HOSTS)
    resources: dict[str, Definition] = {}
    all_files: bool = False

    def definition(self, key: str) -> Definition:
        """The definition of a declared resource; an undeclared key is a plain lock with this bus's times."""
        return self.resources.get(key) or self.lock()

    def lock(self, units: tuple[str, ...] = ("",)) -> Definition:
        return Definition(Kind.LOCK, units, self.poll_every, self.claim, self.reservation, self.time_max)


def parse_config(text: str, file: str) -> Config:
    """Read a `bus.toml`.

    Args:
        text: its content. file: its path, for the sentences only.

    Raises:
        ConfigError: TOML that is none, an unknown key, a bad duration, a duplicate port, a missing start.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"\(at line (\d+), column \d+\)", str(error))
        where = f"{file}:{line[1] if line else len(text.splitlines()) or 1}"
        raise ConfigError(f"{where}: not TOML: {error}") from None
    reader = _Reader(text, file)
    reader.known(table, {"bus", "resources"}, "")
    bus = reader.table(table, "bus", "")
    reader.known(bus, {*_BUS_TIMES, "hosts", "inbox_files"}, "bus", BUS_LATER)
    times = {name: reader.duration(bus, name, "bus", default) for name, default in _BUS_TIMES.items()}
    hosts = frozenset(KNOWN_HOSTS) | set(reader.strings(bus, "hosts", "bus"))
    files = bus.get("inbox_files", "used")
    if files not in ("used", "all"):
        reader.fail(f'inbox_files = {files!r} is unknown: "used" or "all"', "bus", "inbox_files")
    config = msgspec.structs.replace(Config(hosts=hosts, all_files=files == "all"), **times)
    declared = reader.table(table, "resources", "")
    if len(declared) > RESOURCES_DECLARED_MAX:
        raise ConfigError(f"{file}: {len(declared)} resources are declared, at most {RESOURCES_DECLARED_MAX} can be")
    resources: dict[str, Definition] = {}
    ports: dict[int, str] = {}
    for name in declared:
        resources[f"machine/{name}"] = reader.resource(name, reader.table(declared, name, "resources"), config)
        for port in getattr(resources[f"machine/{name}"].server, "ports", ()):
            if port in ports:
                reader.fail(
                    f"port {port} is declared by {ports[port]} too: give each server its own",
                    f"resources.{name}",
                    "ports",
                )
            ports[port] = name
    return msgspec.structs.replace(config, resources=resources)


class _Reader:
    """Reads values out of parsed TOML, and knows how to say where something is wrong."""

    def __init__(self, text: str, file: str) -> None:
        self._lines = text.splitlines()
        self._file = file

    def resource(self, name: str, table: dict[str, Any], config: Config) -> Definition:
        why_not = f"{name!r} must be a plain name, without '/'" if "/" in name else why_not_resource(name)
        if why_not is not None:
            self.fail(why_not, f"resources.{name}", "")
        where = f"resources.{name}"
        kind = table.get("kind", "server" if "start" in table else "lock")
        if kind == "command":
            self.fail("the kind 'command' is not in this version: declare a lock, and run with bus run", where, "kind")
        if kind not in ("lock", "server"):
            self.fail(f"kind = {kind!r} is unknown: lock or server", where, "kind")
        self.known(table, {"kind", "units", *(_SERVER_KEYS if kind == "server" else ())}, where, LATER)
        units = tuple(self.strings(table, "units", where)) or ("",)
        if len(units) > UNITS_MAX or len(set(units)) < len(units):
            self.fail(f"units must be different, at most {UNITS_MAX}", where, "units")
        if any(why_not_resource(unit) or "/" in unit for unit in units if unit):
            self.fail("each of units must be a name of letters, digits, '_', '.', '-'", where, "units")
        if kind == "lock":
            return config.lock(units)
        if units != ("",):
            self.fail("a pool of servers is not in this version: declare one server a port", where, "units")
        server = ServerDefinition(
            start=self.string(table, "start", where),
            url=self.string(table, "url", where),
            health=self.string(table, "health", where),
            ready_line=self.string(table, "ready_line", where),
            ports=self.ports(table, where),
            start_timeout_ms=self.duration(table, "start_timeout", where, _SERVER_TIMES["start_timeout"]),
            stop_timeout_ms=self.duration(table, "stop_timeout", where, _SERVER_TIMES["stop_timeout"]),
        )
        if not server.start.strip():
            self.fail('a server needs a start command, such as start = "npm run dev"', where, "start")
        for key, address in (("url", server.url), ("health", server.health)):
            if address and not re.match(r"https?://[^\s/]", address):
                self.fail(f"{key} = {address!r} is no http address", where, key)
        return msgspec.structs.replace(config.lock(), kind=Kind.SERVER, server=server)

    def known(self, table: dict[str, Any], keys: set[str], where: str, later: dict[str, str] | None = None) -> None:
        for key in table:
            if key in keys:
                continue
            if later and key in later:
                self.fail(f"{key!r} ({later[key]}) is not in this version: take it out", where, key)
            close = nearest(key, keys)
            hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(sorted(keys))}"
            self.fail(f"unknown key {key!r}; {hint}", where, key)

    def table(self, table: dict[str, Any], key: str, where: str) -> dict[str, Any]:
        value = table.get(key, {})
        if not isinstance(value, dict):
            self.fail(f"{key!r} must be a table", where, key)
        return dict(value)

    def string(self, table: dict[str, Any], key: str, where: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str) or "\0" in value:
            self.fail(f"{key} must be a text", where, key)
        return str(value)

    def strings(self, table: dict[str, Any], key: str, where: str) -> list[str]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.fail(f'{key} must be a list of texts, such as ["0", "1"]', where, key)
        return list(value)

    def ports(self, table: dict[str, Any], where: str) -> tuple[int, ...]:
        value = table.get("ports", [])
        whole = isinstance(value, list) and all(isinstance(p, int) and not isinstance(p, bool) for p in value)
        if not whole or not all(1 <= port <= 65_535 for port in value) or len(set(value)) < len(value):
            self.fail("ports must be a list of different numbers from 1 to 65535, such as [7080]", where, "ports")
        return tuple(value)

    def duration(self, table: dict[str, Any], key: str, where: str, default: int) -> int:
        if key not in table:
            return default
        value = table[key]
        ms = parse_duration(value) if isinstance(value, str) else None
        if ms is None:
            self.fail(f'{key} = {value!r} is no duration: write "200ms", "30s", "3m" or "1h30m"', where, key)
        return int(ms or 0)

    def fail(self, why: str, where: str, key: str) -> None:
        raise ConfigError(f"{self._file}:{self._line(where, key)}: {f'[{where}] ' if where else ''}{why}")

    def _line(self, where: str, key: str) -> int:
        """The line that a person should look at: the key inside its table, else the table, else the first."""
        header = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]+")
        where = where.replace(" ", "")
        inside, found = not where, 1
        for number, line in enumerate(self._lines, start=1):
            heading = header.match(line)
            if heading:
                name = heading[1].replace('"', "").replace("'", "").replace(" ", "")
                inside = name == where or name.startswith(f"{where}.")
                if inside and name == where:
                    found = number
                if key and name.rpartition(".")[2] == key:
                    return number
            elif inside and key and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""", line):
                return number
        return found
