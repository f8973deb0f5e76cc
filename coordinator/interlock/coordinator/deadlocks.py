"""Deadlocks: a request that could make agents wait for each other for ever is refused before anybody sees it.

Only an agent that has something, or waits for something, can close a circle: nobody waits for one that has nothing, and
a new place stands behind all others. So nothing is looked at for an agent's first request. Any other one is *compound*:
it has a turn alone from the look until it is on disk or refused, and what may stand ahead of it by several things at
once (a set, a lease that waits) is kept out meanwhile. What is looked at is what is on record, and reachable from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

import anyio
import msgspec

from interlock.coordinator.turns import Turns
from interlock.protocol.claim import Claim, claims_overlap
from interlock.protocol.lease import Lease
from interlock.protocol.limits import DEADLOCK_LOOKED_AT
from interlock.protocol.names import named, plain_name, short_name
from interlock.protocol.resource_state import Resource, unit_of
from interlock.protocol.territory_draft import texts
from interlock.protocol.territory_overlap import blockers
from interlock.protocol.territory_state import Territory
from interlock.protocol.wait_for import Behind, LeaseWait, Place, Pool, World, circle, deadlocked, in_words, pool_of

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor

ASKED = "?"  # the id of what is asked for; nothing else has it
Then = Callable[[], None]


class Given(msgspec.Struct, frozen=True):
    """A lease, or a part of it (`claims`), is to be another agent's."""

    lease: str
    heir: str
    claims: tuple[Claim, ...] = ()


