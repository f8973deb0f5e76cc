"""Everything that can happen next in the world of the search."""

from collections.abc import Iterator

import msgspec
from tests.protocol.search_governed import Move, of_commands, of_controller, of_gate
from tests.protocol.search_world import KEEPER, LATE_MS, LOST, WEB, Config, World, commands_on, tickets

from interlock.protocol.definition import Kind
from interlock.protocol.messages import Cancel, Extend, Handover, Release, Request, Restart
from interlock.protocol.resource_commands import (
    Admit,
    AgentGone,
    Define,
    Doubt,
    Heard,
    LaunchGone,
    LaunchUp,
    Mail,
    MailBody,
    PortBlocked,
    Recover,
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
    Launch,
    Remains,
    Server,
    Step,
    StepKind,
    Unit,
    UnitState,
    queued_of,
    unit_of,
)
from interlock.protocol.resource_waiting import next_deadline

HALF_MS = 5_000
BOOT, BLANK = -1, -2  # in place of a wait: the machine starts anew first, or nothing is known any more


def moves(world: World, config: Config) -> Iterator[Move]:
    for agent in representatives(world, config):
        yield from _of_agent(world, config, agent)
    for unit in world.resource.units:
        yield from _of_unit(world, config, unit)
    for launch, (_, fence) in world.commands.items():
        yield f"command {launch} ends", LaunchGone(launch, True, 0), 0
        if fence or world.doubt:
            yield f"command {launch} lost", LaunchGone(launch, False, None, "lost"), 0
    for ticket in tickets(world.resource):
        if ticket.process is not None:
            yield f"wrapper {ticket.request_id} gone", WrapperGone(ticket.request_id), 0
        if ticket.run:
            withdraw = Cancel("r", ticket.request_id)
            yield f"{ticket.request_id} withdraws", mail(world, ticket.agent, "w", withdraw), 0
    yield from _of_time(world, config)
    for unit in world.resource.units:
        if unit.ticket is not None:
            yield f"a person revokes {unit.name}", Revoke(f"v{world.depth}", "person", "mine", unit.name), 0
    if world.doubt:
        yield "recover", Recover(f"m{world.depth}", "person"), 0
    if config.governed:
        yield from of_gate(world, config)
        yield from of_controller(world)
    yield "restart", Resume(), 0
    if world.trees:
        yield "stop servers", StopServers(), 0
    if config.other is not None and world.resource.next_definition is None:
        same = world.resource.definition == config.definition
        yield "define", Define(config.other if same else config.definition), 0
    if config.lost:
        yield "the database is lost", Doubt(LOST, _remains(world)), BLANK
        yield "the database comes from a backup", Doubt(LOST, _remains(world)), 0
        if len(world.resource.units) > 1 and world.commands:
            yield "the database is lost, and with it where what runs belongs", Doubt(LOST, _anywhere(world)), BLANK


def representatives(world: World, config: Config) -> list[str]:
    """The agents, but of those that stand nowhere and have said alike only the first: any of them does what it does."""
    seen, found = set(), []
    for agent in config.agents:
        nowhere = not any(t.agent == agent for t in tickets(world.resource)) and agent not in world.resource.remembered
        about = (world.told_of(agent), world.policy is not None and agent in world.policy.participants)
        if not nowhere or about not in seen:
            found.append(agent)
        if nowhere:
            seen.add(about)
    return found


def mail(world: World, agent: str, tag: str, body: MailBody) -> Mail:
    heir = world.incarnation.get(body.agent, 1) if isinstance(body, Handover) else 0
    return Mail(agent, world.incarnation.get(agent, 1), f"{agent}{world.depth}{tag}", body, "r", heir=heir)


def _of_time(world: World, config: Config) -> Iterator[Move]:
    at = next_deadline(world.resource, world.boot_id())
    if at is not None:
        wait_ms = max(0, at.mono_ms - world.now_ms) if at.boot == world.boot_id() else 0
        yield "tick", Tick(), wait_ms
        yield "tick, slept through", Tick(), wait_ms + LATE_MS
        if config.times and wait_ms > HALF_MS:
            yield "half an interval passes", Tick(), HALF_MS
    if config.boots:
        yield "the machine starts anew", Resume(), BOOT


