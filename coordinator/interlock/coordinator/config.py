"""The configuration: `bus.toml` as text in, checked settings out. One clear sentence for each thing that is wrong."""

from typing import Any

import msgspec

from interlock.coordinator.declarations import Declarations
from interlock.coordinator.toml_values import ConfigError, parse_toml
from interlock.protocol.definition import Definition, Kind
from interlock.protocol.glob import BadPattern, Pattern
from interlock.protocol.limits import LEASE_TTL_MS_MAX, LEASE_TTL_MS_MIN, RESOURCES_DECLARED_MAX
from interlock.protocol.names import is_repository_id, nearest, why_not_agent

RESOURCE_CONTROL = "resource.control"  # to set policies, and to grant by them
CAPABILITIES = (RESOURCE_CONTROL,)

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


class TerritorySettings(msgspec.Struct, frozen=True):
    """What a repository's `[territory]` says.

    Args:
        exclude: patterns of paths that need no lease, such as `"dist/**"`.
        mode: `"advisory"` warns, `"hard_fail"` refuses a commit without a lease; for hooks that say no other.
        repository_id: names the territory, so that further clones can have the same; "" is this clone's own.
        ttl: how long a lease lasts after each renewal (ms), where nobody says; 0 is 2 minutes.
    """

    exclude: tuple[str, ...] = ()
    mode: str = ""
    repository_id: str = ""
    ttl: int = 0


