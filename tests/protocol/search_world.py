"""The world of the search: one resource and everything around it that can act on it, and its normal form.

What the world knows to be true (which commands and server trees live, who has what) is kept apart from what the
machine believes: `search_promises.py` compares the two. Nothing here looks at the machine's own bookkeeping to decide
what is true.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from interlock.protocol.definition import CommandDefinition, Definition, Kind, ServerDefinition
from interlock.protocol.identity import Identity
from interlock.protocol.messages import Cancel, Extend, Handover, Release, Request, Restart
from interlock.protocol.outcome import Deadline, Now
from interlock.protocol.resource_commands import (
    Admit,
    AgentGone,
    Define,
    Heard,
    LaunchGone,
    LaunchUp,
    Mail,
    MailBody,
    Recover,
    ResourceCommand,
    Resume,
    Revoke,
    ServerGone,
    StepFailure,
    StepResult,
    StopServers,
    Tick,
    WrapperGone,
)
from interlock.protocol.resource_state import (
    Resource,
    Server,
    Step,
    StepKind,
    Ticket,
    Unit,
    UnitState,
    queued_of,
    unit_of,
)
from interlock.protocol.resource_waiting import next_deadline

INTERVAL_MS = 10_000  # one length for polls, claims and reservations: fewer states, the same rules
WEB = ServerDefinition("start")
LATE_MS = 1_001
KEEPER = Identity("m", "b", 1, 1, 1)


def definition(
    kind: Kind = Kind.LOCK, units: tuple[str, ...] = ("",), start: str = "start", *,
    prepare: str = "", repeatable: bool = False, grace_ms: int = 0,
) -> Definition:  # fmt: skip
    server = ServerDefinition(start, prepare=prepare) if kind is Kind.SERVER else None
    command = CommandDefinition("stop", start, "verify", repeatable=repeatable) if kind is Kind.COMMAND else None
    times = (INTERVAL_MS, INTERVAL_MS, INTERVAL_MS, 15_000)
    return Definition(kind, units, *times, server, command, revoke_grace_ms=grace_ms)


@dataclass(frozen=True)
class Config:
    """Which part of all combinations a search looks at."""

    name: str
    definition: Definition
    agents: tuple[str, ...] = ("a", "b")
    worktrees: tuple[str, ...] = ("-",)
    runs: bool = False
    handovers: bool = False
    attended: bool = False
    times: bool = False
    commands: int = 1
    other: Definition | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A live grant, as those outside saw it."""

    unit: str
    agent: str
    request_id: str
    run: bool
    granted_ms: int
    until_ms: int
    noticed: bool = False
    draining: bool = False
    polls: tuple[int, ...] = ()  # moments of the STILL USING? that it has not answered


@dataclass(frozen=True, slots=True)
class World:
    resource: Resource
    now_ms: int = 0
    seq: int = 1
    depth: int = 0
    incarnation: dict[str, int] = field(default_factory=dict)
    last_id: dict[str, str] = field(default_factory=dict)
    commands: dict[str, tuple[str, int]] = field(default_factory=dict)  # launch: (unit, fence)
    trees: dict[str, tuple[str, str]] = field(default_factory=dict)  # unit: (worktree, half | up | remnant | doubt)
    made: dict[str, str] = field(default_factory=dict)  # unit: the worktree whose preparing for a server is done
    grace: dict[str, int] = field(default_factory=dict)  # unit: until when what runs there is let be
    holds: dict[int, Hold] = field(default_factory=dict)
    fence: int = 0
    places: dict[str, int] = field(default_factory=dict)  # request id: arrival
    arrived: int = 0
    served: dict[str, str] = field(default_factory=dict)  # unit: request id that it is being prepared for
    absent: frozenset[str] = frozenset()
    remembered: dict[str, tuple[int, int]] = field(default_factory=dict)
    doubt: frozenset[str] = frozenset()

    def now(self) -> Now:
        return Now(1_000_000 + self.now_ms, "b", self.now_ms, self.seq)


Move = tuple[str, ResourceCommand, int]  # its name, the command, how long it is until then (ms)


def begin(config: Config) -> World:
    units = tuple(Unit(name) for name in config.definition.units)
    return World(Resource("machine/r", config.definition, units=units))


