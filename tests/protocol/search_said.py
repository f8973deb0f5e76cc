"""What is ordered and said: each step once, each answer once, nothing that is not so."""

from collections import Counter

import msgspec
from tests.protocol.search_standing import hold_to
from tests.protocol.search_world import Hold, World, commands_on, with_hold, with_tree

from interlock.protocol.definition import Definition, Kind
from interlock.protocol.messages import Granted, Queued, StillUsing
from interlock.protocol.outcome import Outcome, Send
from interlock.protocol.resource_commands import (
    Admit,
    Go,
    Heard,
    Mail,
    Recover,
    ResourceCommand,
    Resume,
    Revoke,
    RunCommand,
    RunStep,
)
from interlock.protocol.resource_events import (
    ResourceEvent,
    StepStarted,
)
from interlock.protocol.resource_state import Resource, StepKind, Unit, wants_to_hear

replace = msgspec.structs.replace


def ordered(world: World, command: ResourceCommand, outcome: Outcome[Resource, ResourceEvent]) -> World:
    ordered = {order.step for order in outcome.steps if isinstance(order, RunStep | RunCommand)}
    if isinstance(command, Resume):
        under_way = {unit.step.number for unit in outcome.state.units if unit.step is not None}
        hold_to("after a restart every step is taken up again", under_way == ordered, under_way, ordered)
    for event in outcome.events:
        if isinstance(event, StepStarted):
            hold_to("every step that is begun is ordered", event.step in ordered, event)
    for order in outcome.steps:
        if isinstance(order, RunStep) and order.kind is not StepKind.START:
            hold_to("what is stopped or looked at is there", order.server is not None, order)
        if isinstance(order, Go):
            world = _goes(world, outcome.state.unit(order.unit), outcome.state.definition)
    return world


def _goes(world: World, unit: Unit, definition: Definition) -> World:
    """At this moment a command is executed on that unit."""
    step, ticket = unit.step, unit.ticket
    assert step is not None
    if step.kind not in {StepKind.START, StepKind.PREPARE}:
        return world
    hold_to("nothing is begun but for somebody", ticket is not None, unit)
    assert ticket is not None
    repeats = definition.command is not None and definition.command.repeatable
    gone = unit.name not in world.trees or (repeats and world.trees[unit.name] == (ticket.worktree, "half"))
    hold_to("nothing is started before the last server is proved gone", gone, unit)
    if step.kind is StepKind.START:
        wanted = definition.server is not None and definition.server.prepare and not step.restart
        hold_to("a server starts where it was prepared", not wanted or world.made.get(unit.name) == ticket.worktree)
        made = {name: where for name, where in world.made.items() if name != unit.name}
        return with_tree(replace(world, made=made), unit.name, (ticket.worktree, "half"))
    return with_tree(world, unit.name, (ticket.worktree, "half")) if definition.kind is Kind.COMMAND else world


def said(world: World, before: World, command: ResourceCommand, outcome: Outcome[Resource, ResourceEvent]) -> World:
    if not outcome.outbox and not isinstance(command, Mail | Admit | Recover | Revoke):
        return world
    answers = [send for send in outcome.outbox if send.reply_to]
    if isinstance(command, Mail | Admit | Recover | Revoke):
        right = len(answers) == 1 and (answers[0].reply_to, answers[0].to) == (command.id, command.sender)
        hold_to("a message is answered exactly once", right, command, outcome.outbox)
    else:
        hold_to("only a message is answered", not answers, command)
    news = Counter((send.to, send.slot or send.run, type(send.body)) for send in outcome.outbox if not send.reply_to)
    hold_to("news are told once", all(n == 1 for n in news.values()), command, outcome.outbox)
    if isinstance(command, Heard) and outcome.events:
        hold_to(
            "who changes something by a sign of life wants to be heard", wants_to_hear(before.resource, command.agent)
        )
    for send in outcome.outbox:
        world = _sent(world, send)
    return world


def _sent(world: World, send: Send) -> World:
    body = send.body
    if isinstance(body, StillUsing):
        hold = world.holds[body.fence]
        waited = any(request_id not in world.absent for request_id in world.resource.queue)
        hold_to("nothing is polled while nobody waits, or a command runs", waited and not commands_on(world, hold.unit))
        return with_hold(world, body.fence, replace(hold, polls=(*hold.polls, world.now_ms)))
    if isinstance(body, Granted):
        hold = world.holds.get(body.fence) or Hold("", "", "", False, 0, 0)
        hold_to("GRANTED is said to whoever holds it", hold.agent == send.to and not hold.draining, send)
        if world.resource.definition.kind is not Kind.LOCK:
            tree = world.trees.get(hold.unit)
            lives = tree in {(body.worktree, "up"), (body.worktree, "dead")}  # of the latter nobody can know yet
            hold_to("GRANTED: its server lives, in its worktree", lives, send, tree)
    if isinstance(body, Queued) and send.reply_to:
        hold_to("QUEUED is said to whoever has a place", body.request_id in world.places, send)
    return world
