"""The world: every machine's state as the committed records make it. Replay and life come through the same door."""

from collections.abc import Iterator
from itertools import chain, islice

import msgspec

from interlock.coordinator.records import CameUp, Copied, Entry, Rebuilt, Record, message_id
from interlock.protocol import gate as gates
from interlock.protocol import inbox as inboxes
from interlock.protocol import registry as registries
from interlock.protocol.definition import Definition
from interlock.protocol.envelope import wire_time
from interlock.protocol.gate_commands import GateEvent
from interlock.protocol.gate_state import Gate
from interlock.protocol.inbox import Inbox, InboxEvent, Letter
from interlock.protocol.limits import IDS_REMEMBERED, IDS_SLACK, INBOXES_MAX, RESOURCES_LIVE_MAX, TASKS_OVER_KEPT
from interlock.protocol.names import COORDINATOR
from interlock.protocol.outcome import fold
from interlock.protocol.plain import from_plain, to_plain
from interlock.protocol.registry import Registry, RegistryEvent
from interlock.protocol.resource_events import Forgotten, ResourceEvent
from interlock.protocol.resource_evolve import evolve as evolve_resource
from interlock.protocol.resource_state import Resource, Unit, UnitState, find_ticket
from interlock.protocol.task_bookings import BOOKED, Booking, book
from interlock.protocol.task_commands import TaskEvent
from interlock.protocol.task_evolve import evolve as evolve_task
from interlock.protocol.task_state import Task
from interlock.protocol.territory_events import TerritoryEvent
from interlock.protocol.territory_evolve import evolve as evolve_territory
from interlock.protocol.territory_state import Territory

REGISTRY = "registry"
GATE = "gate"  # no resource has that address: a key has a slash
SUPERVISOR = "supervisor"
INBOX = "inbox/"
TERRITORY = "territory/"
TASK = "task/"
ENTRIES_A_PIECE = 1_024  # of a snapshot: some milliseconds

State = Resource | Registry | Inbox | Gate | Territory | Task


