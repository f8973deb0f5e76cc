"""The promises of the contract, checked on every step of the search.

`follow` plays one move, compares what the machine did with what the world knows to be true, and returns the world
after it. It raises `Broken` with the promise that does not hold; what it knows it has from commands and events alone.
"""

from typing import Any

import msgspec
from tests.protocol.search_asked import does_what_is_asked
from tests.protocol.search_governed import Move, governed, granted_under, may_be_chosen, may_revoke, told, used
from tests.protocol.search_moves import BLANK, BOOT
from tests.protocol.search_said import ordered, said
from tests.protocol.search_standing import hold_to
from tests.protocol.search_truth import boots, heard, truth_of
from tests.protocol.search_world import INTERVAL_MS, Hold, World, blank, commands_on, with_hold, with_tree

from interlock.protocol.codes import Code
from interlock.protocol.messages import Cancel, Handover, Release
from interlock.protocol.outcome import Outcome, fold
from interlock.protocol.plain import from_plain, to_plain
from interlock.protocol.resource import decide
from interlock.protocol.resource_commands import (
    AgentGone,
    Doubt,
    Govern,
    LaunchGone,
    Mail,
    Recover,
    ResourceCommand,
    Resume,
    Revoke,
    ServerGone,
    StepFailure,
    Tick,
    WrapperGone,
)
from interlock.protocol.resource_events import (
    Draining,
    Governed,
    HoldExtended,
    HoldGranted,
    HoldReleased,
    HoldRevoked,
    PassedOver,
    PrepareFailed,
    Recovered,
    RecoveryRequired,
    Requested,
    ResourceEvent,
    Returned,
    Started,
    StepStarted,
    TicketCancelled,
)
from interlock.protocol.resource_evolve import evolve
from interlock.protocol.resource_state import Resource, StepKind

RESOURCE = msgspec.json.Decoder(Resource, dec_hook=from_plain)
EVENTS = msgspec.json.Decoder(tuple[ResourceEvent, ...])
ENCODE = msgspec.json.Encoder(enc_hook=to_plain).encode
REMEMBERED_MS = 120_000
replace = msgspec.structs.replace


def follow(world: World, move: Move) -> World:
    _, command, wait_ms = move
    if wait_ms == BOOT:
        world = boots(world)
    elif wait_ms == BLANK:
        world = replace(
            world, resource=blank(world.resource.definition), seq=world.seq + 1_000, arrived=0, places={}, holds={},
            served={}, absent=frozenset(), remembered={}, doubt=frozenset(), made={}, grace={},
        )  # fmt: skip
    if isinstance(command, Resume):
        world = replace(world, resource=RESOURCE.decode(ENCODE(world.resource)))
    before = world
    world = truth_of(replace(world, now_ms=world.now_ms + max(0, wait_ms), depth=world.depth + 1), command)
    outcome = decide(before.resource, command, world.now())
    for event in outcome.events:
        world = _take_in(world, before, command, event)
    world = replace(world, resource=outcome.state)
    world = ordered(world, command, outcome)
    world = told(said(world, before, command, outcome), outcome)
    does_what_is_asked(before, world, command, outcome)
    if outcome.events:
        _replays(before.resource, outcome)
        world = _quiet(world)
    return world


# --- restart is replay ------------------------------------------------------------------------
def _replays(before: Resource, outcome: Outcome[Resource, ResourceEvent]) -> None:
    events = EVENTS.decode(ENCODE(outcome.events))
    replayed = fold(evolve, before, events)
    hold_to("restart is replay: the events, read back, make the same state", replayed == outcome.state)
    hold_to("restart is replay: and the same queue", [*replayed.queue] == [*outcome.state.queue])


