"""Declarations: what a `[resources.NAME]` of a bus.toml says, checked, as the definition of a resource."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.coordinator.toml_values import Values
from interlock.protocol.definition import UNIT, CommandDefinition, Definition, Kind, ServerDefinition, server_of
from interlock.protocol.limits import BUILD_PATTERNS_MAX, UNITS_MAX
from interlock.protocol.names import nearest, why_not_resource

_SERVER_TIMES = {"start_timeout": 300_000, "stop_timeout": 30_000}
_SERVER_KEYS = {"start", "url", "health", "ready_line", "ports", "prepare", "env", "terminal", *_SERVER_TIMES}
_STEP_TIMEOUT = 120_000
_STEPS = ("stop", "prepare", "verify")
_COMMAND_KEYS = {*_STEPS, "step_timeout", "repeatable", "env"}
_KEYS_OF = {Kind.LOCK: set[str](), Kind.SERVER: _SERVER_KEYS, Kind.COMMAND: _COMMAND_KEYS}


class Declarations(Values):
    """Reads the declared resources of one file."""

    def resource(
        self, name: str, table: dict[str, Any], lock_of: Callable[[tuple[str, ...]], Definition],
        spare: tuple[tuple[str, ...], ...],
    ) -> Definition:  # fmt: skip
        """One declared resource.

        Args:
            name: as it is declared. table: what is said of it.
            lock_of: a plain lock of those units, with the times of its bus. spare: programs that its bus spares.
        """
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
        lock = lock_of(units)
        if kind is Kind.SERVER:
            server = msgspec.structs.replace(self.server(table, where, units), spare=spare)
            return msgspec.structs.replace(lock, kind=kind, server=server)
        if kind is Kind.COMMAND:
            command = msgspec.structs.replace(self.command(table, where, units), spare=spare)
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

    def builds(self, table: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
        """What `[profiles.build]` adds to the builds, each the words that a command begins with."""
        self.known(table, {"build"}, "profiles")
        where = "profiles.build"
        build = self.table(table, "build", "profiles")
        self.known(build, {"commands"}, where)
        entries = tuple(tuple(entry.split()) for entry in self.strings(build, "commands", where))
        if not all(entries) or any("\0" in word for entry in entries for word in entry):
            self.fail('each of commands must be the first words of a command, such as "just build"', where, "commands")
        if len(entries) > BUILD_PATTERNS_MAX:
            self.fail(f"{len(entries)} commands are too many, at most {BUILD_PATTERNS_MAX} can be", where, "commands")
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
