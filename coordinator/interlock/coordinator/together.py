"""Together: joint steps over resources, for requests for several of them, and whenever one of those could be served.

Which resources take part follows from what is on record: those that are named, and all that is waited for by a ticket
for several which stands in one of their queues. What has come since is seen by the step itself, which then asks for
another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from interlock.coordinator.actor import Item
from interlock.coordinator.joint import Joint
from interlock.coordinator.world import World
from interlock.protocol.outcome import Now, Outcome
from interlock.protocol.resource_commands import Deferred, SettleTogether, TogetherCommand, TryTogether
from interlock.protocol.resource_handover import has_free_unit
from interlock.protocol.resource_joint import decide_together, sets_of
from interlock.protocol.resource_state import Resource

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor

RETRY_SECONDS = 1.0  # a full disk is tried again this often


class Together:
    """One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self.askers: set[str] = set()  # agents that have asked for several since they waited for none

    def put(self, keys: Iterable[str], command: TogetherCommand, item: Item | None = None) -> None:
        """Have one decision made over several resources. Args: item: with the message that it answers."""
        supervisor = self._supervisor
        wanted = concerned(supervisor.world, keys)
        for key in wanted:
            supervisor.define_if_new(key)

        def decide(states: Mapping[str, Any], now: Now) -> dict[str, Outcome[Any, Any]]:
            resources: Mapping[str, Resource] = states
            return decide_together(resources, command, now, self.waits_elsewhere)

        deferred = command.deferred if isinstance(command, SettleTogether) else ()

        def failed(why: str) -> None:
            if item is None:
                supervisor.spawn(self._again, wanted)

        joint = Joint(wanted, decide, item or Item(None), failed, [(each.id, each.sender) for each in deferred])
        supervisor.dispatcher.put_joint(joint)

    def follow(self, orders: Iterable[TryTogether]) -> None:
        """A decision has left something free for a ticket for several, or has ended a part of one."""
        keys: dict[str, bool] = {}
        deferred: list[Deferred] = []
        for order in orders:
            keys |= dict.fromkeys(order.keys, True)
            deferred += order.deferred
        if keys:
            self.put(keys, SettleTogether(tuple(deferred)))

    def look_again(self, agent: str, but: str) -> None:
        """An agent waits for less than before: it may pass a set now, wherever it stands behind one."""
        resources = self._supervisor.world.resources
        for key in self._supervisor.resources_of(agent):
            queue = resources[key].queue
            if key != but and queue.of(agent) and any(queue.sets()) and has_free_unit(resources[key]):
                self.put([key], SettleTogether())

    async def settled(self) -> None:
        """Wait until the joint steps that were taken before now are on record."""
        for joint in list(self._supervisor.dispatcher.being_written):
            await joint.written.wait()

    def take_up(self) -> None:
        """After a start: whatever a crash has left between two steps goes on."""
        done: set[str] = set()
        for resource in list(self._supervisor.world.resources.values()):
            self.askers |= {ticket.agent for ticket in sets_of(resource)}
            if resource.key not in done and any(sets_of(resource)):
                done |= set(concerned(self._supervisor.world, [resource.key]))
                self.put([resource.key], SettleTogether())

    def waits_elsewhere(self, agent: str, request_id: str) -> bool:
        """An agent waits for anything besides that request: then its end may depend on others'."""
        supervisor = self._supervisor
        for key in supervisor.resources_of(agent):
            queue = supervisor.world.resources[key].queue
            if any(each != request_id and not queue[each].run for each in queue.of(agent)):
                return True
        if supervisor.deadlocks.waits_under_way(agent):
            return True
        return any(each.waiting.of(agent) for each in supervisor.world.territories.values())

    async def _again(self, keys: list[str]) -> None:
        await anyio.sleep(RETRY_SECONDS)
        self.put(keys, SettleTogether())


def concerned(world: World, keys: Iterable[str]) -> list[str]:
    """These resources, and all that is waited for together with one of them, in the order of their keys."""
    found = dict.fromkeys(keys, True)
    looked_at = list(found)
    while looked_at:
        resource = world.resources.get(looked_at.pop())
        for ticket in sets_of(resource) if resource is not None else ():
            new = [key for key in ticket.together if key not in found]
            found |= dict.fromkeys(new, True)
            looked_at += new
    return sorted(found)