# --- what the events say ------------------------------------------------------------------------
def _take_in(world: World, before: World, command: ResourceCommand, event: ResourceEvent) -> World:
    seq = world.seq
    world = replace(world, seq=seq + 1)
    match event:
        case Requested(agent, ticket):
            kept = world.remembered.get(agent)
            arrival = world.arrived + 1
            if kept is not None and kept[1] > world.now_ms:
                arrival = kept[0]
            hold_to("a newcomer goes to the back, a remembered place is kept", ticket.arrival == arrival, event)
            remembered = {k: v for k, v in world.remembered.items() if k != agent}
            arrived = max(world.arrived, ticket.arrival)
            places = {**world.places, ticket.request_id: arrival}
            return replace(world, remembered=remembered, arrived=arrived, places=places)
        case Returned(_, request_id):
            return replace(world, absent=world.absent - {request_id})
        case TicketCancelled(agent, request_id, why, _, remember):
            hold_to("a ticket ends with a reason", why and request_id in world.places, event)
            timed = isinstance(command, Tick)
            hold_to("time takes a place from nobody but the absent", not timed or request_id in world.absent, event)
            if remember is not None:
                kept = (world.places[request_id], world.now_ms + REMEMBERED_MS)
                world = replace(world, remembered={**world.remembered, agent: kept})
            return _gone(world, request_id)
        case PrepareFailed(_, _, request_id, why):
            hold_to("a ticket ends with a reason", why and request_id in world.places, event)
            return _gone(world, request_id)
        case StepStarted(unit=unit, kind=kind, request_id=request_id, halt=halt):
            lost = isinstance(command, StepFailure) and command.interrupted and command.unit == unit
            board = world.resource.definition.command
            again = command.proved if board is None and isinstance(command, StepFailure) else board and board.repeatable
            hold_to("what may not be repeated is not", not lost or again, event)
            early = kind is StepKind.STOP and not halt and unit not in world.doubt
            hold_to("what runs is let be in the grace", not early or world.now_ms >= world.grace.get(unit, 0), event)
            if not request_id:
                return world
            _is_next(world, command, request_id)
            _is_free(world, unit)
            return replace(world, served={**world.served, unit: request_id})
        case HoldGranted():
            return _granted(world, command, event, seq)
        case HoldExtended(fence=fence, until=until):
            hold = world.holds[fence]
            until_ms = until.mono_ms if until is not None else hold.until_ms
            return with_hold(world, fence, replace(hold, until_ms=until_ms))
        case Started(_, unit, fence, launch):
            hold_to("a command runs under a live hold only", fence in world.holds, event)
            world = used(world, command, event)
            commands = {**world.commands, launch.launch: (unit, fence)}
            return replace(with_hold(world, fence, heard(world.holds[fence])), commands=commands)
        case Draining(fence=fence, why=why):
            hold_to("a hold that drains is live and has a reason", why and fence in world.holds, event)
            _may_end(world, before, command, event, world.holds[fence], fence, draining=True)
            world = _graced(world, command, world.holds[fence])
            return with_hold(world, fence, replace(world.holds[fence], draining=True))
        case HoldReleased(fence=fence) | HoldRevoked(fence=fence) | PassedOver(fence=fence):
            hold_to("a hold ends once", fence in world.holds, event)
            hold_to("a hold ends with a reason", event.why)
            hold = world.holds[fence]
            _may_end(world, before, command, event, hold, fence)
            world = _graced(with_hold(world, fence, None), command, hold)
            if isinstance(event, PassedOver):
                return replace(world, absent=world.absent | {hold.request_id})
            return _gone(world, hold.request_id)
        case RecoveryRequired(unit=unit, why=why):
            unproved = isinstance(command, StepFailure | ServerGone | LaunchGone | Doubt)
            hold_to("only what is not proved needs a recovery, and it says why", unproved and why, event)
            served = {k: v for k, v in world.served.items() if k != unit}
            made = {k: v for k, v in world.made.items() if k != unit}
            world = replace(world, doubt=world.doubt | {unit}, served=served, made=made)
            for fence, hold in world.holds.items():
                if hold.unit == unit:
                    world = _gone(with_hold(world, fence, None), hold.request_id)
        case Governed():
            return governed(world, command, event)
        case Recovered(unit):
            hold_to("only a person ends a doubt", isinstance(command, Recover) and unit in world.doubt, event)
            hold_to("nobody confirms away a living command", not commands_on(world, unit), event)
            world = replace(world, doubt=world.doubt - {unit})
            if world.trees.get(unit, ("", ""))[1] == "doubt":
                world = with_tree(world, unit, None)
    return world


def _granted(world: World, command: ResourceCommand, event: HoldGranted, seq: int) -> World:
    hold_to("fences grow and are never used again", event.fence > world.fence, event)
    hold_to("a fence is the number of its grant", event.fence == seq, event)
    _is_free(world, event.unit)
    if world.served.get(event.unit) != event.request_id:
        _is_next(world, command, event.request_id)
    granted_under(world, event)
    until_ms = event.until.mono_ms if event.until is not None else 0
    run = event.request_id.endswith("r")  # as `search_moves.moves` names it
    hold = Hold(
        event.unit, event.agent, event.request_id, run, world.now_ms, until_ms, event.claimed, epoch=event.epoch
    )  # fmt: skip
    served = {k: v for k, v in world.served.items() if k != event.unit}
    return replace(world, served=served, fence=event.fence, holds={**world.holds, event.fence: hold})