class World(msgspec.Struct):
    """All states, and how far the journal has come.

    Args:
        seq: number of the last event. index, hash, term: of the last record.
        gate: policies, and every managed command that is not over.
        territories: leases, by the repository that they are in.
        tasks: by key. tasks_over: those of them that are over, the one that has been so longest first.
        bookings: what is reserved for tasks, by fence.
        letters: number of the last message of the coordinator: that of its event, or one more than the one before.
        ids: recent message ids and the digest of what came with each.
        idle: keys of resources that nobody has or wants, the one that has been so longest first.
        bus: names the journal. lost: why a recovery is under way; empty: none is.
    """

    registry: Registry = Registry()
    resources: dict[str, Resource] = {}
    inboxes: dict[str, Inbox] = {}
    ids: dict[str, str] = {}
    idle: dict[str, bool] = {}
    seq: int = 0
    index: int = 0
    term: int = 0
    hash: str = ""
    letters: int = 0
    bus: str = ""
    lost: str = ""
    gate: Gate = Gate()
    territories: dict[str, Territory] = {}
    tasks: dict[str, Task] = {}
    tasks_over: dict[str, bool] = {}
    bookings: dict[str, Booking] = {}

    @staticmethod
    def decode(raw: bytes) -> "World":
        """As a snapshot has it. Raises msgspec.MsgspecError or UnicodeDecodeError where it is none."""
        return _decoder.decode(raw)

    def encode(self) -> bytes:
        """For a snapshot."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """For a snapshot, a piece at a time: that of a large world takes a while, and others want their turn."""
        before = "{"
        for name in World.__struct_fields__:
            value = getattr(self, name)
            yield f'{before}"{name}":'.encode()
            before = ","
            if not isinstance(value, dict):
                yield _encoder.encode(value)
                continue
            entries, comma = iter(value.items()), b"{"
            while some := dict(islice(entries, ENTRIES_A_PIECE)):
                yield comma + _encoder.encode(some)[1:-1]
                comma = b","
            yield b"}" if value else b"{}"
        yield b"}"

    def resource(self, key: str, definition: Definition | None = None) -> Resource:
        """A resource's state; one that nobody ever asked for is free, as its definition says."""
        known = self.resources.get(key)
        if known is not None:
            return known
        definition = definition or Definition()
        return Resource(key, definition, units=tuple(Unit(name) for name in definition.units))

    def inbox(self, agent: str) -> Inbox:
        return self.inboxes.get(agent) or Inbox(agent)

    def territory(self, key: str) -> Territory:
        """A territory's state; one in which nobody ever had a lease is empty."""
        return self.territories.get(key) or Territory(key)

    def task(self, key: str) -> Task:
        """A task's state; one that nobody ever assigned has no assignment."""
        return self.tasks.get(key) or Task(key)

    def apply(self, record: Record) -> None:
        """Replay: fold every entry, then what follows from it."""
        self.seq = record.first_seq - 1
        for number, entry in enumerate(record.entries):
            self._fold(entry)
            self.project(record.at_ms, record.index, number, entry)
        self.index, self.term = record.index, record.term

    def take(self, entry: Entry, state: State | None) -> None:
        """Life: the state was folded when it was decided; an inbox, which others write to, folds again."""
        if isinstance(state, Resource | Territory | Task):
            self._book(entry)
        if state is None or isinstance(state, Inbox):
            self._fold(entry)
        elif isinstance(state, Resource):
            self._keep(entry, state)
        elif isinstance(state, Gate):
            self.gate = state
        elif isinstance(state, Territory):
            self.territories[state.key] = state
        elif isinstance(state, Task):
            self._file(state)
        else:
            self._enrol(state)

    def project(self, at_ms: int, index: int, number: int, entry: Entry) -> list[tuple[str, Letter]]:
        """Count an entry's events, and put its messages into the inboxes; returns which letters are new, and whose."""
        self.seq += len(entry.events)
        self.ids.update(entry.causes)
        if len(self.ids) > IDS_REMEMBERED + IDS_SLACK:  # many at once: a dict is slow to give up its first, one by one
            self.ids = dict(islice(self.ids.items(), IDS_SLACK, None))
        for gone in entry.withdraw:
            if gone.to in self.inboxes:
                self.inboxes[gone.to] = inboxes.withdraw(self.inboxes[gone.to], gone.slot)
        letters = []
        for n, send in enumerate(entry.outbox):
            self.letters = max(self.letters + 1, self.seq)  # never twice, nor behind the log, whatever is restored
            id_ = message_id(at_ms, index, number, n)
            letter = Letter(id_, COORDINATOR, at_ms, send.body, send.slot, seq=self.letters)
            self.inboxes[send.to] = inboxes.put(self.inbox(send.to), letter)
            letters.append((send.to, letter))
        return letters

    def _fold(self, entry: Entry) -> None:
        """Addresses tell the machine: which events an entry holds follows from its actor."""
        actor = entry.actor
        self._book(entry)
        if actor == REGISTRY:
            events: list[RegistryEvent] = [e for e in entry.events if isinstance(e, RegistryEvent)]
            self._enrol(fold(registries.evolve, self.registry, events))
        elif actor == GATE:
            words: list[GateEvent] = [e for e in entry.events if isinstance(e, GateEvent)]
            self.gate = fold(gates.evolve, self.gate, words)
        elif actor.startswith(TERRITORY):
            news: list[TerritoryEvent] = [e for e in entry.events if isinstance(e, TerritoryEvent)]
            self.territories[actor] = fold(evolve_territory, self.territory(actor), news)
        elif actor.startswith(TASK):
            facts: list[TaskEvent] = [e for e in entry.events if isinstance(e, TaskEvent)]
            self._file(fold(evolve_task, self.task(actor), facts))
        elif actor.startswith(INBOX):
            agent = actor.removeprefix(INBOX)
            letters: list[InboxEvent] = [e for e in entry.events if isinstance(e, InboxEvent)]
            self.inboxes[agent] = fold(inboxes.evolve, self.inbox(agent), letters)
        elif actor == SUPERVISOR:
            for event in entry.events:
                match event:
                    case CameUp(term, _, bus, lost):
                        self.term, self.bus, self.lost = term, bus or self.bus, lost or self.lost
                    case Copied(at_ms):
                        self.lost = f"bus.db is a backup made at {wire_time(at_ms)}, what came later is not known"
                    case Rebuilt():
                        self.lost = ""
        else:
            what: list[ResourceEvent] = [e for e in entry.events if isinstance(e, ResourceEvent)]
            self._keep(entry, fold(evolve_resource, self.resource(actor), what))

    def launches(self) -> Iterator[str]:
        """Every launch that some state still speaks of; one that several do comes more than once."""
        yield from self.gate.commands
        for territory in self.territories.values():
            yield from territory.used
        for resource in self.resources.values():
            for unit in resource.units:
                yield from unit.launches
                if unit.server is not None:
                    yield unit.server.launch
                if unit.prepared is not None:
                    yield unit.prepared.launch
                if unit.step is not None and unit.step.launch:
                    yield unit.step.launch

    def is_in_doubt(self) -> bool:
        """Something waits for a person."""
        units = (unit for resource in self.resources.values() for unit in resource.units)
        return any(unit.state is UnitState.RECOVERY_REQUIRED for unit in units)

    def has_room_for(self, key: str) -> bool:
        """Another key can live: it does, or there is room, or one that is idle can make some."""
        return key in self.resources or len(self.resources) < RESOURCES_LIVE_MAX or bool(self.idle)

    def _enrol(self, registry: Registry) -> None:
        """Keep the registry; many inboxes at once go whose agents it has forgotten since."""
        self.registry = registry
        if len(self.inboxes) > INBOXES_MAX:
            self.inboxes = {name: inbox for name, inbox in self.inboxes.items() if name in registry.agents}

    def _book(self, entry: Entry) -> None:
        for event in entry.events:
            if type(event) in BOOKED:
                book(self.bookings, entry.actor, event)

    def _file(self, task: Task) -> None:
        """Keep a task; of those that are over and hold nothing the oldest goes, where there are too many."""
        self.tasks[task.key] = task
        if task.is_over() and not task.held():
            self.tasks_over.setdefault(task.key, True)
        else:
            self.tasks_over.pop(task.key, None)
        if len(self.tasks_over) > TASKS_OVER_KEPT:
            gone = next(iter(self.tasks_over))
            del self.tasks_over[gone], self.tasks[gone]

    def _keep(self, entry: Entry, resource: Resource) -> None:
        """Keep a state; past the limit, the one that has been idle longest is forgotten: it holds nothing."""
        key = entry.actor
        self.resources[key] = resource
        self.idle.pop(key, None)
        if entry.events and isinstance(entry.events[-1], Forgotten):
            del self.resources[key]
            return
        if resource.is_idle():
            self.idle[key] = True
        if len(self.resources) > RESOURCES_LIVE_MAX and self.idle:
            gone = next(iter(self.idle))
            del self.idle[gone], self.resources[gone]


def resource_of(world: World, request_id: str) -> str | None:
    """The resource that has that ticket, or had it a while ago; those with a policy are looked through first."""
    for key in chain(world.gate.policies, world.resources):
        resource = world.resources.get(key)
        if resource is None:
            continue
        if find_ticket(resource, request_id) != (None, None) or request_id in resource.ended:
            return key
    return None


_encoder = msgspec.json.Encoder(enc_hook=to_plain)
_decoder = msgspec.json.Decoder(World, dec_hook=from_plain)
