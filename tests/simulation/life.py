"""One supervisor's life: the real supervisor, router, desk, journal and doorkeeper, put together as in the service."""

from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from tests.coordinator.bus import FakeCaller
from tests.simulation.beside import StateFolder
from tests.simulation.clients import Agent, Wire
from tests.simulation.steps import Steps

from interlock.adapters.housekeeping import keep_few_watches
from interlock.adapters.stream_session import Doorkeeper, StreamSession
from interlock.coordinator.config import Config
from interlock.coordinator.desk import Desk
from interlock.coordinator.journal import Journal
from interlock.coordinator.router import Router
from interlock.coordinator.session import Session
from interlock.coordinator.store import NotWritten, Unknown
from interlock.coordinator.supervisor import Supervisor
from interlock.protocol.envelope import Envelope

if TYPE_CHECKING:
    from tests.simulation.story import Story

LET_GO_EVERY_S = 5.0  # more often than in earnest


class Paper:
    """A door that writes down what it is told: coordinator.session.Door."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.lines += data.splitlines()

    def backlog(self) -> int:
        return 0

    def idle(self) -> None:
        pass

    def close(self) -> None:
        pass


class Life:
    """Args: story: whose disk, clock and machine it lives with. `failed`: why its journal ended."""

    supervisor: Supervisor

    def __init__(self, story: "Story", config: Config) -> None:
        self.failed: Exception | None = None
        self.ready = anyio.Event()
        self._story = story
        self._config = config
        self._scope = anyio.CancelScope()
        self._steps: Steps | None = None
        self._tasks: TaskGroup | None = None
        self._dead = False
        self._wires: list[Wire] = []
        self._states = StateFolder(story, story.beside)

    async def run(self) -> None:
        story = self._story
        with self._scope:
            journal = Journal(story.store, story.clock, self._config.keep, states=self._states)
            await journal.open()
            try:
                async with anyio.create_task_group() as tasks:
                    self._tasks = tasks
                    tasks.start_soon(journal.run)
                    self._compose(journal, tasks)
                    await self.supervisor.start(tasks)
                    await self._states.begin()
                    self.ready.set()
                    await anyio.sleep_forever()
            except* (Unknown, NotWritten) as group:
                self.failed = group.exceptions[0]
                self._dead = self._states.dead = True
                if self._steps is not None:
                    self._steps.die()
                for wire in self._wires:  # its process ends
                    wire.cut()
                self.ready.set()

    def serve(self, wire: Wire, agent: Agent) -> None:
        if self._tasks is not None and not self._dead:
            self._wires.append(wire)
            wire.lead_to(StreamSession(self._door, lambda transport: agent))

    def die(self) -> None:
        """At once: nothing of it reaches the disk, a client or the machine any more."""
        self._dead = self._states.dead = True
        if self._steps is not None:
            self._steps.die()
        self._scope.cancel()

    async def stop(self, *, servers: bool) -> None:
        """In order: no new messages, drain, commit, a snapshot, leave. Returns early where its journal ends."""
        done = anyio.Event()

        async def in_order() -> None:
            await self.supervisor.stop(stop_servers=servers)
            await anyio.sleep(0.1)
            await self.supervisor.journal.close(snapshot=True)
            done.set()

        assert self._tasks is not None
        self.supervisor.stopping.set()
        self._tasks.start_soon(in_order)
        while not done.is_set() and self.failed is None:  # noqa: ASYNC110 - whichever of two comes first
            await anyio.sleep(0.05)

    def reconfigure(self, config: Config) -> None:
        if not self._dead:
            self.supervisor.reconfigure(config)

    async def recover(self, key: str) -> None:
        """What a person does at a terminal: look at the evidence, confirm with its code."""
        ask = {"type": "RECOVER", "resource": key}
        heard = await self.says(ask)
        if heard and not self._dead:
            await self.says(ask | {"code": heard.get("code", "")})

    async def says(self, ask: dict[str, Any]) -> dict[str, Any]:
        """A person says something to the bus itself; what it hears, if that comes soon."""
        door = Paper()
        session = Session(FakeCaller(), door)
        self._story.log(f"a person says {ask}")
        envelope = Envelope(
            to="supervisor", id=f"person-{len(self._story.lines)}", body=msgspec.Raw(msgspec.json.encode(ask))
        )
        with anyio.move_on_after(3):
            work = self._router.hear(session, envelope)
            if work is not None:
                await work
        heard = [msgspec.json.decode(line)["body"] for line in door.lines]
        if heard:
            self._story.log(f"a person hears {heard[-1]}")
        return dict(heard[-1]) if heard else {}

    def _compose(self, journal: Journal, tasks: TaskGroup) -> None:
        def tell(key: str, command: Any) -> None:
            if not self._dead:
                supervisor.tell(key, command)

        story = self._story
        self._steps = Steps(story.machine, tasks, tell, faults=story.faults)
        found = story.beside.found(story)
        supervisor = Supervisor(journal, story.clock, self._config, self._steps, 1, self._states, found)
        self._states.supervisor = supervisor
        desk = Desk(supervisor, "1", "/home", lambda stop_servers: None)
        self._router = Router(supervisor, desk)
        self._door = Doorkeeper(supervisor, self._router, desk, lambda session: None)
        self.supervisor = supervisor
        tasks.start_soon(keep_few_watches, self._let_go, LET_GO_EVERY_S)

    def _let_go(self) -> None:
        if not self._dead:
            self.supervisor.let_go()