def _is_free(world: World, unit: str) -> None:
    hold_to("live grants never exceed the units", all(h.unit != unit for h in world.holds.values()), unit)
    hold_to("no unit is given on while a command lives on it", not commands_on(world, unit), unit)
    hold_to("what needs a recovery is not given", unit not in world.doubt, unit)


def _is_next(world: World, command: ResourceCommand, request_id: str) -> None:
    hold_to("an absent ticket is not granted", request_id not in world.absent, request_id)
    if may_be_chosen(world, command, request_id):
        return
    held = {hold.request_id for hold in world.holds.values()}
    preparing = {*world.served.values()}
    mine = world.places[request_id]
    for other, place in world.places.items():
        before_me = place < mine and other not in held | world.absent | preparing
        hold_to("nobody is overtaken in the queue", not before_me, other, "stood before", request_id)


def _graced(world: World, command: ResourceCommand, hold: Hold) -> World:
    """Who lives and is revoked has a moment to save what it needs of what runs there."""
    grace_ms = world.resource.definition.revoke_grace_ms
    stands = hold.unit in world.trees and world.resource.unit(hold.unit).step is None
    ends = isinstance(command, Tick | Revoke) or (isinstance(command, WrapperGone) and not hold.run)
    if not ends or not stands or not grace_ms:
        return world
    return replace(world, grace={**world.grace, hold.unit: world.now_ms + grace_ms})


def _may_end(
    world: World, before: World, command: ResourceCommand, event: Any, hold: Hold, fence: int, *, draining: bool = False
) -> None:
    """Nobody alive and answering loses a hold, and none ends while a command lives under it."""
    if not draining:
        under = [launch for launch, (_, of) in world.commands.items() if of == fence]
        hold_to("while a command lives, its hold does not end", not under, event)
    match command:
        case Mail(sender=sender, body=Release() | Handover()):
            right = isinstance(event, HoldReleased) and sender == hold.agent
        case Mail(sender=sender, body=Cancel()):
            right = isinstance(event, HoldReleased) and sender == hold.agent and hold.epoch > 0
        case Govern():
            right = may_revoke(before, world, event)
        case AgentGone(agent):
            right = isinstance(event, HoldRevoked | Draining) and agent == hold.agent and not hold.run
        case Revoke():
            right = isinstance(event, HoldRevoked | Draining)
        case WrapperGone(request_id):
            right = isinstance(event, HoldReleased if hold.run else HoldRevoked | Draining)
            right = right and request_id == hold.request_id
        case LaunchGone(launch=launch):
            right = before.commands.get(launch, ("", 0))[1] == fence
            right = right and (hold.run or hold.draining or hold.epoch > 0 or world.policy is not None)
        case Tick():
            right = _was_silent(world, before, event, hold)
        case _:
            right = False
    hold_to("nobody alive and answering loses a hold", right, command, event, hold)


def _was_silent(world: World, before: World, event: Any, hold: Hold) -> bool:
    unit = before.resource.unit(hold.unit)
    due = unit.claim_at or unit.poll_at
    if due is None or world.now_ms - due.mono_ms > 1_000 or hold.draining:
        return False
    waited = any(request_id not in before.absent for request_id in before.resource.queue)
    if hold.epoch:
        unused = isinstance(event, HoldRevoked) and event.code == Code.RESERVATION_EXPIRED
        return unused and world.now_ms - hold.granted_ms >= INTERVAL_MS
    if hold.noticed:
        counted = [at for at in hold.polls if at >= hold.until_ms]
        asked = len(counted) >= 2 and counted[-1] - counted[-2] >= INTERVAL_MS
        return asked and world.now_ms - counted[-1] >= INTERVAL_MS and waited and not hold.run
    late = world.now_ms - hold.granted_ms >= INTERVAL_MS
    return late and (hold.run or (waited and isinstance(event, PassedOver)))


def _gone(world: World, request_id: str) -> World:
    places = {k: v for k, v in world.places.items() if k != request_id}
    served = {k: v for k, v in world.served.items() if v != request_id}
    made = {k: v for k, v in world.made.items() if world.served.get(k) != request_id}  # what was made was for that turn
    return replace(world, places=places, served=served, made=made, absent=world.absent - {request_id})


def _quiet(world: World) -> World:
    """The queue running empty, a command or a step under the hold end the count of its polls."""
    waited = any(request_id not in world.absent for request_id in world.resource.queue)
    for fence, hold in world.holds.items():
        if hold.polls and (not waited or commands_on(world, hold.unit) or world.resource.unit(hold.unit).step):
            world = with_hold(world, fence, replace(hold, polls=()))
    return world
