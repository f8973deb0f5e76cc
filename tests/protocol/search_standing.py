"""How a resource stands between two steps: what must be true in every state, whatever led to it."""

from collections import Counter

from tests.protocol.search_world import World

from interlock.protocol.resource_state import StepKind, UnitState


class Broken(AssertionError):
    """A promise does not hold; str() says which."""


def hold_to(promise: str, kept: object, *seen: object) -> None:
    if not kept:
        raise Broken(" ".join([promise, *map(str, seen)]))


def commands_on(world: World, unit: str) -> list[str]:
    return [launch for launch, (where, _) in world.commands.items() if where == unit]


def stands(world: World) -> None:
    state = world.resource
    live = {u.fence for u in state.units if u.state in {UnitState.HELD, UnitState.DRAINING} and u.ticket is not None}
    hold_to("the machine's holds are those that were granted and not ended", live == {*world.holds}, live, world.holds)
    tickets = [*state.queue.values(), *(u.ticket for u in state.units if u.ticket is not None)]
    hold_to("no place is lost", Counter(t.request_id for t in tickets) == Counter([*world.places]), world.places)
    for ticket in tickets:
        hold_to("a place keeps its arrival number", ticket.arrival == world.places[ticket.request_id], ticket)
    order = [ticket.arrival for ticket in state.queue.values()]
    hold_to("the queue stands in order of arrival", order == sorted(order), order)
    by_agent = Counter((t.agent, t.request_id) for t in state.queue.values())
    hold_to(
        "every place is found by its agent",
        by_agent == Counter((a, r) for a in {*world.last_id, *(t.agent for t in tickets)} for r in state.queue.of(a)),
    )
    waited = any(request_id not in world.absent for request_id in state.queue)
    for unit in state.units:
        free = unit.state is UnitState.FREE
        wakes = not (free and waited) or state.next_definition is not None
        hold_to("no free unit with a waiter that could have it", wakes, unit, [*state.queue])
        hold_to("a free unit has no step", not free or unit.step is None, unit)
        hold_to("who prepares has a step", unit.state is not UnitState.PREPARING or unit.step is not None, unit)
        drains = unit.step is not None or unit.launches or world.grace.get(unit.name, 0) > world.now_ms
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
            wanted = waited and not (unit.ticket.run and unit.claimed)
            hold_to("an owner that others wait for is asked", not wanted or asks is not None, unit)
            hold_to("nobody is asked while nobody waits", waited or unit.poll_at is None, unit)
