"""The dispatcher: whose turn it is. It owns the actors, which exist only while they have something to do.

    put ──▶ mailbox ──▶ (ready) ──▶ step ──▶ journal ──▶ (written) ──▶ follow up ──▶ the next step, or gone

One task gives all of them their turns; nothing in a turn waits.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from interlock.coordinator.actor import Actor, Host, Item
from interlock.coordinator.bell import Bell
from interlock.coordinator.joint import Joint
from interlock.coordinator.journal import Staged
from interlock.coordinator.world import GATE, INBOX, REGISTRY, TASK, TERRITORY
from interlock.protocol import gate as gates
from interlock.protocol import inbox as inboxes
from interlock.protocol import registry as registries
from interlock.protocol import resource as resources
from interlock.protocol import task as tasks
from interlock.protocol import territory as territories
from interlock.protocol.outcome import Outcome

TURNS_AT_ONCE = 64  # then sessions are read and written: ten thousand deadlines at one moment stall nobody
RETRY_SECONDS = 1.0  # a full disk is tried again this often


class Dispatcher:
    """One per bus. Args: host: what its actors need of the supervisor."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._actors: dict[str, Actor] = {}
        self._ready: deque[Actor] = deque()
        self._written: deque[tuple[Actor, Staged]] = deque()
        self._together: deque[Joint] = deque()
        self.being_written: set[Joint] = set()  # joint steps whose records are on their way, or were a moment ago
        self._wake = Bell()
        self._idle: anyio.Event | None = None
        self._tasks: TaskGroup | None = None

    def knows(self, address: str) -> bool:
        """It has something to do, or had a fault a moment ago."""
        return address in self._actors

    def put(self, address: str, item: Item, *, urgent: bool = False, own: bool = False) -> bool:
        """Put an item into an actor's mailbox; False where there is no room, and nothing was taken."""
        actor = self._actors.get(address)
        if actor is None:
            actor = self._actors[address] = Actor(address, _machine(address), self._host, self)
        if not actor.mailbox.put(item, urgent=urgent, own=own):
            return False
        if not item.lazy and actor.is_busy():
            self._host.journal.hurry()
        self._schedule(actor)
        return True

    def put_joint(self, joint: Joint) -> None:
        """Give several actors a step together, once each has decided what is before it."""
        for address in joint.addresses:
            self.put(address, joint.item, own=True)
            self._actors[address].joints += 1

    def arrived(self, actor: Actor, joint: Joint) -> None:
        """An actor has come to a joint step, and stands still."""
        if joint.arrived(actor.address):
            self._together.append(joint)
            self._wake.ring()

    def size(self) -> int:
        """How many actors there are just now."""
        return len(self._actors)

    def frozen(self) -> tuple[str, ...]:
        """The sentences of those actors that failed too often."""
        return tuple(actor.frozen for actor in self._actors.values() if actor.frozen)

    async def quiet(self) -> None:
        """Wait until nothing waits and nothing is on its way to the disk."""
        while any(actor.mailbox or actor.is_busy() for actor in self._actors.values()):
            self._host.journal.hurry()
            self._idle = self._idle or anyio.Event()
            await self._idle.wait()

    def later(self, actor: Actor, staged: Staged) -> None:
        """An actor's entry is on disk, or certainly not. The journal goes on at once; the actor in its turn."""
        self._written.append((actor, staged))
        self._wake.ring()

    def again(self, actor: Actor) -> None:
        """The journal could not write: let the actor rest, then try again what must not be lost."""

        async def after_a_while() -> None:
            await anyio.sleep(RETRY_SECONDS)
            actor.is_scheduled = False
            self._next(actor)

        if self._tasks is not None and actor.mailbox:
            actor.is_scheduled = True
            self._tasks.start_soon(after_a_while)

    async def run(self) -> None:
        """Give every actor its turn: first those whose entries are written, then those for whom something waits."""
        async with anyio.create_task_group() as self._tasks:
            while True:
                await self._wake.heard()
                for turn in range(len(self._written)):
                    actor, staged = self._written.popleft()
                    actor.written(staged)
                    self._next(actor)
                    if turn % TURNS_AT_ONCE == TURNS_AT_ONCE - 1:
                        await checkpoint()
                for turn in range(len(self._ready)):
                    actor = self._ready.popleft()
                    actor.is_scheduled = False
                    actor.step()
                    self._next(actor)
                    if turn % TURNS_AT_ONCE == TURNS_AT_ONCE - 1:
                        await checkpoint()
                while self._together:
                    self._step_together(self._together.popleft())

    def _step_together(self, joint: Joint) -> None:
        actors = [self._actors[address] for address in joint.addresses]
        for actor in actors:
            actor.mailbox.take_first()
            actor.joints -= 1
            actor.is_still = False
        if joint.step(self._host, actors, self.later):
            self.being_written = {each for each in self.being_written if not each.written.is_set()} | {joint}
        for actor in actors:
            self._next(actor)

    def _schedule(self, actor: Actor) -> None:
        if not (actor.is_scheduled or actor.is_still or actor.is_busy()):
            actor.is_scheduled = True
            self._ready.append(actor)
            self._wake.ring()

    def _next(self, actor: Actor) -> None:
        """Another turn if something waits; else, idle is a row and no actor."""
        if actor.mailbox:
            self._schedule(actor)
        elif not actor.is_busy():
            if actor.may_go() and self._actors.get(actor.address) is actor:
                del self._actors[actor.address]
            if self._idle is not None:
                self._idle.set()
                self._idle = None


def _machine(address: str) -> Callable[[Any, Any, Any], Outcome[Any, Any]]:
    """The catalogue: which machine an address runs."""
    if address == REGISTRY:
        return registries.decide
    if address == GATE:
        return gates.decide
    if address.startswith(INBOX):
        return inboxes.decide
    if address.startswith(TERRITORY):
        return territories.decide
    if address.startswith(TASK):
        return tasks.decide
    return resources.decide
