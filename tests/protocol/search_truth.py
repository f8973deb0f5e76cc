"""What a command itself tells of the world: what lives, what is done, who has been heard of."""

from collections import Counter

import msgspec
from tests.protocol.search_world import ANY, Hold, World, with_tree

from interlock.protocol.definition import Kind
from interlock.protocol.messages import Cancel, Extend, Request, Restart
from interlock.protocol.resource_commands import (
    AgentGone,
    Doubt,
    Heard,
    LaunchGone,
    Mail,
    ResourceCommand,
    ServerGone,
    StepFailure,
    StepResult,
)
from interlock.protocol.resource_state import StepKind

SERVES = {"half", "up", "remnant"}
replace = msgspec.structs.replace


def boots(world: World) -> World:
    """No process of the last boot lives, and its deadlines are no deadlines any more."""
    trees = {u: (w, "dead" if how in SERVES and _is_server(world, u) else how) for u, (w, how) in world.trees.items()}
    holds = {fence: replace(hold, until_ms=min(hold.until_ms, world.now_ms)) for fence, hold in world.holds.items()}
    remembered = {a: (n, min(at, world.now_ms)) for a, (n, at) in world.remembered.items()}
    return replace(world, boot=world.boot + 1, trees=trees, holds=holds, grace={}, remembered=remembered)


def truth_of(world: World, command: ResourceCommand) -> World:
    match command:
        case LaunchGone(launch=launch):
            return replace(world, commands={k: v for k, v in world.commands.items() if k != launch})
        case AgentGone(agent, incarnation):
            return replace(world, incarnation={**world.incarnation, agent: incarnation + 1})
        case Mail(agent, _, id_, Request(run=False)):
            world = replace(world, last_id={**world.last_id, agent: id_})
        case StepResult(unit, _, None):
            return _done(world, unit)
        case StepResult(unit, _, server) if server is not None:
            return with_tree(world, unit, (server.worktree, "up"))
        case StepFailure(unit):
            return _failed(world, unit, command)
        case ServerGone(unit, _, _, proved, alive):
            where = world.trees[unit][0]
            return with_tree(world, unit, (where, "remnant") if alive else None if proved else (where, "doubt"))
        case Doubt(_, remains):
            trees = {u: tree for u, tree in world.trees.items() if remains[u].server is not None}
            on = [(launch, u) for u, each in remains.items() for launch in each.launches]
            times = Counter(launch for launch, _ in on)
            commands = {launch: (u if times[launch] == 1 else ANY, 0) for launch, u in on}
            return replace(world, trees=trees, commands=commands)
    match command:
        case Mail(sender=agent, body=Request() | Extend() | Restart() | Cancel(request_id="")) | Heard(agent):
            if any(h.agent == agent and not h.run for h in world.holds.values()):
                quiet = {f: heard(h) if h.agent == agent and not h.run else h for f, h in world.holds.items()}
                return replace(world, holds=quiet)
    return world


def _done(world: World, unit: str) -> World:
    """A step has succeeded that started no server."""
    step, where = world.resource.unit(unit).step, world.trees.get(unit, ("", ""))[0]
    if step is None or step.kind is StepKind.STOP:
        return with_tree(world, unit, None) if step is not None else world
    if world.resource.definition.kind is Kind.COMMAND:
        return with_tree(world, unit, (where, "up")) if step.kind is StepKind.VERIFY else world
    ticket = world.resource.unit(unit).ticket
    made = ticket.worktree if step.kind is StepKind.PREPARE and ticket is not None else ""
    return replace(world, made={**world.made, unit: made}) if made else world


def _failed(world: World, unit: str, failure: StepFailure) -> World:
    """A step has failed: what of it may live, or be half done?"""
    step, tree = world.resource.unit(unit).step, world.trees.get(unit, ("?", ""))
    if step is None:
        return world
    command = world.resource.definition.command
    harmless = failure.proved if command is None else command.repeatable
    again = failure.never_started or (failure.interrupted and harmless)
    if not again and (not failure.proved or failure.interrupted or step.kind is StepKind.STOP):
        return with_tree(world, unit, (tree[0], "doubt"))
    if step.kind is StepKind.START:
        if unit in world.trees and again and not step.restart:  # preparing is about the worktree: so it still stands
            world = replace(world, made={**world.made, unit: tree[0]})
        return with_tree(world, unit, None) if unit in world.trees else world
    if world.resource.definition.kind is not Kind.COMMAND:
        return world
    if step.kind is StepKind.PREPARE and step.launch and failure.never_started:
        return with_tree(world, unit, None)
    broken = step.kind is StepKind.VERIFY and not failure.never_started and unit in world.trees
    return with_tree(world, unit, (tree[0], "half")) if broken else world


def heard(hold: Hold) -> Hold:
    return replace(hold, polls=(), noticed=True)


def _is_server(world: World, unit: str) -> bool:
    return world.resource.definition.kind is Kind.SERVER or world.resource.unit(unit).server is not None