class Config(msgspec.Struct, frozen=True):
    """Settings of a bus. Every time in milliseconds; `resources` by full key, those of trusted repositories too.

    Args:
        poll_every: how often a silent owner is asked while others wait; two unanswered polls end its hold.
        claim: a grant that nobody has noticed for this long passes on, if others wait.
        reservation: how long an unused grant of `bus run` lasts.
        wait: how long a `bus run` waits for its grant.
        time_max: the longest declared time during which a silent poll does not count. Who did not notice its grant,
            and is silent for so long after it, has no place in the queue any more.
        revoke_grace: between REVOKED and stopping what stands there; `"0s"` leaves none.
        keep: how long the log and read messages are kept.
        hosts: further agent clients whose process an agent is bound to; claude, codex, gemini and others are known.
        spare: daemons that outlive what started them, neither counted nor stopped: each a program's name, and
            arguments that it must have, such as `"java GradleDaemon"`.
        state_file: of a resource: a .md file that always shows who has it and who waits; absolute, or below the folder
            of the bus.toml that says so.
        identity: `"open"` takes everybody for whom they say they are; `"token"` hears an agent only with the token that
            `bus token create` made for it.
        inbox_files: `"all"` gives every agent an inbox folder, `"used"` only those that use one.
        commands: further commands that are builds, each by the words that it begins with, such as `"just build"`. A
            repository's hold for commands from its worktrees.
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
    identity: str = "open"
    builds: tuple[tuple[str, ...], ...] = ()  # words that a build begins with, beside those that profiles.py knows
    repository_builds: dict[str, tuple[tuple[str, ...], ...]] = {}  # repository id → what its trusted file adds
    allowed: dict[str, frozenset[str]] = {}  # agent → its capabilities
    territory: TerritorySettings = TerritorySettings()  # of a repository's own file

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


def _allowed(reader: Declarations, table: dict[str, Any]) -> dict[str, frozenset[str]]:
    """What each `[agents.NAME] allow = […]` says that the agent may do."""
    agents, found = reader.table(table, "agents", ""), {}
    for name in agents:
        where, why_not = f"agents.{name}", why_not_agent(name)
        if why_not is not None:
            reader.fail(why_not, where, "")
        said = reader.table(agents, name, "agents")
        reader.known(said, {"allow"}, where)
        for each in reader.strings(said, "allow", where):
            if each not in CAPABILITIES:
                close = nearest(each, CAPABILITIES)
                hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(CAPABILITIES)}"
                reader.fail(f"allow: {each!r} is no capability; {hint}", where, "allow")
        found[name] = frozenset(reader.strings(said, "allow", where))
    return found


def _territory(reader: Declarations, table: dict[str, Any]) -> TerritorySettings:
    """What `[territory]` says."""
    where = "territory"
    reader.known(table, {"exclude", "mode", "repository_id", "ttl"}, where)
    exclude = tuple(reader.strings(table, "exclude", where))
    for pattern in exclude:
        try:
            Pattern.parse(pattern)
        except BadPattern as error:
            reader.fail(f"exclude: {error}", where, "exclude")
    mode = table.get("mode", "")
    if mode not in ("", "advisory", "hard_fail"):
        reader.fail(f'mode = {mode!r} is unknown: "advisory" or "hard_fail"', where, "mode")
    name = reader.string(table, "repository_id", where)
    if name and not is_repository_id(name):
        reader.fail(f"repository_id = {name!r} is no id: letters, digits, '_' and '-'", where, "repository_id")
    ttl = reader.duration(table, "ttl", where, 0)
    if ttl and not LEASE_TTL_MS_MIN <= ttl <= LEASE_TTL_MS_MAX:
        reader.fail("ttl of a lease is 10s to 24h", where, "ttl")
    return TerritorySettings(exclude, str(mode), name, ttl)


def parse_config(text: str, file: str, home: Config | None = None) -> Config:
    """Read a `bus.toml`.

    Args:
        text: its content. file: its path, for the sentences only.
        home: for a repository's file, which declares resources only: the bus's own times hold for them.

    Raises:
        ConfigError: TOML that is none, an unknown key, a bad duration, a duplicate port, a missing start.
    """
    table = parse_toml(text, file)
    reader = Declarations(text, file)
    reader.known(table, {"bus", "resources", "agents", "profiles", "territory"}, "")
    for of_home in ("bus", "agents"):
        if home is not None and of_home in table:
            reader.fail("settings of the bus stand in its home's bus.toml only: take this table out", of_home, "")
    bus = reader.table(table, "bus", "")
    reader.known(bus, {*_BUS_TIMES, "hosts", "identity", "inbox_files", "spare"}, "bus")
    times = {name: reader.duration(bus, name, "bus", default) for name, default in _BUS_TIMES.items()}
    hosts = frozenset(KNOWN_HOSTS) | set(reader.strings(bus, "hosts", "bus"))
    files = bus.get("inbox_files", "used")
    if files not in ("used", "all"):
        reader.fail(f'inbox_files = {files!r} is unknown: "used" or "all"', "bus", "inbox_files")
    identity = bus.get("identity", "open")
    if identity not in ("open", "token"):
        reader.fail(f'identity = {identity!r} is unknown: "open" or "token"', "bus", "identity")
    config = home or msgspec.structs.replace(
        Config(
            hosts=hosts,
            spare=reader.spare(bus),
            all_files=files == "all",
            identity=str(identity),
            allowed=_allowed(reader, table),
        ),
        **times,
    )
    declared = reader.table(table, "resources", "")
    if len(declared) > RESOURCES_DECLARED_MAX:
        raise ConfigError(f"{file}: {len(declared)} resources are declared, at most {RESOURCES_DECLARED_MAX} can be")
    resources: dict[str, Definition] = {}
    state_files: dict[str, str] = {}
    ports: dict[int, str] = {}
    for name in declared:
        reader.state_file(name, reader.table(declared, name, "resources"), state_files)
        resources[f"machine/{name}"] = reader.resource(
            name, reader.table(declared, name, "resources"), config.lock, config.spare
        )
        reader.different_ports(name, resources[f"machine/{name}"], ports)
    builds = reader.builds(reader.table(table, "profiles", ""))
    territory = _territory(reader, reader.table(table, "territory", ""))
    return msgspec.structs.replace(
        config, resources=resources, state_files=state_files, builds=builds, territory=territory
    )
