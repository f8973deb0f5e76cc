"""How each fact changes a resource. Replaying a journal and living through it are this one function."""

from typing import TypeVar

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.definition import Kind
from interlock.protocol.limits import ARRIVALS_KEPT, ENDED_TICKETS_KEPT, LOST_HOLDS_KEPT
from interlock.protocol.outcome import Deadline
from interlock.protocol.resource_events import (
    AbsentLookedAt,
    Amended,
    Armed,
    Blocked,
    Claimed,
    Defined,
    DefinitionPending,
    Down,
    Drained,
    Draining,
    Finished,
    Forgotten,
    Governed,
    Heard,
    HoldExtended,
    HoldGranted,
    HoldReleased,
    HoldRevoked,
    LaunchStarted,
    PassedOver,
    Polled,
    PrepareFailed,
    Recovered,
    RecoveryRequired,
    Requested,
    ResourceEvent,
    Returned,
    Started,
    StepAborting,
    StepDone,
    StepStarted,
    StepUndone,
    TicketCancelled,
)
from interlock.protocol.resource_set_events import SetAside, SetParted, SetPassed, SetReady, evolve_set
from interlock.protocol.resource_standing import (
    NOT_UP_AGAIN,
    STOPPED_WITH_BUS,
    after_failure,
    after_step,
    prepared_for,
    why_down,
)
from interlock.protocol.resource_state import (
    Arrival,
    Ended,
    Lost,
    Resource,
    Step,
    StepKind,
    Ticket,
    Unit,
    UnitState,
)

T = TypeVar("T")
replace = msgspec.structs.replace


