"""The configuration: `bus.toml` as text in, checked settings out. One clear sentence for each thing that is wrong."""

import re
import tomllib
from typing import Any

import msgspec

from interlock.protocol.definition import UNIT, CommandDefinition, Definition, Kind, ServerDefinition, server_of
from interlock.protocol.durations import parse_duration
from interlock.protocol.limits import RESOURCES_DECLARED_MAX, UNITS_MAX
from interlock.protocol.names import nearest, why_not_resource

KNOWN_HOSTS = (
    "claude", "codex", "gemini", "opencode", "copilot", "cursor-agent", "Runner.Worker", "gitlab-runner",
)  # fmt: skip

_BUS_TIMES = {
    "poll_every": 180_000,
    "claim": 120_000,
    "reservation": 30_000,
    "wait": 300_000,
    "time_max": 1_800_000,
    "revoke_grace": 5_000,
    "keep": 30 * 86_400_000,
}
_SERVER_TIMES = {"start_timeout": 300_000, "stop_timeout": 30_000}
_SERVER_KEYS = {"start", "url", "health", "ready_line", "ports", "prepare", "env", "terminal", *_SERVER_TIMES}
_STEP_TIMEOUT = 120_000
_STEPS = ("stop", "prepare", "verify")
_COMMAND_KEYS = {*_STEPS, "step_timeout", "repeatable", "env"}
_KEYS_OF = {Kind.LOCK: set[str](), Kind.SERVER: _SERVER_KEYS, Kind.COMMAND: _COMMAND_KEYS}
_MAY_BE_NOTHING = {"revoke_grace"}  # times that may be "0s"


class ConfigError(Exception):
    """One sentence: file, line, what is wrong, what would be right."""


class Config(msgspec.Struct, frozen=True):
    """Settings of a bus. Every time in milliseconds; `resources` by full key, those of trusted repositories too.

    Args:
        poll_every: how often a silent owner is asked while others wait; two unanswered polls end its hold.
        claim: a grant that nobody has noticed for this long passes on, if others wait.
        reservation: how long an unused grant of `bus run` lasts.
        wait: how long a `bus run` waits for its grant.
        time_max: the longest declared time during which a silent poll does not count.
        keep: how long the log and read messages are kept.
        hosts: further agent clients whose process an agent is bound to; claude, codex, gemini and others are known.
        all_files: every agent's messages go into its inbox folder, not only those of agents that use one.
    """

    poll_every: int = _BUS_TIMES["poll_every"]
    claim: int = _BUS_TIMES["claim"]
    reservation: int = _BUS_TIMES["reservation"]
    wait: int = _BUS_TIMES["wait"]
    time_max: int = _BUS_TIMES["time_max"]
    revoke_grace: int = _BUS_TIMES["revoke_grace"]
    keep: int = _BUS_TIMES["keep"]
    hosts: frozenset[str] = frozenset(KNOWN_HOSTS)
    spare: tuple[tuple[str, ...], ...] = ()
    resources: dict[str, Definition] = {}
    state_files: dict[str, str] = {}  # key → absolute path, for those whose state is shown elsewhere too
    suspended: dict[str, str] = {}  # repository id, or "*" for all → why nothing that it declares counts now
    all_files: bool = False

    def definition(self, key: str, known: Definition | None = None) -> Definition:
        """The definition of a declared resource; an undeclared key is a plain lock with this bus's times.

        Args:
            known: what it has now; it keeps that while its declaration is suspended.
        """
        if known is not None and self.is_suspended(key):
            return known
        return self.resources.get(key) or self.lock()

    def is_suspended(self, key: str) -> bool:
        """It belongs to a repository whose file does not count now."""
        return bool(self.suspended and key.startswith("repository/") and self.why_suspended(key.split("/")[1]))

    def why_suspended(self, repository: str) -> str:
        """Why nothing that a repository declares counts now, "" where it may. Args: repository: its id."""
        return self.suspended.get(repository) or self.suspended.get("*", "")

    def lock(self, units: tuple[str, ...] = ("",)) -> Definition:
        return Definition(
            Kind.LOCK, units, self.poll_every, self.claim, self.reservation, self.time_max,
            revoke_grace_ms=self.revoke_grace,
        )  # fmt: skip