class Deadlocks:
    """One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._turns = Turns()
        self._under_way: dict[str, list[str]] = {}  # agent → what it asks for with requests that are not on record yet
        self._answered: dict[str, anyio.Event] = {}
        self._alone = ""  # the agent whose compound request is under way

    # --- requests on their way ----------------------------------------------------------------
    def under_way(self, agent: str, keys: Collection[str]) -> Then:
        """A request of that agent goes to its mailbox. Returns: to be called once it is answered."""
        self._under_way.setdefault(agent, []).extend(keys)

        def answered() -> None:
            for key in keys:
                self._under_way[agent].remove(key)
            if not self._under_way[agent]:
                del self._under_way[agent]
                if agent in self._answered:
                    self._answered.pop(agent).set()

        return answered

    def is_compound(self, agent: str, keys: Collection[str] = ()) -> bool:
        """The agent has something else than what it asks for, waits for it, or has asked for it a moment ago."""
        supervisor = self._supervisor
        plain = keys and agent not in self._under_way and not supervisor.world.territories
        if plain and supervisor.is_only_at_one(agent, *keys):
            return False  # nearly always
        if any(key not in keys for key in self._under_way.get(agent, ())):
            return True
        for key in supervisor.resources_of(agent):
            if key not in keys and any(not run for _, run in _tickets(supervisor.world.resources[key], agent)):
                return True
        return any(self._leases_of(each, agent) for each in supervisor.world.territories.values())

    def waits_under_way(self, agent: str) -> bool:
        """A compound request of that agent is not on record yet: it may wait for something else in a moment."""
        return agent == self._alone

    async def alone(self, agent: str) -> Then:
        """Wait for a turn in which no other request can come between. Returns: to be called once it is answered."""
        while True:
            while agent in self._under_way:  # nobody else waits for that
                await self._answered.setdefault(agent, anyio.Event()).wait()
            await self._turns.take(alone=True)
            if agent not in self._under_way:
                break
            self._turns.give()
        self._alone = agent
        try:
            await self._supervisor.together.settled()
        except BaseException:
            self._give_alone()
            raise
        return self._give_alone

    async def shared(self) -> Then:
        """Wait until no compound request is under way. Returns: to be called once it is answered."""
        await self._turns.take(alone=False)
        return self._turns.give

    def _give_alone(self) -> None:
        self._alone = ""
        self._turns.give()

    # --- the look --------------------------------------------------------------------------------
    def why_not(self, agent: str, keys: Collection[str]) -> str:
        """Why a request for these resources could never be served, and what to do; "" where it can."""
        resources = self._supervisor.world.resources
        new = [key for key in keys if key not in resources or not _has_place(resources[key], agent)]
        return self._way(agent, Place(agent, ASKED, tuple(sorted(new))), None, list(keys)) if new else ""

    def why_no_lease(self, key: str, lease: Lease) -> str:
        """The same of a lease that is asked for, and may have to wait."""
        wait = _wait_of(self._supervisor.world.territory(key), lease, None)
        return self._way(lease.agent, None, wait) if wait.behind else ""

    def why_no_heir(self, lease: Lease, heir: str, claims: tuple[Claim, ...] = ()) -> str:
        """The same where a lease becomes an agent's: who waits for it waits for that one then.

        Args: claims: the part of it that is given; empty: all of it.
        """
        why = self._way(heir, None, None, given=Given(lease.id, heir, claims))
        return why and f"{heir} would have what others wait for, and waits for them itself: {why}"

    def _way(
        self, agent: str, place: Place | None, lease: LeaseWait | None, asked: Collection[str] = (),
        given: Given | None = None,
    ) -> str:  # fmt: skip
        world = _Reached(self._supervisor, given).world(agent, place, lease)
        among = deadlocked(world, agent)
        if not among:
            return ""
        way = circle(world, agent, among)
        if way:
            return in_words(way, list(asked), self._called)
        others = named(sorted(among - {agent})) or agent
        return f"{others} can not go on before you do: release what you hold, then ask for all together"

    def _called(self, key: str) -> str:
        """What can be said for a resource: its short name, where that is declared."""
        return short_name(key) if key in self._supervisor.config.resources else plain_name(key)

    def _leases_of(self, territory: Territory, agent: str) -> bool:
        ids = (*territory.held.of(agent), *territory.waiting.of(agent))
        return any((lease := territory.lease(id_)) is not None and not lease.run for id_ in ids)


class _Reached:
    """What can be reached from one who asks."""

    def __init__(self, supervisor: Supervisor, given: Given | None) -> None:
        self._supervisor = supervisor
        self._given = given
        self._pools: dict[str, Pool] = {}
        self._leases: dict[str, LeaseWait] = {}
        self._agents: dict[str, bool] = {}
        self._new: list[str] = []
        self._asker = ""

    def world(self, agent: str, place: Place | None, lease: LeaseWait | None) -> World:
        """Args: place, lease: what the agent asks for, as if it waited already."""
        self._asker = agent
        self._meet(agent)
        for key in place.keys if place is not None else ():
            self._add(key)
        if lease is not None:
            self._add_lease(lease)
        while self._new:
            one = self._new.pop()
            for key in self._supervisor.resources_of(one):
                if _waits(self._supervisor.world.resources[key], one):
                    self._add(key)
            for territory in self._supervisor.world.territories.values():
                for id_ in territory.waiting.of(one):
                    waits = territory.waiting[id_]
                    if not waits.run and id_ not in self._leases:
                        self._add_lease(_wait_of(territory, waits, self._given))
        for key in place.keys if place is not None else ():
            assert place is not None
            pool = self._pools[key]
            self._pools[key] = Pool(key, pool.free, pool.holders, (*pool.queue, place), pool.chosen)
        return World(self._pools, tuple(self._leases.values()))

    def _meet(self, agent: str) -> None:
        if agent not in self._agents:
            self._agents[agent] = True
            self._new.append(agent)

    def _add(self, key: str) -> None:
        if key in self._pools:
            return
        resource = self._supervisor.world.resource(key, self._supervisor.config.definition(key))
        pool = pool_of(resource, self._is_only_there)
        self._pools[key] = pool
        for agent in pool.holders:
            self._meet(agent)
        for place in pool.queue:
            self._meet(place.agent)
            for each in place.keys:
                self._add(each)

    def _is_only_there(self, agent: str) -> bool:
        """It has nothing else: once it is served it finishes, and nobody has to look at it."""
        if agent == self._asker or not self._supervisor.is_only_at_one(agent):
            return False
        return not any(each.concerns(agent) for each in self._supervisor.world.territories.values())

    def _add_lease(self, wait: LeaseWait) -> None:
        self._leases[wait.lease] = wait
        for each in wait.behind:
            self._meet(each.agent)


# --- straight helpers -------------------------------------------------------------------------
def _tickets(resource: Resource, agent: str) -> Iterator[tuple[str, bool]]:
    """An agent's tickets there, with whether each is of a `bus run`."""
    for unit in resource.units:
        if unit.ticket is not None and unit.ticket.agent == agent:
            yield unit.ticket.request_id, unit.ticket.run
    for request_id in resource.queue.of(agent):
        yield request_id, resource.queue[request_id].run


def _has_place(resource: Resource, agent: str) -> bool:
    """It holds that or waits for it by an asked ticket: asked for again, it waits for nothing more."""
    return unit_of(resource, agent) is not None or _waits(resource, agent)


def _waits(resource: Resource, agent: str) -> bool:
    return any(not resource.queue[each].run for each in resource.queue.of(agent))


def _wait_of(territory: Territory, lease: Lease, given: Given | None) -> LeaseWait:
    """Args: given: what is to be another's."""
    behind: list[Behind] = []
    for each in blockers(territory, lease, DEADLOCK_LOOKED_AT):
        owners = [each.agent]
        if given is not None and each.id == given.lease:
            meant = any(claims_overlap(one, other) for one in lease.claims for other in given.claims)
            owners = [each.agent, *([given.heir] if meant else [])] if given.claims else [given.heir]
        behind += [Behind(owner, each.id, not each.fence) for owner in owners if owner != lease.agent and not each.run]
    return LeaseWait(lease.agent, lease.id, " ".join(texts(lease.claims)), tuple(behind))