def evolve(resource: Resource, event: ResourceEvent) -> Resource:
    """Take one fact in. Total and silent: a journalled event can't be refused, an impossible one is our bug.

    The cases are tried in their order: what happens most stands first.
    """
    match event:
        case Requested(_, ticket):
            resource = replace(
                resource,
                next_arrival=max(resource.next_arrival, ticket.arrival + 1),
                remembered=resource.remembered.without(ticket.agent),
            )
            return _enqueue(resource, ticket)
        case Amended(_, ticket):
            assert ticket.request_id in resource.queue
            return replace(resource, queue=resource.queue.replace(ticket))
        case Returned(_, request_id):
            back = replace(resource.queue[request_id], absent=False, overdue=False)
            return replace(resource, queue=resource.queue.replace(back))
        case TicketCancelled(agent, request_id, why, at_ms, remember):
            return _cancel(resource, agent, request_id, why, at_ms, remember)

        case HoldGranted(agent, name, request_id, fence, at_ms, until, until_ms, claimed, carried, silence, epoch):
            unit = resource.unit(name)
            ticket = unit.ticket or resource.queue[request_id]
            if unit.ticket is None:
                resource = _dequeue(resource, request_id)
            assert ticket.request_id == request_id
            held = Unit(
                name, UnitState.HELD, replace(ticket, misses=0) if claimed else ticket, fence, at_ms, at_ms,
                until, until_ms, claimed, server=unit.server, carried=carried, after_silence=silence,
                prepared=prepared_for(resource, replace(unit, ticket=ticket), True), epoch=epoch,
            )  # fmt: skip
            resource = replace(resource, lost=resource.lost.without(agent))
            return _put(resource, held)
        case Claimed(_, name, _, at_ms):
            unit = resource.unit(name)
            assert unit.ticket is not None
            ticket = replace(unit.ticket, misses=0)
            claim_at = unit.claim_at if unit.epoch else None  # what a controller gave is to be used, not only noticed
            return _set(resource, unit, claimed=True, claim_at=claim_at, confirmed_ms=at_ms, ticket=ticket)
        case Heard(_, name, _, at_ms):
            return _set(resource, resource.unit(name), polls=0, polled=False, poll_at=None, confirmed_ms=at_ms)
        case HoldExtended(_, name, _, at_ms, purpose, until, until_ms):
            unit = resource.unit(name)
            assert unit.ticket is not None
            ticket = replace(unit.ticket, purpose=purpose) if purpose.strip() else unit.ticket
            times = {"until": until, "until_ms": until_ms} if until is not None else {}
            return _set(resource, unit, ticket=ticket, confirmed_ms=at_ms, **times)
        case Armed(name, _, poll_at, claim_at):
            quiet = {"polls": 0, "polled": False} if poll_at is None else {}
            return _set(resource, resource.unit(name), poll_at=poll_at, claim_at=claim_at, **quiet)
        case Polled(_, name, _, polls, poll_at):
            return _set(resource, resource.unit(name), polls=polls, polled=True, poll_at=poll_at)
        case Draining(_, name, _, why, code, grace):
            unit = resource.unit(name)
            unit = replace(unit, poll_at=None, claim_at=None, free_at=grace)
            return _set(resource, unit, state=UnitState.DRAINING, why=why, code=code)
        case HoldReleased(agent, name, fence, why, at_ms):
            return _end_hold(resource, agent, name, fence, why, at_ms, released=True)
        case HoldRevoked(agent, name, fence, why, at_ms, code, silent, grace, reserved):
            said = code if reserved else ""
            return _end_hold(resource, agent, name, fence, why, at_ms, code=said, silent=silent, grace=grace)
        case Drained(name):
            unit = resource.unit(name)
            return _put(resource, Unit(name, server=unit.server, prepared=unit.prepared, silent=unit.silent))
        case PassedOver(agent, name, fence, _, why, at_ms, grace):
            unit = resource.unit(name)
            assert unit.ticket is not None
            back = replace(unit.ticket, absent=True, misses=unit.ticket.misses + 1)
            resource = _lose(_enqueue(resource, back), agent, at_ms, why, fence)
            state = UnitState.FREE if grace is None else UnitState.DRAINING
            return _put(resource, Unit(name, state, server=unit.server, prepared=unit.prepared, free_at=grace))
        case AbsentLookedAt(look_at, looked):
            queue = resource.queue
            if looked:
                for ticket in queue.absent():
                    queue = queue.replace(replace(ticket, overdue=True))
            return replace(resource, look_at=look_at, queue=queue)
        case Started(_, name, _, launch, digest):
            unit = resource.unit(name)
            launches = {**unit.launches, launch.launch: launch}
            return _set(resource, unit, launches=launches, digest=digest or unit.digest)
        case Finished(_, name, _, launch):
            unit = resource.unit(name)
            left = _without(unit.launches, launch)
            return _set(resource, unit, launches=left, digest=unit.digest if left else "")

        case StepStarted(name, number, kind, _, request_id, restart, halt):
            unit = resource.unit(name)
            changes = {"step": Step(number, kind, restart=restart, halt=halt), "blocked": "", "ready": False}
            if request_id and (unit.ticket is None or unit.ticket.request_id != request_id):
                assert unit.ticket is None
                waiting = resource.queue[request_id]
                resource = _dequeue(resource, request_id)
                changes |= {"ticket": waiting, "state": UnitState.PREPARING, "free_at": None}
            elif unit.state is UnitState.FREE:
                changes |= {"state": UnitState.PREPARING}
            elif unit.state is UnitState.HELD:
                changes |= {"why": ""}
            return _set(resource, unit, **changes)
        case LaunchStarted(name, number, launch, keeper):
            unit = resource.unit(name)
            assert unit.step is not None
            assert unit.step.number == number
            step = replace(unit.step, launch=launch, keeper=keeper)
            begun = prepared_for(resource, unit, False) if step.kind is StepKind.PREPARE else unit.prepared
            return _set(resource, unit, step=step, prepared=begun, blocked="")
        case StepAborting(name):
            unit = resource.unit(name)
            assert unit.step is not None
            return _set(resource, unit, step=replace(unit.step, aborting=True))
        case StepDone(name, _, kind, server):
            unit = resource.unit(name)
            server = unit.server if kind is StepKind.VERIFY else server
            carried = unit.carried and server is unit.server
            prepared = after_step(resource, unit, kind)
            halted = unit.step is not None and unit.step.halt
            why = why_down(unit, STOPPED_WITH_BUS) if halted else unit.why
            return _settle_unit(
                resource, unit, step=None, server=server, prepared=prepared, blocked="", carried=carried, why=why
            )
        case StepUndone(name, _, kind, why, _, untouched):
            unit = resource.unit(name)
            server = None if kind is StepKind.START else unit.server
            prepared, why = after_failure(unit, kind, untouched), why_down(unit, f"{NOT_UP_AGAIN}: {why}")
            return _settle_unit(resource, unit, step=None, server=server, prepared=prepared, blocked="", why=why)
        case PrepareFailed(name, agent, request_id, why, at_ms):
            resource = _end_ticket(resource, agent, request_id, why, at_ms)
            resource = _lose(resource, agent, at_ms, f"{Code.PREPARE_FAILED}: {why}", 0)
            return _settle_unit(resource, resource.unit(name), ticket=None)
        case Blocked(name, who):
            return _set(resource, resource.unit(name), blocked=who)
        case Down(name, _, gone, why):
            unit = resource.unit(name)
            assert unit.server is not None
            server = None if gone else replace(unit.server, alive=False)
            return _set(resource, unit, server=server, why=why_down(unit, why))
        case RecoveryRequired(name, why, at_ms, agent, request_id, launch, remains):
            unit = resource.unit(name)
            if unit.ticket is not None and unit.state is UnitState.PREPARING:
                resource = _enqueue(resource, unit.ticket)
            elif unit.ticket is not None:
                resource = _lose(_end_ticket(resource, agent, request_id, why, at_ms), agent, at_ms, why, unit.fence)
            # In doubt itself it is over once a person says so; beside a command in doubt it stays, its keeper lives.
            server = unit.server
            if server is not None and not (launch and unit.state is UnitState.RECOVERY_REQUIRED):
                server = replace(server, alive=bool(launch))
            doubtful = Unit(
                name, UnitState.RECOVERY_REQUIRED, why=why, server=server, step=unit.step if launch else None,
                launches=_without(unit.launches, launch), prepared=unit.prepared if launch else None,
                free_at=unit.free_at if launch else None,
            )  # fmt: skip
            if remains is not None:
                doubtful = replace(doubtful, server=remains.server, step=None, launches=remains.launches)
            return _put(resource, doubtful)
        case Recovered(name):
            unit = resource.unit(name)
            server = unit.server if unit.server is not None and unit.server.alive else None
            grace = unit.free_at if server is not None or unit.prepared is not None else None
            state = UnitState.FREE if grace is None else UnitState.DRAINING
            return _put(resource, Unit(name, state, server=server, prepared=unit.prepared, free_at=grace))

        case SetPassed() | SetAside() | SetReady() | SetParted():
            return evolve_set(resource, event)
        case Governed(epoch, policy, blockers):
            return replace(resource, epoch=epoch, policy=policy, blockers=blockers)

        case DefinitionPending(definition):
            return replace(resource, next_definition=definition)
        case Defined(definition):
            known = {unit.name: unit for unit in resource.units}
            units = tuple(known.get(name, Unit(name)) for name in definition.units)
            if definition.kind is not Kind.COMMAND:
                units = tuple(replace(unit, prepared=None) for unit in units)
            return replace(resource, definition=definition, next_definition=None, units=units)
        case Forgotten():
            return Resource(resource.key)


