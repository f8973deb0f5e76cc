"""What lies beside the database: state files and the high-water mark, which outlive it. coordinator.states.States."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from interlock.coordinator import state_text
from interlock.coordinator.states import Found, Mark, StateFacts, Survivor
from interlock.coordinator.store import NotWritten
from interlock.protocol.limits import NUMBERS_RESERVED

if TYPE_CHECKING:
    from tests.simulation.story import Story

    from interlock.coordinator.supervisor import Supervisor


class Beside:
    """The folder, as the disk has it."""

    def __init__(self) -> None:
        self.mark: Mark | None = None
        self.files: dict[str, StateFacts | None] = {}
        self.present: set[str] = set()

    def found(self, story: "Story") -> Found:
        trees = story.machine.trees.values()
        living = [each for each in trees if each.keeper_lives and each.keeper in story.machine.alive]
        old = story.seed % 4 == 3  # keepers of an older release, which do not say their unit
        survivors = tuple(Survivor(each.launch, each.keeper, each.key, None if old else each.unit) for each in living)
        return Found(self.mark, dict(self.files), survivors)


class StateFolder:
    """One supervisor's way to it. Args: beside: what is written ends there. It writes nothing more once `dead`."""

    problem = ""

    def __init__(self, story: "Story", beside: Beside) -> None:
        self.supervisor: Supervisor | None = None
        self.dead = False
        self.numbers_through = beside.mark.through if beside.mark is not None else 0
        self._story = story
        self._beside = beside
        self._dirty: set[str] = set()

    async def begin(self) -> None:
        """The mark has the journal's name, once there is room for that."""
        world = self.supervisor.world if self.supervisor is not None else None
        if world is not None and (self._beside.mark is None or self._beside.mark.bus != world.bus):
            with suppress(NotWritten):
                await self.reserve_numbers(world.seq)

    def covers(self, key: str) -> bool:
        return key in self._beside.present

    async def cover(self, key: str) -> None:
        await self._disk()
        self._beside.present.add(key)
        self._beside.files.setdefault(key, None)  # there, and nothing in it yet

    async def reserve_numbers(self, seq: int) -> None:
        await self._disk()
        world = self.supervisor.world if self.supervisor is not None else None
        now, bus = (world.seq, world.bus) if world is not None else (0, "")
        self._beside.mark = Mark(bus, max(seq, now) + NUMBERS_RESERVED, now)
        self.numbers_through = self._beside.mark.through

    def changed(self, key: str) -> None:
        if key not in self._dirty:
            self._dirty.add(key)
            asyncio.get_running_loop().call_later(self._story.chance.choice([0.05, 0.5, 3]), self._write, key)

    def _write(self, key: str) -> None:
        supervisor = self.supervisor
        self._dirty.discard(key)
        if self.dead or supervisor is None or self._story.store.full:
            return
        world = supervisor.world
        resource = world.resource(key, supervisor.config.definition(key))
        at_ms = self._story.clock.wall_ms()
        self._beside.present.add(key)
        self._beside.files[key] = state_text.facts_of(
            resource, bus=world.bus, seq=world.seq, through=self.numbers_through, at_ms=at_ms
        )

    async def _disk(self) -> None:
        await checkpoint()
        if self._story.store.full:
            raise NotWritten("no room on the disk", full=True)
