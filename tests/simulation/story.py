"""One story: a seeded conversation of real supervisors with a simulated world that goes wrong in every way it can.

The same seed tells the same story, line by line: time is virtual, order is the loop's, ids come from the seed.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from structlog.testing import capture_logs
from tests.coordinator.bus import as_bytes, replayed
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.virtual_time import Stuck, VirtualClock, VirtualLoop
from tests.simulation.acts import COMMON, TROUBLES, Acts
from tests.simulation.beside import Beside
from tests.simulation.clients import Agent, Run, Wire
from tests.simulation.declared import CONFIG, OTHER, PAGES, POOL, WEB
from tests.simulation.life import Life
from tests.simulation.machine import Broken, Machine
from tests.simulation.promises import Promises, Truth
from tests.simulation.rest import nothing_is_lost, under_way
from tests.simulation.seeded import seeded_ids, snapshots_often

from interlock.coordinator import records
from interlock.protocol.limits import LATE_MS, SESSION_CUT_MS

OUR_FAULTS = {"dead_letter", "follow_up_failed", "task_failed", "session_failed"}
ACTIONS = 160


class Story:
    """Args: seed: all chance comes from it. actions: how long it is. often: more of some troubles. without: numbers of
    actions that are left out; each of the others draws what it drew with them."""

    def __init__(
        self, seed: int, actions: int = ACTIONS, often: Mapping[str, int] = {}, without: frozenset[int] = frozenset()
    ) -> None:
        self.seed = seed
        self.lines: list[str] = []
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.machine = Machine(self.chance, self.clock, self.log)
        self.truth = Truth(away=self.is_away)
        self.promises = Promises(self.machine, self.truth, {POOL: 2, PAGES: 2}, {WEB, PAGES}, self.now_s)
        self.store = MemoryStore()
        self.beside = Beside()
        self.configs = (CONFIG, OTHER)
        self.config = CONFIG
        self._without = without
        self.told: Counter[str] = Counter()  # kinds of actions, faults and events, and how often
        self.life: Life | None = None
        self.agents = [self._agent(name) for name in "abcde"[: self.chance.randint(2, 5)]]
        self.runs: list[Run] = []
        self._actions = actions
        self._wires = 0
        self._up_s = 0.0
        self.done: list[int] = []
        self.slept_s, self.slept_at_s = 0.0, 0.0
        self.acts = Acts(self)
        self._tasks: TaskGroup | None = None
        self._broken: BaseException | None = None
        mood = {name: weight for name, weight in TROUBLES.items() if self.chance.random() < 0.6}
        self._weights = COMMON | mood | dict(often)
        self.faults = self.machine.faults = "server_dies" in mood

    def _agent(self, name: str) -> Agent:
        bound = self.chance.random() < 0.6
        return Agent(
            self, name, bound=bound, session="" if bound or self.chance.random() < 0.4 else f"secret of {name}"
        )

    # --- telling ----------------------------------------------------------------------------
    def log(self, line: str) -> None:
        self.lines.append(f"{self.now_s():10.3f} {line}")

    def now_s(self) -> float:
        return self.clock.loop_ms() / 1000

    def lived_s(self) -> float:
        """How long it was for those in it: the machine's sleep counts, the time that it was off does not."""
        return self.now_s() + self.slept_s

    async def tell(self) -> None:
        with capture_logs() as logged, seeded_ids(self.chance), snapshots_often(self.chance):
            try:
                await self._tell()
            finally:
                ours = [each for each in logged if each["event"] in OUR_FAULTS]
            if ours:
                raise Broken(f"a fault of the bus itself: {ours[0]}")

    async def _tell(self) -> None:
        self.store.latency_s = lambda: self.chance.choice([0.0002, 0.001, 0.02])
        self.store.on_durable = self.promises.durable
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            asyncio.get_running_loop().set_exception_handler(self._fail)
            await self.begin()
            for number in range(self._actions):
                self.chance.seed(f"{self.seed}/{number}")
                action = self.chance.choices([*self._weights], [*self._weights.values()])[0]
                pause_s = self.chance.choice([0, 0, 0.003, 0.05, 0.5])
                if number not in self._without:
                    self.told[action] += 1
                    self.done.append(number)
                    await getattr(self.acts, f"do_{action}")()
                    await anyio.sleep(pause_s)
                if self.life is not None and self.life.failed is not None:
                    await self.after_failure()
                if number % 40 == 39:
                    await self.calm()
            await self.calm()
            await self.crash()
            tasks.cancel_scope.cancel()
        if self._broken is not None:
            raise self._broken

    def _fail(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What is raised where nobody waits for it ends the story too."""
        if self._broken is None and self._tasks is not None:
            self._broken = context.get("exception") or Broken(context["message"])
            self._tasks.cancel_scope.cancel()

    # --- lives ------------------------------------------------------------------------------
    async def begin(self) -> None:
        """A supervisor starts, from what is on disk."""
        assert self._tasks is not None
        self.life = Life(self, self.config)
        self._tasks.start_soon(self.life.run)
        await self.life.ready.wait()
        self._up_s = self.now_s()
        self.told["a supervisor comes up"] += 1
        self.log("-- a supervisor is up")

    def lose_database(self) -> None:
        self.log("-- the database is lost")
        store = MemoryStore()
        store.latency_s, store.on_durable = self.store.latency_s, self.store.on_durable
        self.store = store
        self.promises.lose()
        self.machine.orphan()

    def is_away(self, name: str) -> bool:
        """The agent's session has had no connection for as long as it takes, counted from the supervisor's start."""
        wire = next(each.joined for each in self.agents if each.name == name)
        if wire is not None and not wire.broken:
            return False
        since_s = max(self._up_s, wire.broken_s if wire is not None else 0)
        return self.now_s() - since_s >= (SESSION_CUT_MS - LATE_MS) / 1000  # so much of it the machine may have slept

    def connect(self, agent: Agent) -> Wire | None:
        if self.life is None or self.life.failed is not None:
            return None
        self._wires += 1
        chance, apart_s = random.Random(f"{self.seed}/{self._wires}"), self._wires * 1e-7
        wire = Wire(lambda: chance.choice([0, 0.0001, 0.004, 0.1]) + apart_s, agent.hear)  # no two at one moment
        self.life.serve(wire, agent)
        return wire

    async def crash(self) -> None:
        """The supervisor is thrown away, between any two steps: only what is on disk stays, and what runs."""
        life = self.life
        if life is None:
            return
        self.log("-- the supervisor dies")
        self.truth.troubles.append(self.now_s())
        await self.compare()
        self.life, died_on = None, self.store
        self.store = died_on.crash(torn=self.chance.random() < 0.5)
        died_on.on_durable = lambda row: None
        life.die()
        for each in [*self.agents, *self.runs]:
            if each.wire is not None:
                each.wire.cut()

    async def after_failure(self) -> None:
        self.log(f"-- the journal ended: {self.life and self.life.failed}")
        await self.crash()
        await self.begin()
        self.reconnect()

    async def compare(self) -> None:
        """Promise 8."""
        assert self.life is not None
        world, rows = self.life.supervisor.world, self.store.durable
        if not rows or rows[-1].index != world.index or self.life.failed is not None:
            return  # An append is under way: nobody knows what was lived.
        lived = as_bytes(world)
        again = as_bytes(await replayed(self.store))
        claimed = records.decode(rows[-1].body).term == world.term  # else nothing of this life is on disk yet
        if claimed and again != lived and as_bytes(world) == lived:
            raise Broken(f"restart is replay: {_first_difference(again, lived)}")

    def reconnect(self) -> None:
        for each in [*self.agents, *self.runs]:
            if not isinstance(each, Run) or each.state != "over":
                each.connect()

    # --- calm -------------------------------------------------------------------------------
    async def calm(self) -> None:
        """All trouble ends; then everything that can go on must have gone on."""
        self.log("-- calm")
        self.store.full = False
        self.machine.strangers.clear()
        self.machine.worktrees |= {"/w/1", "/w/2", "/w/3"}
        if self.life is None or self.life.failed is not None:
            await self.crash()
            await self.begin()
        for agent in self.agents:
            agent.silent = False
            agent.rise()
        if self.chance.random() < 0.7:
            await self.acts.do_recover()
        for _ in range(60):
            self.reconnect()
            await anyio.sleep(5)
            if self.life is not None and self.life.failed is not None:
                await self.after_failure()
            if not under_way(self):
                break
        else:
            raise Broken(f"something never ends: {under_way(self)}")
        try:
            nothing_is_lost(self)
        except Broken:
            await anyio.sleep(1)  # what has ended at this very moment is noticed in the next
            nothing_is_lost(self)
        await self.compare()


# --- straight helpers -------------------------------------------------------------------------
def tell(seed: int, actions: int = ACTIONS, often: Mapping[str, int] = {}) -> Story:
    """Tell one story to its end. Raises Broken, with the seed and the story in it."""
    story = Story(seed, actions, often)
    _play(story)
    return story


def _play(story: Story) -> None:
    try:
        anyio.run(story.tell, backend_options={"loop_factory": VirtualLoop})
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        why = _innermost(error)
        seed, lines = story.seed, story.lines
        raise Broken("\n".join([f"seed {seed}", *lines, f"seed {seed}: {type(why).__name__}: {why}"])) from error


def shortest(seed: int, actions: int = ACTIONS, tries: int = 150) -> tuple[frozenset[int], str]:
    """Leave actions out of a story that breaks a promise, for as long as it breaks one.

    Returns:
        The actions that are left out, and the story without them; "" where it breaks none.
    """
    broken, done = _broken(seed, actions, frozenset())
    without, size = frozenset[int](), max(1, len(done) // 2)
    while broken and tries > 0:
        for start in range(0, len(done), size):
            tries -= 1
            fewer = without | {*done[start : start + size]}
            shorter, left = _broken(seed, actions, fewer)
            if shorter:
                without, broken, done = fewer, shorter, left
                break
        else:
            if size == 1:
                break
            size //= 2
    return without, broken


def _broken(seed: int, actions: int, without: frozenset[int]) -> tuple[str, list[int]]:
    story = Story(seed, actions, without=without)
    try:
        _play(story)
    except Broken as error:
        return str(error), story.done
    return "", []


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        broken = [each for each in error.exceptions if isinstance(_innermost(each), Broken | Stuck)]
        error = (broken or [*error.exceptions])[0]
    return error


def _first_difference(one: bytes, other: bytes) -> str:
    left, right = msgspec.json.decode(one), msgspec.json.decode(other)
    different = [name for name in left if left[name] != right[name]] or ["only the order"]
    name = different[0]
    return f"{name}: rebuilt {str(left.get(name))[:600]} lived {str(right.get(name))[:600]}"
