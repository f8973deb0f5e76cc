"""What must come of a command: not only is nothing done that may not be, what is asked for is done, and told."""

from tests.protocol.search_governed import chooses, ends_with_its_last
from tests.protocol.search_standing import hold_to
from tests.protocol.search_world import World, commands_on

from interlock.protocol.definition import Kind
from interlock.protocol.messages import Grant, Handover, Refused, Release, Released, Revoked
from interlock.protocol.outcome import Outcome
from interlock.protocol.resource_commands import (
    AgentGone,
    Define,
    Doubt,
    Govern,
    LaunchGone,
    Mail,
    Recover,
    ResourceCommand,
    Revoke,
    ServerGone,
    StepFailure,
    Tick,
    WrapperGone,
)
from interlock.protocol.resource_events import PrepareFailed, ResourceEvent, TicketCancelled
from interlock.protocol.resource_state import Resource, Ticket, UnitState, first_grantable

AGAINST_ITS_WILL = Govern | Tick | Revoke | WrapperGone | ServerGone | StepFailure | LaunchGone | Doubt


def does_what_is_asked(
    before: World, world: World, command: ResourceCommand, outcome: Outcome[Resource, ResourceEvent]
) -> None:
    if isinstance(command, AGAINST_ITS_WILL):
        _is_told(before, world, command, outcome)
    answer = next((send.body for send in outcome.outbox if send.reply_to), None)
    if isinstance(answer, Refused) and not isinstance(command, Mail):
        hold_to("what is refused changes nothing", not outcome.events, command, outcome.events)
    match command:
        case Mail(sender=agent, body=Release(fence=fence)):
            held = _held(before, agent, fence)
            if held is not None and not commands_on(before, before.holds[held].unit):
                right = isinstance(answer, Released) and held not in world.holds
                hold_to("whoever releases has released", right, command, answer)
        case Mail(sender=agent, body=Handover(agent=heir)):
            _hands_over(before, world, agent, heir, answer, outcome)
        case Mail(body=Grant()):
            chooses(before, world, command, answer, outcome)
        case LaunchGone(launch=launch, proved=True):
            ends_with_its_last(before, world, launch)
        case Revoke(unit=name):
            unit, ticket = before.resource.unit(name), before.resource.unit(name).ticket
            live = ticket is not None and unit.state in {UnitState.HELD, UnitState.PREPARING}
            hold_to("a person may always revoke", isinstance(answer, Revoked) or not live, command, answer)
            still = [h for h in world.holds.values() if ticket is not None and h.request_id == ticket.request_id]
            waits = ticket is not None and ticket.request_id in world.served.values()
            over = not waits and all(h.draining for h in still)
            hold_to("what is revoked is over", over or not isinstance(answer, Revoked), still)
        case Recover():
            for name in before.doubt:
                unit = before.resource.unit(name)
                runs = commands_on(before, name) or unit.step is not None
                hold_to("a person ends every doubt where nothing runs", runs or name not in world.doubt, name)
        case AgentGone(agent, incarnation):
            _has_left(world, agent, incarnation)
    if isinstance(command, Define | Govern | Tick | StepFailure | Revoke):
        _places_are_told(before, outcome)


def _held(world: World, agent: str, fence: int) -> int | None:
    mine = [f for f, h in world.holds.items() if h.agent == agent and not h.draining and (not h.run or f == fence)]
    return next((f for f in mine if fence in {0, f}), None)


def _hands_over(
    before: World, world: World, agent: str, heir: str, answer: object, outcome: Outcome[Resource, ResourceEvent]
) -> None:
    if not isinstance(answer, Released):
        hold_to("what is refused changes nothing", not outcome.events, agent, heir, outcome.events)
        return
    fence = _held(before, agent, 0)
    hold_to("only a holder hands over", fence is not None and fence not in world.holds, agent, heir)
    assert fence is not None
    given = before.holds[fence]
    first = first_grantable(before.resource)
    hold_to("nobody is overtaken by a hand-over", first is None or first.agent == heir, first, heir)
    if world.resource.next_definition is not None or before.resource.next_definition is not None:
        return
    having = [u for u in world.resource.units if u.ticket is not None and u.ticket.agent == heir and not u.ticket.run]
    if first is not None:
        having += [u for u in world.resource.units if u.ticket is not None and u.ticket.request_id == first.request_id]
    if before.resource.unit(given.unit).step is not None:  # what it was begun for it must end first
        hold_to("who is named is next", having or _is_first(world, heir), heir, world.resource.queue)
        return
    hold_to("who is named has it", having, heir, [*world.resource.queue])
    if first is None:
        hold_to("what is handed over is that very unit", having[0].name == given.unit, having[0], given)
        was = before.resource.unit(given.unit).ticket
        same = was is not None and having[0].ticket is not None and having[0].ticket.worktree == was.worktree
        hold_to("what is handed over is as it stands", same or before.resource.definition.kind is Kind.LOCK, having[0])


def _is_first(world: World, agent: str) -> bool:
    first: Ticket | None = first_grantable(world.resource)
    return first is not None and first.agent == agent


def _has_left(world: World, agent: str, incarnation: int) -> None:
    for ticket in world.resource.queue.values():
        stays = ticket.agent != agent or ticket.run or ticket.incarnation > incarnation
        hold_to("who is gone stands nowhere", stays, ticket)
    for hold in world.holds.values():
        hold_to("who is gone holds nothing", hold.agent != agent or hold.run or hold.draining, hold)


def _is_told(before: World, world: World, command: ResourceCommand, outcome: Outcome[Resource, ResourceEvent]) -> None:
    """Whoever loses a hold against its will hears of it, in its inbox or at its `bus run`."""
    for fence, hold in before.holds.items():
        after = world.holds.get(fence)
        if hold.draining or (after is not None and not after.draining):
            continue
        reserved = isinstance(command, LaunchGone) and (hold.epoch or before.policy is not None)
        if reserved or (hold.run and isinstance(command, WrapperGone | LaunchGone)):
            doubt = hold.unit in world.doubt - before.doubt
            if not doubt:
                continue  # its own end, in good order
        told = any(
            isinstance(send.body, Revoked) and send.to == hold.agent and not send.reply_to and send.body.fence == fence
            and send.run == (hold.request_id if hold.run else "")
            for send in outcome.outbox
        )  # fmt: skip
        hold_to("whoever loses a hold early is told", told, hold, outcome.outbox)


def _places_are_told(before: World, outcome: Outcome[Resource, ResourceEvent]) -> None:
    """Whoever loses its place against its will hears of it too."""
    told = {getattr(send.body, "request_id", "") for send in outcome.outbox if isinstance(send.body, Revoked)}
    for event in outcome.events:
        if isinstance(event, TicketCancelled | PrepareFailed):
            hold_to("whoever loses its place is told", event.request_id in told, event, outcome.outbox)