def moves(world: World, config: Config) -> Iterator[Move]:
    """Everything that can happen next."""
    for agent in config.agents:
        yield from _of_agent(world, config, agent)
    for unit in world.resource.units:
        yield from _of_unit(world, config, unit)
    for launch in world.commands:
        yield f"command {launch} ends", LaunchGone(launch, True, 0), 0
        yield f"command {launch} lost", LaunchGone(launch, False, None, "lost"), 0
    for ticket in _tickets(world.resource):
        if ticket.process is not None:
            yield f"wrapper {ticket.request_id} gone", WrapperGone(ticket.request_id), 0
        if ticket.run:
            withdraw = Cancel("r", ticket.request_id)
            yield f"{ticket.request_id} withdraws", mail(world, ticket.agent, "w", withdraw), 0
    at = next_deadline(world.resource)
    if at is not None:
        wait_ms = max(0, at.mono_ms - world.now_ms)
        yield "tick", Tick(), wait_ms
        yield "tick, slept through", Tick(), wait_ms + LATE_MS
    if any(u.ticket is not None for u in world.resource.units):
        yield "a person revokes", Revoke(f"v{world.depth}", "person", "mine"), 0
    if world.doubt:
        yield "recover", Recover(f"m{world.depth}", "person"), 0
    yield "restart", Resume(), 0
    if world.trees:
        yield "stop servers", StopServers(), 0
    if config.other is not None and world.resource.next_definition is None:
        same = world.resource.definition == config.definition
        yield "define", Define(config.other if same else config.definition), 0


def mail(world: World, agent: str, tag: str, body: MailBody) -> Mail:
    heir = world.incarnation.get(body.agent, 1) if isinstance(body, Handover) else 0
    return Mail(agent, world.incarnation.get(agent, 1), f"{agent}{world.depth}{tag}", body, "r", heir=heir)


def _of_agent(world: World, config: Config, agent: str) -> Iterator[Move]:
    held = unit_of(world.resource, agent)
    asked = held is not None or queued_of(world.resource, agent) is not None
    concerned = asked or bool(world.resource.queue.of(agent))
    for worktree in config.worktrees:
        yield f"{agent} REQUEST {worktree}", mail(world, agent, "q", Request("r", worktree)), 0
    if config.times and not asked:
        yield f"{agent} REQUEST 15s", mail(world, agent, "t", Request("r", config.worktrees[0], time_ms=15_000)), 0
        now = Request("r", config.worktrees[0], queue=False)
        yield f"{agent} REQUEST --no-wait", mail(world, agent, "n", now), 0
    if agent in world.last_id:
        request = Request("r", config.worktrees[0])
        again = Mail(agent, world.incarnation.get(agent, 1), world.last_id[agent], request, "r")
        yield f"{agent} REQUEST again", again, 0
    runs = [t for t in _tickets(world.resource) if t.agent == agent and t.run]
    if config.runs and not runs:
        run = Request("r", config.worktrees[0], run=True, process=KEEPER)
        yield f"{agent} runs REQUEST", mail(world, agent, "r", run), 0
    if config.attended:
        mine = Request("r", config.worktrees[0], attended=True, process=KEEPER)
        yield f"{agent} attends REQUEST", mail(world, agent, "a", mine), 0
    if concerned or world.depth < 2:
        yield f"{agent} RELEASE", mail(world, agent, "l", Release("r")), 0
        yield f"{agent} RELEASE stale", mail(world, agent, "s", Release("r", 1)), 0
        yield f"{agent} EXTEND", mail(world, agent, "e", Extend("r")), 0
        yield f"{agent} CANCEL", mail(world, agent, "c", Cancel("r")), 0
        yield f"{agent} heard", Heard(agent), 0
        yield f"{agent} gone", AgentGone(agent, world.incarnation.get(agent, 1), "gone"), 0
    if held is not None and config.handovers:
        for heir in config.agents:
            yield f"{agent} HANDOVER {heir}", mail(world, agent, f"h{heir}", Handover("r", heir)), 0
    if held is not None and config.definition.kind is not Kind.LOCK:
        yield f"{agent} RESTART", mail(world, agent, "x", Restart("r")), 0


def _of_unit(world: World, config: Config, unit: Unit) -> Iterator[Move]:
    here = sum(where == unit.name for where, _ in world.commands.values())
    if unit.state is UnitState.HELD and unit.ticket is not None and here < config.commands:
        id_, launch = f"admit{world.depth}", f"c{world.depth}{unit.name}"
        yield f"{unit.ticket.agent} admits", Admit(unit.ticket.agent, id_, unit.fence, launch, KEEPER, "make"), 0
    tree = world.trees.get(unit.name)
    if tree is not None and tree[1] in {"up", "remnant"} and unit.server is not None:
        launch = unit.server.launch
        yield "server dies", ServerGone(unit.name, launch, "died", True), 0
        yield "server lost", ServerGone(unit.name, launch, "lost", False), 0
        if tree[1] == "up":
            yield "server leaves a child", ServerGone(unit.name, launch, "ended", False, alive=True), 0
    step = unit.step
    if step is None:
        return
    fails = StepFailure(unit.name, step.number, "failed")
    doubtful = StepFailure(unit.name, step.number, "failed", proved=False)
    if step.kind is StepKind.PREPARE or (step.kind is not StepKind.START and _has_commands(world, unit)):
        yield from _of_command(world, unit, step)
        return
    if step.kind is StepKind.START and not step.launch:
        yield "keeper up", LaunchUp(unit.name, step.number, f"s{world.depth}{unit.name}", KEEPER), 0
        never = StepFailure(unit.name, step.number, "no keeper", never_started=True)
        yield "step never started", never, 0
    elif step.kind is StepKind.START and tree is not None:
        assert step.keeper is not None
        web = world.resource.definition.server or WEB
        yield "started", StepResult(unit.name, step.number, Server(step.launch, step.keeper, tree[0], web)), 0
        yield "start fails", fails, 0
        yield "start fails unproved", doubtful, 0
    elif step.kind is StepKind.STOP:
        if tree is None or tree[1] != "doubt":
            yield "stopped", StepResult(unit.name, step.number), 0
        yield "stop fails", fails, 0
        yield "stop fails unproved", doubtful, 0
    elif step.kind is StepKind.VERIFY:
        if tree is not None and tree[1] == "up":
            yield "verified", StepResult(unit.name, step.number), 0
        yield "not healthy", fails, 0


