"""How a resource stands between two steps: what must be true in every state, whatever led to it."""

from collections import Counter
from collections.abc import Iterator

from tests.protocol.search_world import KEEPER, World, commands_on, tickets

from interlock.protocol.resource import decide
from interlock.protocol.resource_commands import (
    AgentGone,
    Forget,
    Govern,
    Heard,
    LaunchGone,
    LaunchUp,
    Recover,
    ResourceCommand,
    ServerGone,
    StepFailure,
    StepResult,
    Sync,
    Tick,
    WrapperGone,
)
from interlock.protocol.resource_state import Resource, StepKind, UnitState
from interlock.protocol.resource_waiting import next_deadline


class Broken(AssertionError):
    """A promise does not hold; str() says which."""


def hold_to(promise: str, kept: object, *seen: object) -> None:
    if not kept:
        raise Broken(" ".join([promise, *(f"{each}" for each in seen)]))


LATE_WORDS: tuple[ResourceCommand, ...] = (
    LaunchGone("long over", False),
    WrapperGone("long over"),
    Heard("stranger"),
    AgentGone("stranger", 1, "gone"),
    Sync("x", "person"),
)


def late_words_change_nothing(world: World, turn: int) -> None:
    """Words about what is over, said again or too late, and a tick before its time; each state has two of them.

    Args:
        turn: number of the state: the words take turns.
    """
    words = list(_late_words(world))
    for number in (turn, turn + 1):
        word = words[number % len(words)]
        outcome = decide(world.resource, word, world.now())
        orders = outcome.steps if not isinstance(word, LaunchUp) else ()  # that one is told to end
        quiet = not outcome.events and not orders and all(send.reply_to for send in outcome.outbox)
        hold_to("what is over changes nothing", quiet, word, outcome.events, outcome.steps)
    if turn % 4 == 0:
        _only_what_is_idle_is_forgotten(world)


def _late_words(world: World) -> Iterator[ResourceCommand]:
    state, now = world.resource, world.now()
    yield from LATE_WORDS
    yield Govern(state.policy, state.epoch, state.blockers)
    for unit in state.units:
        number = -1 if unit.step is None else unit.step.number - 1
        yield StepResult(unit.name, number)
        yield StepFailure(unit.name, number, "late", proved=False)
        yield LaunchUp(unit.name, number, "late", KEEPER)
        yield ServerGone(unit.name, "long over", "late", proved=False)
    mine = [*tickets(state)]
    for agent, incarnation in world.incarnation.items():
        if all(ticket.incarnation >= incarnation for ticket in mine if ticket.agent == agent):
            yield AgentGone(agent, incarnation - 1, "gone")
    if not world.doubt:
        yield Recover("x", "person")
    at = next_deadline(state, now.boot)
    if at is None or (at.boot == now.boot and at.mono_ms > now.mono_ms):
        yield Tick()


def _only_what_is_idle_is_forgotten(world: World) -> None:
    state = world.resource
    idle = not (world.holds or world.places or world.trees or world.doubt or world.served or world.commands)
    idle = idle and world.policy is None
    busy = any(u.step is not None or u.state is not UnitState.FREE or u.prepared is not None for u in state.units)
    forgets = decide(state, Forget(), world.now()).state == Resource(state.key)
    hold_to("what is in use is not forgotten", not forgets or (idle and not busy))
    hold_to("what is idle can be forgotten", forgets or not idle or busy)


def stands(world: World) -> None:
    state = world.resource
    live = {u.fence for u in state.units if u.state in {UnitState.HELD, UnitState.DRAINING} and u.ticket is not None}
    hold_to("the machine's holds are those that were granted and not ended", live == {*world.holds}, live, world.holds)
    there = [*tickets(state)]
    hold_to("no place is lost", Counter(t.request_id for t in there) == Counter([*world.places]), world.places)
    for ticket in there:
        hold_to("a place keeps its arrival number", ticket.arrival == world.places[ticket.request_id], ticket)
    order = [ticket.arrival for ticket in state.queue.values()]
    hold_to("the queue stands in order of arrival", order == sorted(order), order)
    by_agent = Counter((t.agent, t.request_id) for t in state.queue.values())
    hold_to(
        "every place is found by its agent",
        by_agent == Counter((a, r) for a in {*world.last_id, *(t.agent for t in there)} for r in state.queue.of(a)),
    )
    absent = {ticket.request_id for ticket in state.queue.values() if ticket.absent}
    hold_to("who did not notice its grant is absent, and nobody else", absent == world.absent, absent, world.absent)
    kept = {a: r.arrival for a, r in state.remembered.items() if not r.until.is_due(world.now())}
    remembered = {a: arrival for a, (arrival, until) in world.remembered.items() if until > world.now_ms}
    hold_to("a remembered place is kept", kept == remembered, kept, remembered)
    waited = any(request_id not in world.absent for request_id in state.queue)
    for unit in state.units:
        free = unit.state is UnitState.FREE
        wakes = not (free and waited) or state.next_definition is not None or world.policy is not None
        hold_to("no free unit with a waiter that could have it", wakes, unit, [*state.queue])
        hold_to("a free unit has no step", not free or unit.step is None, unit)
        hold_to("who prepares has a step", unit.state is not UnitState.PREPARING or unit.step is not None, unit)
        drains = unit.step is not None or unit.launches or unit.free_at is not None
        hold_to("what drains has something to wait for", unit.state is not UnitState.DRAINING or drains, unit)
        hold_to("the machine knows every command", {*unit.launches} == {*commands_on(world, unit.name)}, unit)
        hold_to("doubt is on record", (unit.name in world.doubt) == (unit.state is UnitState.RECOVERY_REQUIRED), unit)
        command = state.definition.command
        ends = (
            {StepKind.START} if command is not None and not command.repeatable else {StepKind.START, StepKind.PREPARE}
        )
        unwanted = unit.step is not None and unit.step.kind in ends and unit.ticket is None
        hold_to("a start that nobody wants is aborted", not unwanted or (unit.step and unit.step.aborting), unit)
        if unit.state is UnitState.HELD and unit.ticket is not None and unit.step is None and not unit.launches:
            asks = unit.poll_at if unit.claimed else unit.claim_at
            wanted = waited and not (unit.ticket.run and unit.claimed) and not unit.epoch
            hold_to("an owner that others wait for is asked", not wanted or asks is not None, unit)
            hold_to("nobody is asked while nobody waits", waited or unit.poll_at is None, unit)
