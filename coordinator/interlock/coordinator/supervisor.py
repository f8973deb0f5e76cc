"""The supervisor: owns the actors, wakes them, and carries out what they decided once it is durable.

    tell ──▶ mailbox ──▶ actor ──▶ journal ──▶ follow_up: answers, inbox news, steps, watches, deadlines

`tell` never waits. Messages of agents come through `router.py`, questions to the bus itself through `desk.py`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup

from interlock.coordinator.actor import Actor, Item
from interlock.coordinator.attendance import Attendance
from interlock.coordinator.authority import Authority, NoTokens
from interlock.coordinator.bookings import Bookings
from interlock.coordinator.claiming import claim
from interlock.coordinator.clock import Clock
from interlock.coordinator.config import Config
from interlock.coordinator.consequences import Consequences
from interlock.coordinator.deadlocks import Deadlocks
from interlock.coordinator.dispatcher import Dispatcher
from interlock.coordinator.effects import Effects
from interlock.coordinator.governing import Governing
from interlock.coordinator.ids import new_id
from interlock.coordinator.journal import Journal, Staged
from interlock.coordinator.launch_watch import LaunchWatch
from interlock.coordinator.mail import Mail, NoMail
from interlock.coordinator.records import Entry, SupervisorEvent, WentDown
from interlock.coordinator.session import Session, answer_frame
from interlock.coordinator.states import Found, NoStates, States
from interlock.coordinator.stopping_servers import end_servers
from interlock.coordinator.take_up import take_up, take_up_leases
from interlock.coordinator.timer import Timer
from interlock.coordinator.together import Together
from interlock.coordinator.watching import Watching
from interlock.coordinator.world import GATE, INBOX, REGISTRY, SUPERVISOR, TASK, TERRITORY, State, World
from interlock.protocol.codes import Code
from interlock.protocol.definition import Definition
from interlock.protocol.envelope import wire_time
from interlock.protocol.messages import FromBus, Refused
from interlock.protocol.outcome import Now, Outcome
from interlock.protocol.registry import Expire
from interlock.protocol.resource_commands import Define, Heard, Tick
from interlock.protocol.resource_state import (
    concerns,
    wants_to_hear,
)

log = structlog.get_logger("supervisor")
Hear = Callable[[FromBus], None]


class Supervisor:
    """One per bus. Args: effects: what decisions can have done; pid: of this process, for the log; states: keeps what
    survives the journal; found: what was there of it at the start."""

    def __init__(
        self, journal: Journal, clock: Clock, config: Config, effects: Effects, pid: int,
        states: States | None = None, found: Found | None = None,
    ) -> None:  # fmt: skip
        self.journal = journal
        self.clock = clock
        self.config = config
        self.effects = effects
        self.mail: Mail = NoMail()
        self.pid = pid
        self.states = states or NoStates()
        self.recovery = ""  # what every agent is told once: why, and what is to be done
        self.found = found or Found()
        self.sessions: set[Session] = set()
        self.followers: dict[str, set[Session]] = {}  # agent → sessions that want its news at once
        self.attendance = Attendance(self)
        self.watching = Watching(self)
        self.authority = Authority(lambda: self.config, NoTokens())
        self.launches = LaunchWatch(self)
        self.governing = Governing(self)
        self.bookings = Bookings(self)
        self.stopping = anyio.Event()
        self.timer = Timer(clock, self._tick)
        self.dispatcher = Dispatcher(self)
        self.together = Together(self)
        self.deadlocks = Deadlocks(self)
        self._consequences = Consequences(self)
        self._asking: dict[str, tuple[str, list[Hear]]] = {}  # message id → its digest, who waits for its answer
        self.runs: dict[str, Session] = {}  # request id → the `bus run` that waits on it
        self._involved: dict[str, set[str]] = {}  # agent → resources that may concern it
        self._tasks: TaskGroup | None = None

    @property
    def world(self) -> World:
        return self.journal.world

    # --- life -----------------------------------------------------------------------------
    async def start(self, tasks: TaskGroup) -> None:
        """Claim the journal, then take up everything that the last supervisor left under way.

        Raises:
            Unusable: the journal is an old copy, see recovery.py.
        """
        self._tasks = tasks
        tasks.start_soon(self.timer.run)
        tasks.start_soon(self.dispatcher.run)
        self.recovery = await claim(self)
        self.attendance.begin()
        self.governing.take_up()
        for key in dict.fromkeys([*self.world.resources, *self.config.resources]):
            take_up(self, key)
        for key in self.world.territories:
            take_up_leases(self, key)
        self.bookings.take_up()
        self.together.take_up()

    async def stop(self, *, stop_servers: bool = False) -> None:
        """Let what is under way end in order, and record it. Servers keep running unless told."""
        if stop_servers:
            await end_servers(self)
        for session in list(self.sessions):
            session.close()
        with anyio.move_on_after(5):
            await self.dispatcher.quiet()
        await self.record(WentDown(self.world.term))
        self.journal.finish()

    def reconfigure(self, config: Config) -> None:
        """Take a changed configuration; each resource applies it when it is next free."""
        before, self.config = self.config, config
        self.journal.keep_ms = config.keep
        for key in dict.fromkeys([*before.resources, *config.resources]):
            self.define(key)

    # --- mailboxes ------------------------------------------------------------------------
    def tell(self, address: str, command: Any, *, item: Item | None = None, urgent: bool = False) -> bool:
        """Put a command into an actor's mailbox and wake it.

        Args:
            item: the mailbox item where the command came as an agent's message, with its id.
            urgent: may use the room that is kept for the timer, steps, watchers, RELEASE, EXTEND and CANCEL.

        Returns:
            False where the mailbox is full: nothing was taken.
        """
        return self.dispatcher.put(address, item or Item(command), urgent=urgent, own=item is None)

    async def ask(self, address: str, make: Callable[[str], Any]) -> FromBus:
        """Tell an actor something of the bus's own and wait for its answer."""
        message_id, heard, box = new_id(), anyio.Event(), list[FromBus]()

        def hear(body: FromBus) -> None:
            box.append(body)
            heard.set()

        self.expect(message_id, hear)
        if not self.tell(address, None, item=Item(make(message_id), message_id), urgent=True):
            return Refused(Code.QUEUE_FULL, "the bus has too much to do: try again")
        await heard.wait()
        return box[0]

    def expect(self, message_id: str, hear: Hear, digest: str = "") -> bool:
        """Wait for the direct answer to a message; False where the same id is under way already."""
        _, waiting = self._asking.setdefault(message_id, (digest, []))
        waiting.append(hear)
        return len(waiting) == 1

    def is_under_way(self, message_id: str) -> bool:
        """A message with that id has gone to its mailbox, and is not answered yet."""
        return message_id in self._asking

    def digest_of(self, message_id: str) -> str | None:
        """What came with that id, if it was taken in or is under way."""
        known = self.world.ids.get(message_id)
        return known if known is not None else self._asking.get(message_id, (None, ()))[0]

    def state_of(self, address: str) -> State:
        if address == REGISTRY:
            return self.world.registry
        if address == GATE:
            return self.world.gate
        if address.startswith(INBOX):
            return self.world.inbox(address.removeprefix(INBOX))
        if address.startswith(TERRITORY):
            return self.world.territory(address)
        if address.startswith(TASK):
            return self.world.task(address)
        return self.world.resource(address)

    def define_if_new(self, key: str) -> None:
        """A resource that is heard of for the first time learns its definition first."""
        if key not in self.world.resources and not self.dispatcher.knows(key):
            self.define(key)
            self.governing.renew(key)

    def heard(self, agent: str) -> None:
        """The agent did something under its name; tell the resources to which that matters."""
        resources, keys = self.world.resources, self._involved.get(agent)
        if keys is None:
            return
        for key in keys if len(keys) == 1 else self.resources_of(agent):
            if key in resources and wants_to_hear(resources[key], agent):
                self.tell(key, None, item=Item(Heard(agent)))  # the next sign of life says the same: no room is kept

    def involve(self, agent: str, key: str) -> None:
        """From now on that resource may concern the agent."""
        self._involved.setdefault(agent, set()).add(key)

    def is_only_at_one(self, agent: str, *keys: str) -> bool:
        """At most one resource may concern the agent. Args: keys: and it is one of these; none: whichever."""
        concerned = self._involved.get(agent)
        return not concerned or (len(concerned) == 1 and (not keys or not concerned.isdisjoint(keys)))

    def resources_of(self, agent: str) -> list[str]:
        """Keys of the resources that the agent waits for or has."""
        resources, keys = self.world.resources, self._involved.get(agent)
        if not keys:
            return []
        mine = sorted(key for key in keys if key in resources and concerns(resources[key], agent))
        if len(mine) < len(keys):
            self._involved[agent] = set(mine)
        if not mine:
            del self._involved[agent]
        return mine

    def spawn(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run something beside the sessions; a fault in it is logged and ends nothing else."""

        async def guarded() -> None:
            try:
                await work(*args)
            except Exception as error:
                log.error("task_failed", exc_info=error)

        if self._tasks is not None:
            self._tasks.start_soon(guarded)

    def follow(self, session: Session) -> None:
        """From now on that connection hears the news of the agent that it speaks for at once."""
        self.followers.setdefault(session.agent, set()).add(session)
        session.follows_as.add(session.agent)

    def may_control(self, session: Session, agent: str) -> bool:
        """The agent may set policies and grant. Args: session: that it speaks through."""
        return self.authority.may_control(session, agent)

    def run_waits(self, request_id: str, session: Session) -> None:
        """From now on that connection hears what becomes of a `bus run`'s ticket."""
        if not session.closed.is_set():  # it may have ended while its agent was joined
            self.runs[request_id] = session
            session.runs.add(request_id)

    def forget(self, session: Session) -> None:
        """A session ended. What its agent holds does not depend on it."""
        self.sessions.discard(session)
        self.attendance.ended(session)
        for agent in session.follows_as:
            self.followers[agent].discard(session)
            if not self.followers[agent]:
                del self.followers[agent]
        for request_id in session.runs:
            if self.runs.get(request_id) is session:
                del self.runs[request_id]

    def say(self, session: Session, message_id: str, body: FromBus) -> None:
        """Answer a session directly."""
        notes = tuple(session.notes)
        session.notes.clear()
        now = wire_time(self.clock.wall_ms())
        said = self.governing.noted(body)
        session.push(answer_frame(new_id(), now, session.agent, said, message_id, notes))
        session.answered(message_id)

    # --- after a decision is durable --------------------------------------------------------
    def answer(self, message_id: str, to: str, body: FromBus) -> None:
        for hear in self._asking.pop(message_id, ("", ()))[1]:
            hear(body)

    def follow_up(self, actor: Actor, outcome: Outcome[Any, Any], staged: Staged | None) -> None:
        """Speak, and begin what was decided. A fault here is ours and logged: the decision itself stands."""
        try:
            self._consequences.follow(actor.address, outcome, staged)
        except Exception as error:
            log.error("follow_up_failed", actor=actor.address, exc_info=error)

    def now(self) -> Now:
        """The moment, as a machine may know it."""
        return Now(self.clock.wall_ms(), self.clock.boot(), self.clock.mono_ms(), self.journal.next_seq)

    def watched(self) -> int:
        """How many processes are watched, each by an open file; one that an agent and a ticket live by counts twice."""
        return self.attendance.watched() + self.watching.watched()

    def let_go(self) -> None:
        """Watch no longer what nothing lives by any more. For whoever keeps the house, now and then."""
        self.attendance.let_go()
        self.watching.let_go()

    def counts(self) -> dict[str, int]:
        """How much there is of what comes and goes: over a long time each must come back to where it was."""
        world, agents = self.world, self.world.registry.agents
        return {
            "tasks": len(anyio.get_running_tasks()),
            "sessions": len(self.sessions),
            "followers": sum(map(len, self.followers.values())),
            "questions under way": len(self._asking),
            "runs waiting": len(self.runs),
            "actors": self.dispatcher.size(),
            "deadlines": self.timer.size(),
            "processes watched": self.watched(),
            "agents": len(agents),
            "agents here": len(agents) - agents.gone_count,
            "agents with resources": len(self._involved),
            "resources": len(world.resources),
            "resources in use": len(world.resources) - len(world.idle),
            "unread messages": sum(len(each.unread) for each in world.inboxes.values()),
            "read messages": sum(len(each.acked) for each in world.inboxes.values()),
            "message ids": len(world.ids),
            "leases": sum(len(each.held) + len(each.waiting) for each in world.territories.values()),
            "tasks that are not over": len(world.tasks) - len(world.tasks_over),
            "managed commands": len(world.gate.commands),
            "launches known": self.launches.size(),
        }

    # --- straight helpers -------------------------------------------------------------------
    def _tick(self, address: str) -> None:
        self.tell(address, Expire(self.attendance.here()) if address == REGISTRY else Tick())

    def define(self, key: str) -> None:
        """Tell a resource what its configuration says, where that is not what it knows."""
        known = self.world.resources.get(key)
        current = (known.next_definition or known.definition) if known is not None else Definition()
        wanted = self.config.definition(key, current)
        if wanted != current and (key in self.config.resources or known is not None or wanted != Definition()):
            self.tell(key, Define(wanted))

    async def record(self, event: SupervisorEvent) -> bool:
        """Have an event of the bus's own on record; False where it could not be written."""
        staged = self.journal.stage(Entry(SUPERVISOR, (event,)), None)
        await staged.wait()
        return not staged.failure