def _has_commands(world: World, unit: Unit) -> bool:
    """Its stop and its look are commands: of this kind, or of the one that stands there still."""
    return unit.server is None and (unit.prepared is not None or world.resource.definition.kind is Kind.COMMAND)


def _of_command(world: World, unit: Unit, step: Step) -> Iterator[Move]:
    """What can become of one command: it is launched as a server is, and then ends in one way or another."""
    never = StepFailure(unit.name, step.number, "no keeper", never_started=True)
    yield f"{step.kind} fails", StepFailure(unit.name, step.number, "failed"), 0
    if not step.launch:
        yield "keeper up", LaunchUp(unit.name, step.number, f"s{world.depth}{unit.name}", KEEPER), 0
        yield f"{step.kind} never started", never, 0
        return
    yield f"{step.kind} was never let go", never, 0
    yield f"{step.kind} done", StepResult(unit.name, step.number), 0
    yield f"{step.kind} fails unproved", StepFailure(unit.name, step.number, "failed", proved=False), 0
    lost = StepFailure(unit.name, step.number, "its keeper died", proved=False, interrupted=True)
    yield f"{step.kind} is interrupted", lost, 0


def _tickets(resource: Resource) -> Iterator[Ticket]:
    yield from resource.queue.values()
    for unit in resource.units:
        if unit.ticket is not None:
            yield unit.ticket


# --- the normal form ------------------------------------------------------------------------
def normal(world: World, config: Config) -> int:
    """Two worlds with the same normal form go on alike: times are relative, names and numbers are only an order."""
    resource, names = world.resource, dict[str, int]()
    kept = [each.arrival for each in resource.remembered.values()]
    ranks = {n: i for i, n in enumerate(sorted([*(t.arrival for t in _tickets(resource)), *kept]))}

    def name(agent: str) -> int:
        return names.setdefault(agent, len(names))

    def rest(at: Deadline | None) -> int | None:
        return None if at is None else max(-LATE_MS, at.mono_ms - world.now_ms)

    def ticket(t: Ticket) -> tuple[object, ...]:
        ours = t.incarnation == world.incarnation.get(t.agent, 1)
        repeats = world.last_id.get(t.agent) == t.request_id
        return (
            name(t.agent),
            t.run,
            t.process is not None,
            t.worktree,
            t.time_ms,
            t.absent,
            t.misses,
            ranks[t.arrival],
            ours,
            repeats,
        )

    units = []
    for u in resource.units:
        step = u.step and (u.step.kind, bool(u.step.launch), u.step.aborting, u.step.restart, u.step.halt)
        server = u.server and (u.server.worktree, u.server.alive, u.server.definition.start)
        here = sum(where == u.name for where, _ in world.commands.values())
        stands = u.prepared and (u.prepared.worktree, u.prepared.ready, u.prepared.definition)
        units.append((stands, rest(u.free_at), world.made.get(u.name),
            u.state, u.ticket and ticket(u.ticket), rest(u.until), u.claimed, rest(u.claim_at), rest(u.poll_at),
            u.polls, u.polled, len(u.launches), here, step, server, world.trees.get(u.name), u.name in world.doubt,
        ))  # fmt: skip
    queue = [ticket(t) for t in resource.queue.values()]
    remembered = sorted((name(a), ranks[r.arrival], rest(r.until)) for a, r in sorted(resource.remembered.items()))
    said = []
    for agent in sorted(config.agents, key=lambda a: (names.get(a, 99), world.last_id.get(a, "") in resource.ended, a)):
        id_ = world.last_id.get(agent)
        live = id_ is not None and id_ not in resource.ended and id_ in world.places
        said.append((names.get(agent), "" if id_ is None else "live" if live else "over"))
    now = resource.definition
    defined = (now.units, now.kind, now.server, now.command)
    pending = resource.next_definition is not None
    return hash((*units, None, *queue, None, *remembered, None, *said, defined, pending))
