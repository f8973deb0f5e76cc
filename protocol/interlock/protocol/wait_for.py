"""Who waits for whom: whether everybody can still be served, and if not, the circle in words.

Not a search for a cycle among holders: a unit of a pool comes free by any of its holders, a ticket ahead in a queue is
served first, and a ticket for several needs all at once. So the world is *reduced*: whoever waits for nothing finishes,
and gives up all that it holds; what is free goes to the first of its queue; a lease begins once what is in its way is
over. Nothing else happens, and in whatever order these are done the same is left: agents that can never be served.

What ends by itself (a `bus run`, what waits for a person) is left out: its unit counts as free, its place as none.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from interlock.protocol.names import short_name
from interlock.protocol.resource_state import Resource, UnitState


class Place(msgspec.Struct, frozen=True):
    """A ticket in a queue. Args: keys: of all that it is granted together. absent: it is passed over for now."""

    agent: str
    request: str
    keys: tuple[str, ...]
    absent: bool = False


class Pool(msgspec.Struct, frozen=True):
    """A resource as it stands.

    Args:
        free: units that nobody has, or that come free by themselves.
        holders: whose the others are. queue: in order of service.
        chosen: a controller says who is next: who waits there waits for a unit only, and for nobody before it.
    """

    key: str
    free: int
    holders: tuple[str, ...]
    queue: tuple[Place, ...]
    chosen: bool = False


def pool_of(resource: Resource, is_only_there: Callable[[str], bool]) -> Pool:
    """A resource as it stands. What is drained, or waits for a person, or is a `bus run`'s, ends by itself.

    Args: is_only_there: whether an agent has nothing else: once it is served it finishes, so its place is left out.
    """
    kept = (UnitState.HELD, UnitState.PREPARING)
    holders = tuple(
        unit.ticket.agent
        for unit in resource.units
        if unit.ticket is not None and not unit.ticket.run and unit.state in kept
    )
    queue = tuple(
        Place(each.agent, each.request_id, each.together or (resource.key,), each.absent)
        for each in resource.queue.values()
        if not each.run and (each.together or not is_only_there(each.agent))
    )
    return Pool(resource.key, len(resource.units) - len(holders), holders, queue, resource.policy is not None)


class Behind(msgspec.Struct, frozen=True):
    """A lease that is in the way of another. Args: waits: it is not in force itself."""

    agent: str
    lease: str
    waits: bool = False


class LeaseWait(msgspec.Struct, frozen=True):
    """A lease that waits. Args: what: its paths, in words."""

    agent: str
    lease: str
    what: str
    behind: tuple[Behind, ...]


class World(msgspec.Struct, frozen=True):
    """All that can be reached from the one who asks."""

    pools: Mapping[str, Pool]
    leases: Sequence[LeaseWait] = ()


def left(world: World) -> frozenset[str]:
    """Agents that can never be served, as it stands."""
    return _Reduction(world).left()


def deadlocked(world: World, asker: str) -> frozenset[str]:
    """Those that can never be served, where the asker is one of them; else nobody.

    Whoever is absent may be passed over or may come back: either has to be fine.
    """
    found = left(world)
    if asker not in found and any(each.absent for pool in world.pools.values() for each in pool.queue):
        found = left(_absent_last(world))
    return found if asker in found else frozenset()


class Link(msgspec.Struct, frozen=True):
    """One waits for another: for what, and how that one is in its way.

    Args: what: a key, or a lease's paths. how: "holds", "ahead". thing: key or lease that the other has, or waits for.
    """

    waits: str
    agent: str
    what: str
    how: str
    thing: str
    is_lease: bool = False


def circle(world: World, asker: str, among: frozenset[str]) -> list[Link]:
    """The shortest way from the asker back to itself, over agents that can never be served; [] where there is none."""
    links: dict[str, list[Link]] = {}
    for link in _links(world):
        if link.waits in among and link.agent in among and link.waits != link.agent:
            links.setdefault(link.waits, []).append(link)
    ways: deque[list[Link]] = deque([[]])
    seen: set[str] = set()
    while ways:
        way = ways.popleft()
        at = way[-1].agent if way else asker
        for link in links.get(at, ()):
            if link.agent == asker:
                return [*way, link]
            if link.agent not in seen:
                seen.add(link.agent)
                ways.append([*way, link])
    return []


def in_words(way: Sequence[Link], asked: Sequence[str], called: Callable[[str], str] = short_name) -> str:
    """The circle, and what to do.

    Args: way: as of `circle`, not empty. asked: keys that the asker asks for; empty: it asks for a lease.
    """
    said: list[str] = []
    for before, link in pairwise(way):
        what = _what(link, called)
        has = f"holds {_name(before, called)}"
        if before.how == "ahead":
            has = f"waits for {_name(before, called)} ahead of {_who(before, way)}"
        if said:
            said.append(f", which {before.agent} {_has(before)}, who waits for {what}")
        elif before.how == "ahead" and _name(before, called) == what:
            said.append(f"{before.agent} waits for {what} ahead of you")
        else:
            said.append(f"{before.agent} {has} and waits for {what}")
    last = way[-1]
    mine = _name(last, called)
    said.append(", which you hold" if last.how == "holds" else f", and you wait for {mine} ahead of it")
    verb = "release" if last.how == "holds" else "cancel"
    if last.is_lease:
        return f"{''.join(said)}: bus lease release {last.thing}, then ask for all of it again"
    if not asked:
        return f"{''.join(said)}: {verb} {mine}, then ask for the lease again"
    all_ = list(dict.fromkeys([called(last.thing), *map(called, asked)]))
    both = "both" if len(all_) == 2 else "all"
    if len(all_) == 1:
        return f"{''.join(said)}: {verb} {mine}, then ask again"
    return f"{''.join(said)}: {verb} {mine}, then ask for {both} together: bus request {' '.join(all_)}"


# --- straight helpers -----------------------------------------------------------------------
class _Reduction:
    """The world while it is reduced."""

    def __init__(self, world: World) -> None:
        self._pools = world.pools
        self._free = {key: pool.free for key, pool in world.pools.items()}
        self._queues = {key: deque(pool.queue) for key, pool in world.pools.items()}
        self._holds: dict[str, list[str]] = {}
        self._waits: dict[str, int] = {}
        self._blocks: dict[str, list[LeaseWait]] = {}
        self._owner = {each.lease: each.agent for each in world.leases}
        self._in_the_way = {each.lease: {behind.agent for behind in each.behind} for each in world.leases}
        self._agents: dict[str, bool] = {}
        for pool in world.pools.values():
            for agent in pool.holders:
                self._holds.setdefault(agent, []).append(pool.key)
        places = {(each.agent, each.request): True for pool in world.pools.values() for each in pool.queue}
        for agent in [*(agent for agent, _ in places), *(each.agent for each in world.leases)]:
            self._waits[agent] = self._waits.get(agent, 0) + 1
        for lease in world.leases:
            for agent in self._in_the_way[lease.lease]:
                self._blocks.setdefault(agent, []).append(lease)
        self._agents = dict.fromkeys([*self._holds, *self._waits, *self._blocks], True)

    def left(self) -> frozenset[str]:
        done = [agent for agent in self._agents if not self._waits.get(agent)]
        served = [key for key in self._pools if self._free[key] > 0]
        for id_ in [id_ for id_, behind in self._in_the_way.items() if not behind]:
            done += self._got(self._owner[id_])
        while done or served:
            if served:
                done += self._serve(served.pop(), served)
                continue
            agent = done.pop()
            if self._agents.pop(agent, None) is None:
                continue
            for key in self._holds.pop(agent, ()):
                self._free[key] += 1
                served.append(key)
            for lease in self._blocks.pop(agent, ()):
                self._in_the_way[lease.lease].discard(agent)
                if not self._in_the_way[lease.lease]:
                    done += self._got(lease.agent)
        return frozenset(self._agents)

    def _serve(self, key: str, served: list[str]) -> list[str]:
        """Give what is free there to whoever is next. Returns: who waits for nothing any more."""
        queue, done = self._queues[key], list[str]()
        if self._pools[key].chosen:
            while queue and self._free[key] > 0:  # it may be anybody's: nobody is in anybody's way
                done += self._got(queue.popleft().agent)
            return done
        while queue and self._free[key] > 0:
            place = queue[0]
            if not all(self._free[each] > 0 and self._is_next(each, place) for each in place.keys):
                break
            for each in place.keys:
                self._queues[each].popleft()
                self._free[each] -= 1
                self._holds.setdefault(place.agent, []).append(each)
                if each != key:
                    served.append(each)
            done += self._got(place.agent)
        return done

    def _is_next(self, key: str, place: Place) -> bool:
        queue = self._queues[key]
        return bool(queue) and queue[0].request == place.request

    def _got(self, agent: str) -> list[str]:
        self._waits[agent] -= 1
        return [] if self._waits[agent] else [agent]


def _absent_last(world: World) -> World:
    pools = {
        key: msgspec.structs.replace(pool, queue=tuple(sorted(pool.queue, key=lambda each: each.absent)))
        for key, pool in world.pools.items()
    }
    return msgspec.structs.replace(world, pools=pools)


def _links(world: World) -> Iterable[Link]:
    """Who waits for whom, and why."""
    for pool in world.pools.values():
        ahead: list[Place] = []
        for place in pool.queue:
            for holder in pool.holders:
                yield Link(place.agent, holder, pool.key, "holds", pool.key)
            if not pool.chosen:
                for other in ahead:
                    yield Link(place.agent, other.agent, pool.key, "ahead", pool.key)
                ahead.append(place)
    for lease in world.leases:
        for behind in lease.behind:
            how = "ahead" if behind.waits else "holds"
            yield Link(lease.agent, behind.agent, lease.what, how, behind.lease, is_lease=True)


def _name(link: Link, called: Callable[[str], str]) -> str:
    return f"lease {link.thing}" if link.is_lease else called(link.thing)


def _what(link: Link, called: Callable[[str], str]) -> str:
    return link.what if link.is_lease else called(link.what)


def _has(link: Link) -> str:
    return "holds" if link.how == "holds" else "waits for before it"


def _who(link: Link, way: Sequence[Link]) -> str:
    return "you" if link.waits == way[0].waits else link.waits