# --- straight helpers ---------------------------------------------------------------------
def _without(table: dict[str, T], key: str) -> dict[str, T]:
    if key not in table:
        return table
    rest = table.copy()
    del rest[key]
    return rest


def _put(resource: Resource, new: Unit) -> Resource:
    if len(resource.units) == 1:
        return replace(resource, units=(new,))
    return replace(resource, units=tuple(new if unit.name == new.name else unit for unit in resource.units))


def _set(resource: Resource, unit: Unit, **changes: object) -> Resource:
    return _put(resource, replace(unit, **changes))


def _settle_unit(resource: Resource, unit: Unit, **changes: object) -> Resource:
    """After a step: a unit that nobody holds and nothing is prepared for is free."""
    unit = replace(unit, **changes)
    over = unit.ticket is None and unit.step is None and unit.free_at is None
    if over and unit.state in {UnitState.PREPARING, UnitState.DRAINING}:
        unit = Unit(unit.name, server=unit.server, prepared=unit.prepared, silent=unit.silent)
    return _put(resource, unit)


def _enqueue(resource: Resource, ticket: Ticket) -> Resource:
    return replace(resource, queue=resource.queue.add(ticket))


def _dequeue(resource: Resource, request_id: str) -> Resource:
    return replace(resource, queue=resource.queue.remove(request_id))


def _cancel(
    resource: Resource, agent: str, request_id: str, why: str, at_ms: int, remember: Deadline | None
) -> Resource:
    arrival = None
    if request_id in resource.queue:
        arrival = resource.queue[request_id].arrival
        resource = _dequeue(resource, request_id)
    else:
        unit = next(u for u in resource.units if u.ticket is not None and u.ticket.request_id == request_id)
        assert unit.state is UnitState.PREPARING
        assert unit.ticket is not None
        arrival = unit.ticket.arrival
        resource = _settle_unit(resource, unit, ticket=None, state=UnitState.DRAINING)
    if remember is not None:
        remembered = resource.remembered.put_last(agent, Arrival(arrival, remember))
        resource = replace(resource, remembered=remembered.newest(ARRIVALS_KEPT))
    return _end_ticket(resource, agent, request_id, why, at_ms)


def _end_ticket(
    resource: Resource, agent: str, request_id: str, why: str, at_ms: int, fence: int = 0, code: str = ""
) -> Resource:
    ended = resource.ended.put(request_id, Ended(agent, at_ms, why, fence, code))
    return replace(resource, ended=ended.newest(ENDED_TICKETS_KEPT))


def _lose(resource: Resource, agent: str, at_ms: int, why: str, fence: int) -> Resource:
    lost = resource.lost.put_last(agent, Lost(at_ms, why, fence))
    return replace(resource, lost=lost.newest(LOST_HOLDS_KEPT))


def _end_hold(
    resource: Resource,
    agent: str,
    name: str,
    fence: int,
    why: str,
    at_ms: int,
    *,
    code: str = "",
    silent: bool = False,
    released: bool = False,
    grace: Deadline | None = None,
) -> Resource:
    unit = resource.unit(name)
    assert unit.ticket is not None
    assert unit.fence == fence
    assert not unit.launches
    resource = _end_ticket(resource, agent, unit.ticket.request_id, why, at_ms, fence if code else 0, code)
    if not (unit.ticket.run and released):  # a bus run that came to its end has lost nothing
        resource = _lose(resource, agent, at_ms, why, fence)
    busy = UnitState.DRAINING if unit.step is not None or grace is not None else UnitState.FREE
    rest = Unit(
        name, busy, server=unit.server, step=unit.step, silent=silent, prepared=unit.prepared, free_at=grace
    )  # fmt: skip
    return _put(resource, rest)
