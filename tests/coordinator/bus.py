"""A whole bus without a machine under it: real supervisor, router, desk and journal; fake effects, callers, clients."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import msgspec
from anyio.abc import TaskGroup
from tests.coordinator.memory_store import MemoryStore
from tests.coordinator.virtual_time import VirtualClock

from interlock.coordinator.config import Config
from interlock.coordinator.desk import Desk
from interlock.coordinator.effects import Traces
from interlock.coordinator.ground import Ground
from interlock.coordinator.journal import Journal
from interlock.coordinator.repositories import Repositories
from interlock.coordinator.router import Router
from interlock.coordinator.session import Session
from interlock.coordinator.states import Found, States
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.world import World
from interlock.protocol.envelope import Envelope, Hello
from interlock.protocol.identity import Identity, Presence
from interlock.protocol.resource_commands import LaunchGone, Order
from interlock.protocol.resource_state import Server

_numbers = itertools.count(1)


def process(pid: int = 0) -> Identity:
    """A process that is nobody else's."""
    return Identity("machine", "boot-1", 1, pid or 1000 + next(_numbers), 7)


class FakeCaller:
    """Args: bound: the process that joining binds to. chain: the caller and its ancestors."""

    def __init__(self, bound: Identity | None = None, chain: list[Identity] | None = None) -> None:
        self._bound = bound
        self._chain = chain or []

    def ancestors(self) -> list[Identity]:
        return self._chain

    def binding(self, hosts: frozenset[str]) -> tuple[Identity, str] | None:
        return (self._bound, f"claude (pid {self._bound.pid})") if self._bound is not None else None

    def itself(self) -> tuple[Identity, str] | None:
        return (self._chain[0], f"python (pid {self._chain[0].pid})") if self._chain else None

    def bind_to(self, pid: int) -> tuple[Identity, str] | None:
        return process(pid), f"pid {pid}"

    def worktree(self, directory: str) -> str:
        return directory


class FakeEffects:
    """Does nothing by itself: `begun` says what was ordered, `end` ends a process for whoever watches it."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, Order]] = []
        self.adopted: list[Server] = []
        self.forgotten: list[str] = []
        self.read: list[str] = []
        self.unproved: set[str] = set()  # launches whose keepers leave no word
        self.gone: set[Identity] = set()
        self._watched: dict[Identity, list[Callable[[], None]]] = {}

    def begin(self, key: str, order: Order) -> None:
        self.begun.append((key, order))

    def halt(self) -> None:
        self.halted = True

    def adopt(self, key: str, unit: str, server: Server) -> None:
        self.adopted.append(server)

    def watch(self, identity: Identity, then: Callable[[], None]) -> Callable[[], None]:
        if identity in self.gone:
            then()
            return lambda: None
        watched = self._watched.setdefault(identity, [])
        watched.append(then)
        return lambda: watched.remove(then)

    def watched(self, identity: Identity) -> int:
        """How many want to hear of its end."""
        return len(self._watched.get(identity, ()))

    def end(self, identity: Identity) -> None:
        self.gone.add(identity)
        for then in self._watched.pop(identity, []):
            then()

    def probe(self, identity: Identity) -> Presence:
        return Presence.GONE if identity in self.gone else Presence.ALIVE

    async def launch_result(self, launch: str, keeper: Identity) -> LaunchGone:
        self.read.append(launch)
        return LaunchGone(launch, launch not in self.unproved, 0, "it said so")

    async def traces(self, launch: str, keeper: Identity) -> Traces:
        return Traces(f"its keeper (pid {keeper.pid}) is gone", "it was let go")

    def forget(self, launch: str) -> None:
        self.forgotten.append(launch)

    def directory(self, path: str) -> str | None:
        return path if path.startswith("/") else None

    def log_path(self, launch: str) -> str:
        return f"/log/{launch}.log"


class Client:
    """One session with somebody who reads. `frames` is all that came, in order."""

    def __init__(self, bus: "Bus", agent: str, caller: FakeCaller) -> None:
        self.session = Session(caller, self)
        self.frames: list[dict[str, Any]] = []
        self._bus = bus
        self._came = anyio.Event()
        bus.supervisor.sessions.add(self.session)
        bus.desk.welcome(self.session, Hello(agent=agent))

    # coordinator.session.Door, with somebody behind it who reads at once
    def write(self, data: bytes) -> None:
        self.frames += [msgspec.json.decode(line) for line in data.splitlines()]
        self._came.set()
        self._came = anyio.Event()

    def backlog(self) -> int:
        return 0

    def idle(self) -> None:
        pass

    def close(self) -> None:
        pass

    async def post(self, what: str | dict[str, Any], id_: str = "", to: str = "coordinator") -> str:
        """Send, without waiting for the answer; returns the id."""
        id_ = id_ or f"m{next(_numbers)}"
        envelope = Envelope(to=to, id=id_)
        if isinstance(what, str):
            envelope.text = what
        else:
            envelope.body = msgspec.Raw(msgspec.json.encode(what))
        work = self._bus.router.hear(self.session, envelope)
        if work is not None:
            await work
        return id_

    async def answer(self, id_: str, after: int = 0) -> dict[str, Any]:
        """The answer to that id; `after` leaves out what had come before."""
        while True:
            for frame in self.frames[after:]:
                if frame.get("reply_to") == id_:
                    return frame
            await self._came.wait()

    async def ask(self, what: str | dict[str, Any], id_: str = "", to: str = "coordinator") -> dict[str, Any]:
        """Send and wait; returns the answer's body."""
        after = len(self.frames)
        frame = await self.answer(await self.post(what, id_, to), after)
        return dict(frame["body"])

    def heard(self, word: str) -> list[dict[str, Any]]:
        return [frame["body"] for frame in self.frames if frame["body"].get("type") == word]


class Bus:
    """Args: store: a fresh or a crashed one. config, effects, states: defaults where left out. found: beside it."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        config: Config | None = None,
        effects: FakeEffects | None = None,
        clock: VirtualClock | None = None,
        states: States | None = None,
        found: Found | None = None,
        repositories: Repositories | None = None,
        ground: Ground | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self.clock = clock or VirtualClock()
        self.effects = effects or FakeEffects()
        self.journal = Journal(self.store, self.clock, 30 * 86_400_000, states)
        self.supervisor = Supervisor(self.journal, self.clock, config or Config(), self.effects, 4242, states, found)
        self.desk = Desk(self.supervisor, "1.0", "/home", lambda stop_servers: None, repositories, ground)
        self.router = Router(self.supervisor, self.desk)
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """From start to a sudden end: what is under way when the block is left is thrown away."""
        await self.journal.open()
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self.journal.run)
            await self.supervisor.start(tasks)
            yield self
            tasks.cancel_scope.cancel()

    def client(self, agent: str, caller: FakeCaller | None = None) -> Client:
        return Client(self, agent, caller or FakeCaller())

    def go(self, work: Callable[..., Any], *args: Any) -> None:
        assert self._tasks is not None
        self._tasks.start_soon(work, *args)


def as_bytes(world: World) -> bytes:
    """A world as it would be kept: two worlds are the same if these are."""
    return world.encode()


async def replayed(store: MemoryStore) -> World:
    """What the next supervisor would make of what is durable."""
    return await Journal(store.crash(), VirtualClock(), 1).open()


async def settled() -> None:
    """Let everything run that can run now: a moment of virtual time."""
    await anyio.sleep(0.001)


async def passes(seconds: float) -> None:
    """Virtual time passes, for everybody."""
    await anyio.sleep(seconds)
