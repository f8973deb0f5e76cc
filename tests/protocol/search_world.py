"""The world of the search: one resource and everything around it that can act on it.

What the world knows to be true (which commands and server trees live, who has what) is kept apart from what the
machine believes: `search_promises.py` compares the two. Nothing here looks at the machine's own bookkeeping to decide
what is true. What can happen next: `search_moves.py`; which worlds are alike: `search_normal.py`.
"""

from collections.abc import Iterator

import msgspec

from interlock.protocol.definition import CommandDefinition, Definition, Kind, ServerDefinition
from interlock.protocol.identity import Identity
from interlock.protocol.outcome import Now
from interlock.protocol.policy import Policy
from interlock.protocol.resource_state import Resource, Ticket, Unit

INTERVAL_MS = 10_000  # one length for polls, claims and reservations: fewer states, the same rules
WEB = ServerDefinition("start")
LATE_MS = 1_001
KEEPER = Identity("m", "b", 1, 1, 1)
LOST = "the database was lost"
ANY = "*"  # in place of a unit: nobody knows which


def definition(
    kind: Kind = Kind.LOCK, units: tuple[str, ...] = ("",), start: str = "start", *,
    prepare: str = "", repeatable: bool = False, grace_ms: int = 0,
) -> Definition:  # fmt: skip
    server = ServerDefinition(start, prepare=prepare) if kind is Kind.SERVER else None
    command = CommandDefinition("stop", start, "verify", repeatable=repeatable) if kind is Kind.COMMAND else None
    times = (INTERVAL_MS, INTERVAL_MS, INTERVAL_MS, 15_000)
    return Definition(kind, units, *times, server, command, revoke_grace_ms=grace_ms)


class Config(msgspec.Struct, frozen=True):
    """Which part of all combinations a search looks at.

    Args:
        runs: agents say `bus run` too. attended: a program attends a request. handovers: HANDOVER is said.
        times: times are declared, and half an interval can pass. boots: the machine can start anew.
        lost: the database can be lost. restarts: a RESTART of what is held.
        commands: how many may run under one hold. other: what the configuration may say instead.
        governed: the gate and a controller have their say.
    """

    name: str
    definition: Definition
    agents: tuple[str, ...] = ("a", "b")
    worktrees: tuple[str, ...] = ("-",)
    runs: bool = False
    handovers: bool = False
    attended: bool = False
    times: bool = False
    boots: bool = False
    lost: bool = False
    commands: int = 1
    other: Definition | None = None
    governed: bool = False


class Hold(msgspec.Struct, frozen=True):
    """A live grant, as those outside saw it.

    Args: polls: moments of the STILL USING? that it has not answered. epoch: of the policy at the grant; 0: none.
    digest: of the first command under it.
    """

    unit: str
    agent: str
    request_id: str
    run: bool
    granted_ms: int
    until_ms: int
    noticed: bool = False
    draining: bool = False
    polls: tuple[int, ...] = ()
    epoch: int = 0
    digest: str = ""


class World(msgspec.Struct, frozen=True):
    """Args:

    commands: launch → (unit or ANY, fence). trees: unit → (worktree, half | up | remnant | doubt | dead). made: unit →
    the worktree whose preparing for a server is done. grace: unit → until when what runs there is let be. places:
    request id → arrival. served: unit → request id that it is being prepared for. remembered: agent → (arrival, until).
    policy, epoch, blockers: as the gate said last. told: what lies in a controller's inbox.
    """

    resource: Resource
    now_ms: int = 0
    seq: int = 1
    depth: int = 0
    boot: int = 1
    incarnation: dict[str, int] = {}
    last_id: dict[str, str] = {}
    commands: dict[str, tuple[str, int]] = {}
    trees: dict[str, tuple[str, str]] = {}
    made: dict[str, str] = {}
    grace: dict[str, int] = {}
    holds: dict[int, Hold] = {}
    fence: int = 0
    places: dict[str, int] = {}
    arrived: int = 0
    served: dict[str, str] = {}
    absent: frozenset[str] = frozenset()
    remembered: dict[str, tuple[int, int]] = {}
    doubt: frozenset[str] = frozenset()
    policy: Policy | None = None
    epoch: int = 0
    blockers: tuple[str, ...] = ()
    told: frozenset[tuple[str, str]] = frozenset()

    def now(self) -> Now:
        return Now(1_000_000 + self.now_ms, self.boot_id(), self.now_ms, self.seq)

    def boot_id(self) -> str:
        return f"b{self.boot}"

    def told_of(self, agent: str) -> str:
        """What has become of the last REQUEST of an agent: sent again it is answered accordingly."""
        id_ = self.last_id.get(agent)
        if id_ is None:
            return ""
        return "live" if id_ in self.places else "ended" if id_ in self.resource.ended else "no ticket"


def begin(config: Config) -> World:
    return World(blank(config.definition))


def blank(definition: Definition) -> Resource:
    return Resource("machine/r", definition, units=tuple(Unit(name) for name in definition.units))


def tickets(resource: Resource) -> Iterator[Ticket]:
    yield from resource.queue.values()
    for unit in resource.units:
        if unit.ticket is not None:
            yield unit.ticket


def commands_on(world: World, unit: str) -> list[str]:
    return [launch for launch, (where, _) in world.commands.items() if where in {unit, ANY}]


def with_tree(world: World, unit: str, tree: tuple[str, str] | None) -> World:
    trees = {k: v for k, v in world.trees.items() if k != unit}
    return msgspec.structs.replace(world, trees=trees if tree is None else {**trees, unit: tree})


def with_hold(world: World, fence: int, hold: Hold | None) -> World:
    holds = {k: v for k, v in world.holds.items() if k != fence}
    return msgspec.structs.replace(world, holds=holds if hold is None else {**holds, fence: hold})
