"""What happens to a ticket for several resources besides, at each of them; and what that changes."""

import msgspec

from interlock.protocol.resource_state import Resource, Unit, UnitState

replace = msgspec.structs.replace


class SetPassed(msgspec.Struct, frozen=True, tag="set_passed"):
    """Who came later was granted what a ticket for several resources could have had; so often now, at all of them."""

    agent: str
    request_id: str
    passed: int


class SetAside(msgspec.Struct, frozen=True, omit_defaults=True, tag="set_aside"):
    """A unit is kept for a ticket for several resources, of which others are being prepared; here nothing is to do."""

    unit: str
    agent: str
    request_id: str
    carried: bool = False


class SetReady(msgspec.Struct, frozen=True, omit_defaults=True, tag="set_ready"):
    """A unit is verified ready for a ticket for several resources, and kept for it until the others are."""

    unit: str
    agent: str
    request_id: str
    carried: bool = False


class SetParted(msgspec.Struct, frozen=True, tag="set_parted"):
    """The rest of a ticket for several resources was noticed and is held: from now on this one stands for itself."""

    agent: str
    request_id: str


SetEvent = SetPassed | SetAside | SetReady | SetParted


def evolve_set(resource: Resource, event: SetEvent) -> Resource:
    """Take one such fact in, as `resource_evolve.evolve` does."""
    match event:
        case SetPassed(_, request_id, passed):
            return replace(resource, queue=resource.queue.replace(replace(resource.queue[request_id], passed=passed)))
        case SetAside(name, _, request_id, carried):
            ticket, queue = resource.queue[request_id], resource.queue.remove(request_id)
            changes = {"ticket": ticket, "state": UnitState.PREPARING, "free_at": None, "carried": carried}
            return _set(replace(resource, queue=queue), name, ready=True, **changes)
        case SetReady(name, _, _, carried):
            return _set(resource, name, ready=True, carried=carried)
        case SetParted(_, request_id):
            alone = replace(resource.queue[request_id], together=(), passed=0)
            return replace(resource, queue=resource.queue.replace(alone))


def _set(resource: Resource, name: str, **changes: object) -> Resource:
    new: Unit = replace(resource.unit(name), **changes)
    return replace(resource, units=tuple(new if unit.name == name else unit for unit in resource.units))