def parse_config(text: str, file: str, home: Config | None = None) -> Config:
    """Read a `bus.toml`.

    Args:
        text: its content. file: its path, for the sentences only.
        home: for a repository's file, which declares resources only: the bus's own times hold for them.

    Raises:
        ConfigError: TOML that is none, an unknown key, a bad duration, a duplicate port, a missing start.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"\(at line (\d+), column \d+\)", str(error))
        where = f"{file}:{line[1] if line else len(text.splitlines()) or 1}"
        raise ConfigError(f"{where}: not TOML: {error}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, tables a thousand deep
        raise ConfigError(
            f"{file}:1: not TOML that can be read: a number is too long, or it is nested too deep"
        ) from None
    reader = _Reader(text, file)
    reader.known(table, {"bus", "resources"}, "")
    if home is not None and "bus" in table:
        reader.fail("settings of the bus stand in its home's bus.toml only: take this table out", "bus", "")
    bus = reader.table(table, "bus", "")
    reader.known(bus, {*_BUS_TIMES, "hosts", "inbox_files", "spare"}, "bus")
    times = {name: reader.duration(bus, name, "bus", default) for name, default in _BUS_TIMES.items()}
    hosts = frozenset(KNOWN_HOSTS) | set(reader.strings(bus, "hosts", "bus"))
    files = bus.get("inbox_files", "used")
    if files not in ("used", "all"):
        reader.fail(f'inbox_files = {files!r} is unknown: "used" or "all"', "bus", "inbox_files")
    config = home or msgspec.structs.replace(
        Config(hosts=hosts, spare=reader.spare(bus), all_files=files == "all"), **times
    )
    declared = reader.table(table, "resources", "")
    if len(declared) > RESOURCES_DECLARED_MAX:
        raise ConfigError(f"{file}: {len(declared)} resources are declared, at most {RESOURCES_DECLARED_MAX} can be")
    resources: dict[str, Definition] = {}
    state_files: dict[str, str] = {}
    ports: dict[int, str] = {}
    for name in declared:
        reader.state_file(name, reader.table(declared, name, "resources"), state_files)
        resources[f"machine/{name}"] = reader.resource(name, reader.table(declared, name, "resources"), config)
        reader.different_ports(name, resources[f"machine/{name}"], ports)
    return msgspec.structs.replace(config, resources=resources, state_files=state_files)


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
        said = table.get("kind", "server" if "start" in table else "lock")
        if said not in [str(kind) for kind in Kind]:
            close = nearest(str(said), [str(kind) for kind in Kind])
            hint = f"did you mean {close[0]!r}?" if close else "lock, server or command"
            self.fail(f"kind = {said!r} is unknown; {hint}", where, "kind")
        kind = Kind(said)
        self.known(table, {"kind", "units", "state_file", *_KEYS_OF[kind]}, where)
        units = tuple(self.strings(table, "units", where)) or ("",)
        if len(units) > UNITS_MAX or len(set(units)) < len(units):
            self.fail(f"units must be different, at most {UNITS_MAX}", where, "units")
        if "" in units and "units" in table and table["units"]:
            self.fail('each of units needs a name, such as "0"', where, "units")
        if any(why_not_resource(unit) or "/" in unit for unit in units if unit):
            self.fail("each of units must be a name of letters, digits, '_', '.', '-'", where, "units")
        lock = config.lock(units)
        if kind is Kind.SERVER:
            server = msgspec.structs.replace(self.server(table, where, units), spare=config.spare)
            return msgspec.structs.replace(lock, kind=kind, server=server)
        if kind is Kind.COMMAND:
            command = msgspec.structs.replace(self.command(table, where, units), spare=config.spare)
            return msgspec.structs.replace(lock, kind=kind, command=command)
        return lock

    def server(self, table: dict[str, Any], where: str, units: tuple[str, ...]) -> ServerDefinition:
        ports, unit_ports = self.ports(table, where, units)
        server = ServerDefinition(
            start=self.string(table, "start", where),
            url=self.string(table, "url", where),
            health=self.string(table, "health", where),
            ready_line=self.string(table, "ready_line", where),
            ports=ports,
            start_timeout_ms=self.duration(table, "start_timeout", where, _SERVER_TIMES["start_timeout"]),
            stop_timeout_ms=self.duration(table, "stop_timeout", where, _SERVER_TIMES["stop_timeout"]),
            prepare=self.string(table, "prepare", where),
            env=self.environment(table, where),
            unit_ports=unit_ports,
            terminal=self.terminal(table, where),
        )
        if not server.start.strip():
            self.fail('a server needs a start command, such as start = "npm run dev"', where, "start")
        for key, address in (("url", server.url), ("health", server.health)):
            if address and not re.match(r"https?://[^\s/]", address):
                self.fail(f"{key} = {address!r} is no http address", where, key)
        for key in ("start", "url", "health"):
            text = getattr(server, key)
            if units != ("",) and text and UNIT not in text:
                self.fail(f"{key} of a pool must hold {UNIT}, or its servers could not be told apart", where, key)
        if units == ("",):
            self.no_units(table, where, ("start", "url", "health", "ready_line", "prepare"))
        return server

    def command(self, table: dict[str, Any], where: str, units: tuple[str, ...]) -> CommandDefinition:
        command = CommandDefinition(
            stop=self.string(table, "stop", where),
            prepare=self.string(table, "prepare", where),
            verify=self.string(table, "verify", where),
            step_timeout_ms=self.duration(table, "step_timeout", where, _STEP_TIMEOUT),
            repeatable=self.truth(table, "repeatable", where),
            env=self.environment(table, where),
        )
        if not any(getattr(command, step).strip() for step in _STEPS):
            self.fail("the kind 'command' needs one of stop, prepare and verify at least", where, "kind")
        if units == ("",):
            self.no_units(table, where, _STEPS)
        return command

    def no_units(self, table: dict[str, Any], where: str, keys: tuple[str, ...]) -> None:
        for key in keys:
            if UNIT in str(table.get(key, "")):
                self.fail(f'{key} holds {UNIT}, but there are no units: add units = ["1", "2"]', where, key)

    def different_ports(self, name: str, definition: Definition, taken: dict[int, str]) -> None:
        """No port may be declared twice, over all units of all resources. Adds those of this one to `taken`."""
        where = f"resources.{name}"
        for unit in definition.units:
            server, mine = server_of(definition, unit), f"{name} unit {unit}" if unit else name
            for port in server.ports if server is not None else ():
                if not 1 <= port <= 65_535:
                    self.fail(f"port {port} of unit {unit} is none: ports go from 1 to 65535", where, "ports")
                if port in taken:
                    self.fail(f"port {port} is declared by {taken[port]} too: give each server its own", where, "ports")
                taken[port] = mine

    def terminal(self, table: dict[str, Any], where: str) -> str:
        value = table.get("terminal", "none")
        if value not in ("none", "tmux"):
            self.fail(f'terminal = {value!r} is unknown: "none", or "tmux" for a window', where, "terminal")
        return str(value)

    def spare(self, table: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
        """Each a program's name, and arguments that it must have: `java GradleDaemon` is two words."""
        entries = tuple(tuple(entry.split()) for entry in self.strings(table, "spare", "bus"))
        if any(not entry or "/" in entry[0] for entry in entries):
            why = 'each of spare must be a program\'s name, without its folder, such as "watchman"'
            self.fail(why, "bus", "spare")
        return entries

    def state_file(self, name: str, table: dict[str, Any], known: dict[str, str]) -> None:
        """Where the state is shown: relative to the folder of the file that says so."""
        where, path = f"resources.{name}", self.string(table, "state_file", f"resources.{name}")
        if not path:
            return
        if "~" in path[:1] or ".." in path.split("/") or not path.endswith(".md"):
            why = f"state_file = {path!r} must be the path of a .md file, absolute or below this file's folder"
            self.fail(why, where, "state_file")
        full = path if path.startswith("/") else f"{self._file.rpartition('/')[0]}/{path}"
        if full in known.values():
            self.fail(f"{path} is another resource's state_file too: give each its own", where, "state_file")
        known[f"machine/{name}"] = full

    def known(self, table: dict[str, Any], keys: set[str], where: str, later: dict[str, str] | None = None) -> None:
        for key in table:
            if key in keys:
                continue
            if later and key in later:
                self.fail(f"{key!r} ({later[key]}) is not in this version: take it out", where, key)
            if key == "spare":
                self.fail("spare is of the whole bus: it belongs under [bus]", where, key)
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

    def environment(self, table: dict[str, Any], where: str) -> tuple[tuple[str, str], ...]:
        env = self.table(table, "env", where)
        for name, value in env.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                self.fail(f"env: {name!r} is no name of a variable", where, "env")
            if name.startswith("BUS_"):
                self.fail(f"env may not set {name}: what begins with BUS_ is the bus's own", where, "env")
            if not isinstance(value, str) or "\0" in value:
                self.fail(f'env: {name} must be a text, such as {name} = "1"', where, "env")
        return tuple(env.items())

    def truth(self, table: dict[str, Any], key: str, where: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            self.fail(f"{key} must be true or false", where, key)
        return bool(value)

    def ports(
        self, table: dict[str, Any], where: str, units: tuple[str, ...]
    ) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Numbers of an ordinary server; of a pool texts with the unit in them, which are numbers for each unit."""
        value = table.get("ports", [])
        if units != ("",):
            texts = isinstance(value, list) and all(isinstance(port, str) and UNIT in port for port in value)
            if not texts or len(set(value)) < len(value):
                self.fail(f'ports of a pool must be texts that hold {UNIT}, such as ["{UNIT}"]', where, "ports")
            for port, unit in ((port, unit) for port in value for unit in units):
                if not re.fullmatch(r"[0-9]{1,6}", port.replace(UNIT, unit)):
                    self.fail(f"ports: {port!r} is no number for unit {unit!r}", where, "ports")
            return (), tuple(value)
        whole = isinstance(value, list) and all(isinstance(p, int) and not isinstance(p, bool) for p in value)
        if not whole or not all(1 <= port <= 65_535 for port in value) or len(set(value)) < len(value):
            self.fail("ports must be a list of different numbers from 1 to 65535, such as [7080]", where, "ports")
        return tuple(value), ()

    def duration(self, table: dict[str, Any], key: str, where: str, default: int) -> int:
        if key not in table:
            return default
        value = table[key]
        if key in _MAY_BE_NOTHING and value in ("0", "0s"):
            return 0
        ms = parse_duration(value) if isinstance(value, str) else None
        if ms is None:
            self.fail(f'{key} = {value!r} is no duration: write "200ms", "30s", "3m" or "1h30m"', where, key)
        return int(ms or 0)

    def fail(self, why: str, where: str, key: str) -> None:
        raise ConfigError(f"{self._file}:{self._line(where, key)}: {f'[{where}] ' if where else ''}{why}")

    def _line(self, where: str, key: str) -> int:
        """The line that a person should look at: the key inside its table, else the table, else the first."""
        where = where.replace(" ", "")
        inside, found = not where, 1
        for number, line in enumerate(self._lines, start=1):
            name = _heading(line)
            if name:
                inside = name == where or name.startswith(f"{where}.")
                if inside and name == where:
                    found = number
                if key and name.rpartition(".")[2] == key:
                    return number
            elif inside and key and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""", line):
                return number
        return found


def _heading(line: str) -> str:
    """The name of the table that a line begins, "" where it begins none. By hand: the line may be a stranger's."""
    word = line.strip()
    name, bracket, _ = word.lstrip("[").partition("]")
    return "".join(name.split()).replace('"', "").replace("'", "") if bracket and word.startswith("[") else ""