def _of_agent(world: World, config: Config, agent: str) -> Iterator[Move]:
    held = unit_of(world.resource, agent)
    asked = held is not None or queued_of(world.resource, agent) is not None
    concerned = asked or any(ticket.agent == agent for ticket in tickets(world.resource))
    for worktree in config.worktrees:
        yield f"{agent} REQUEST {worktree}", mail(world, agent, "q", Request("r", worktree)), 0
    if config.times:
        yield f"{agent} REQUEST 15s", mail(world, agent, "t", Request("r", config.worktrees[0], time_ms=15_000)), 0
        if not asked:
            now = Request("r", config.worktrees[0], queue=False)
            yield f"{agent} REQUEST --no-wait", mail(world, agent, "n", now), 0
    if agent in world.last_id:
        request = Request("r", config.worktrees[0])
        again = Mail(agent, world.incarnation.get(agent, 1), world.last_id[agent], request, "r")
        yield f"{agent} REQUEST again", again, 0
    runs = [t for t in tickets(world.resource) if t.agent == agent and t.run]
    if config.runs and not runs:
        run = Request("r", config.worktrees[0], run=True, process=KEEPER)
        yield f"{agent} runs REQUEST", mail(world, agent, "r", run), 0
    ours = next((u for u in world.resource.units if u.ticket in runs and u.fence), None)
    if ours is not None:
        inside = Request("r", config.worktrees[0], run=True, process=KEEPER, under=ours.fence)
        yield f"{agent} runs REQUEST inside", mail(world, agent, "i", inside), 0
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
    if held is not None and config.times:
        yield f"{agent} EXTEND 15s", mail(world, agent, "f", Extend("r", "", 15_000)), 0
    if concerned and config.handovers:
        for heir in {*representatives(world, config), agent}:
            yield f"{agent} HANDOVER {heir}", mail(world, agent, f"h{heir}", Handover("r", heir)), 0
    if held is not None and config.definition.kind is not Kind.LOCK:
        yield f"{agent} RESTART", mail(world, agent, "x", Restart("r")), 0


def _of_unit(world: World, config: Config, unit: Unit) -> Iterator[Move]:
    here = sum(where == unit.name for where, _ in world.commands.values())
    if unit.state is UnitState.HELD and unit.ticket is not None and here < config.commands:
        id_, launch = f"admit{world.depth}", f"c{world.depth}{unit.name}"
        admit = Admit(unit.ticket.agent, id_, unit.fence, launch, KEEPER, "make", "d1")
        yield f"{unit.ticket.agent} admits", admit, 0
    if config.governed:
        yield from of_commands(world, unit)
    tree = world.trees.get(unit.name)
    if tree is not None and tree[1] in {"up", "remnant", "dead"} and unit.server is not None:
        launch = unit.server.launch
        yield "server dies", ServerGone(unit.name, launch, "died", True), 0
        if tree[1] != "dead":
            yield "server lost", ServerGone(unit.name, launch, "lost", False), 0
        if tree[1] == "up":
            yield "server leaves a child", ServerGone(unit.name, launch, "ended", False, alive=True), 0
    step = unit.step
    if step is None:
        return
    if step.kind is StepKind.PREPARE or (step.kind is not StepKind.START and _has_commands(world, unit)):
        yield from _of_command(world, unit, step)
    else:
        yield from _of_server(world, unit, step, tree)


def _of_server(world: World, unit: Unit, step: Step, tree: tuple[str, str] | None) -> Iterator[Move]:
    fails = StepFailure(unit.name, step.number, "failed")
    doubtful = StepFailure(unit.name, step.number, "failed", proved=False)
    how = "" if tree is None else tree[1]
    if step.kind is StepKind.START and not step.launch:
        yield "keeper up", LaunchUp(unit.name, step.number, f"s{world.depth}{unit.name}", KEEPER), 0
        never = StepFailure(unit.name, step.number, "no keeper", never_started=True)
        yield "step never started", never, 0
        yield "the start fails at once", fails, 0
        yield "a stranger has the port", PortBlocked(unit.name, step.number, "port 1 is held by nc"), 0
        yield "the port is free", PortBlocked(unit.name, step.number, ""), 0
    elif step.kind is StepKind.START and tree is not None:
        assert step.keeper is not None
        web = world.resource.definition.server or WEB
        if how != "dead":
            yield "started", StepResult(unit.name, step.number, Server(step.launch, step.keeper, tree[0], web)), 0
            yield "start fails unproved", doubtful, 0
            never = StepFailure(unit.name, step.number, "it left before GO", never_started=True)
            yield "start was never let go", never, 0
        yield "start is interrupted", StepFailure(unit.name, step.number, "its keeper died", interrupted=True), 0
        yield "start fails", fails, 0
    elif step.kind is StepKind.STOP:
        if how != "doubt":
            yield "stopped", StepResult(unit.name, step.number), 0
        yield "stop fails", fails, 0
        yield "stop fails unproved", doubtful, 0
    elif step.kind is StepKind.VERIFY:
        if how == "up":
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
    gone = StepFailure(unit.name, step.number, "the machine went down", interrupted=True)
    yield f"{step.kind} is interrupted, nothing of it lives", gone, 0


def _anywhere(world: World) -> dict[str, Remains]:
    """Nothing says on which unit a command runs: it is charged to all."""
    found = _remains(world)
    launches = {launch: each for remains in found.values() for launch, each in remains.launches.items()}
    return {unit: msgspec.structs.replace(remains, launches=launches) for unit, remains in found.items()}


def _remains(world: World) -> dict[str, Remains]:
    """What is found beside a lost database: keepers that live, each with what it keeps."""
    found = {}
    for unit in world.resource.units:
        tree = world.trees.get(unit.name)
        lives = tree is not None and tree[1] in {"up", "remnant"} and unit.server is not None
        launches = {c: Launch(c, KEEPER, "make", 0) for c in commands_on(world, unit.name)}
        if unit.step is not None and unit.step.launch:  # its keeper tells a step's launch from no other
            launches[unit.step.launch] = Launch(unit.step.launch, KEEPER, unit.step.launch, 0)
        found[unit.name] = Remains("held by somebody", unit.server if lives else None, launches)
    return found
