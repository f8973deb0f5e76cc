"""The state of one resource: a queue of tickets, and units that are free, prepared, held, drained or in doubt.

    free ──▶ preparing (stop → prepare → start, verify) ──▶ held ──▶ draining ──▶ free
                  └───────────── what cannot be proved ─────────────▶ recovery_required

Frozen: an event makes a new state, and the old one stays good until the new one is durable.
"""

from enum import StrEnum

import msgspec

from interlock.protocol.definition import CommandDefinition, Definition, Kind, ServerDefinition
from interlock.protocol.identity import Identity
from interlock.protocol.outcome import Deadline
from interlock.protocol.policy import Policy
from interlock.protocol.resource_queue import EMPTY_QUEUE, Queue
from interlock.protocol.resource_ticket import Ticket as Ticket  # noqa: PLC0414 - part of what is imported from here
from interlock.protocol.table import EMPTY, Table


class Server(msgspec.Struct, frozen=True, omit_defaults=True):
    """A server that runs, or whose tree is not yet proved gone.

    Args:
        launch: id of its launch; its result and log are filed under it.
        keeper: the shim that its whole tree hangs from.
        worktree: it was started in.
        definition: it was started with; it is stopped with the same.
        commit: HEAD of the worktree at the start, "" where there is none.
        since_ms: wall clock of the start.
        alive: False once its leader ended while something of its tree lives on.
    """

    launch: str
    keeper: Identity
    worktree: str
    definition: ServerDefinition
    commit: str = ""
    since_ms: int = 0
    alive: bool = True


class Prepared(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the commands of a unit have made of it: it stays so from hold to hold, until another worktree gets it.

    Args:
        worktree: it was prepared in. agent: for whom.
        definition: it was prepared with; it is stopped with the same.
        launch: of its last step; the log is filed under it.
        ready: prepared and verified. False: a step of it was begun and did not come to a good end.
    """

    worktree: str
    agent: str
    definition: CommandDefinition
    launch: str = ""
    ready: bool = False


class StepKind(StrEnum):
    STOP = "stop"
    PREPARE = "prepare"
    START = "start"
    VERIFY = "verify"


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """The step under way on a unit.

    Args:
        number: of the event that began it; nothing else has it.
        launch: what it starts, once the keeper is up; None before.
        keeper: of that launch.
        aborting: nobody wants its result any more.
        restart: the holder asked for the same server again.
        halt: the server is stopped because the bus goes down with it.
    """

    number: int
    kind: StepKind
    launch: str = ""
    keeper: Identity | None = None
    aborting: bool = False
    restart: bool = False
    halt: bool = False


class Launch(msgspec.Struct, frozen=True):
    """A gated command that runs under a hold. Its tree hangs from `keeper`."""

    launch: str
    keeper: Identity
    command: str
    since_ms: int


class UnitState(StrEnum):
    FREE = "free"
    PREPARING = "preparing"
    HELD = "held"
    DRAINING = "draining"
    RECOVERY_REQUIRED = "recovery_required"


class Unit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One unit of capacity.

    Args:
        ticket: whom it is prepared for, held by or drained of.
        fence: of the hold; 0 while there is none.
        since_ms: of the hold, wall clock. confirmed_ms: when its owner was last heard of.
        until: polls before it do not count (declared time, `time_max` at most).
        until_ms: what the owner declared, wall clock; 0: nothing.
        claimed: the owner has noticed its grant.
        claim_at: when an unnoticed grant passes on. poll_at: when the next poll is due.
        polls: counted polls without an answer.
        polled: a STILL USING? is out.
        why: of RECOVERY_REQUIRED, of the draining, or of being down while held. code: of the same.
        blocked: who holds the port that a start waits for.
        silent: its last owner was revoked for silence and is not proved gone.
        carried: of the hold: its server ran before it. after_silence: it was given while the unit was `silent`.
        prepared: what the kind `command` has made of it.
        free_at: its last owner was revoked, and has until then to save what it needs of what runs there.
        epoch: of the policy that the hold was granted under; 0: under none.
        digest: of the command that a reservation was used for first; it is bound to that.
        ready: verified ready for a ticket for several resources, and kept for it until the others are.
    """

    name: str
    state: UnitState = UnitState.FREE
    ticket: Ticket | None = None
    fence: int = 0
    since_ms: int = 0
    confirmed_ms: int = 0
    until: Deadline | None = None
    until_ms: int = 0
    claimed: bool = False
    claim_at: Deadline | None = None
    poll_at: Deadline | None = None
    polls: int = 0
    polled: bool = False
    launches: dict[str, Launch] = {}
    server: Server | None = None
    step: Step | None = None
    why: str = ""
    code: str = ""
    blocked: str = ""
    silent: bool = False
    carried: bool = False
    after_silence: bool = False
    prepared: Prepared | None = None
    free_at: Deadline | None = None
    epoch: int = 0
    digest: str = ""
    ready: bool = False

    def is_reservation(self) -> bool:
        """Its hold is for one command: it ends unless it is used soon, and with its last command."""
        return self.ticket is not None and (self.ticket.run or bool(self.epoch))

    def is_in_grace(self) -> bool:
        """Nothing but its last owner's moment of grace is waited for."""
        waits = self.state is UnitState.DRAINING and self.free_at is not None
        return waits and self.ticket is None and self.step is None


class Remains(msgspec.Struct, frozen=True, omit_defaults=True):
    """What still lives of a unit's old use, found after the database was lost.

    Args:
        known: what its state file said, in words, for the person who has to decide.
        server: runs under its keeper, whose identity is its own word.
        launches: commands under keepers that live.
    """

    known: str = ""
    server: Server | None = None
    launches: dict[str, Launch] = {}


class Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a ticket ended, to answer whoever sends its id again.

    Args: fence, code: of a reservation that a rule ended, for the command that comes too late.
    """

    agent: str
    at_ms: int
    why: str
    fence: int = 0
    code: str = ""


class Lost(msgspec.Struct, frozen=True):
    """When and why an agent lost its last hold."""

    at_ms: int
    why: str
    fence: int


class Arrival(msgspec.Struct, frozen=True):
    """The place of a `bus run` that gave up, kept for a short while."""

    arrival: int
    until: Deadline


class Resource(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource.

    Args:
        look_at: when whoever did not notice its grant is looked at next.
        policy, epoch, blockers: as the gate said last.
    """

    key: str
    definition: Definition = Definition()
    next_definition: Definition | None = None
    units: tuple[Unit, ...] = (Unit(""),)
    queue: Queue = EMPTY_QUEUE
    next_arrival: int = 1
    epoch: int = 1
    remembered: Table[str, Arrival] = EMPTY
    ended: Table[str, Ended] = EMPTY
    lost: Table[str, Lost] = EMPTY
    look_at: Deadline | None = None
    policy: Policy | None = None
    blockers: tuple[str, ...] = ()

    def unit(self, name: str) -> Unit:
        for unit in self.units:
            if unit.name == name:
                return unit
        raise LookupError(f"{self.key} has no unit {name!r}")

    def is_idle(self) -> bool:
        """Nobody owns, waits, runs or is in doubt, and no policy stands: it can be put away."""
        if self.queue or self.policy is not None or self.blockers:
            return False
        for unit in self.units:
            stands = unit.step is not None or unit.server is not None or unit.prepared is not None
            if stands or unit.state is not UnitState.FREE:
                return False
        return True


def find_ticket(resource: Resource, request_id: str) -> tuple[Ticket | None, Unit | None]:
    """The live ticket of that name, and the unit it has reached, if it has."""
    for unit in resource.units:
        if unit.ticket is not None and unit.ticket.request_id == request_id:
            return unit.ticket, unit
    return resource.queue.get(request_id), None


def unit_of(resource: Resource, agent: str, *, run: bool = False) -> Unit | None:
    """The unit that an agent holds or that is prepared for it (by an asked ticket, or by one of `bus run`)."""
    for unit in resource.units:
        if unit.ticket is not None and unit.ticket.agent == agent and unit.ticket.run is run:
            return unit
    return None


def queued_of(resource: Resource, agent: str) -> Ticket | None:
    """The agent's asked ticket in the queue: there is one at most."""
    for request_id in resource.queue.of(agent):
        if not resource.queue[request_id].run:
            return resource.queue[request_id]
    return None


def tickets_of(resource: Resource, agent: str) -> list[Ticket]:
    """An agent's tickets there: what it has, then what it waits for."""
    has = [unit.ticket for unit in resource.units if unit.ticket is not None and unit.ticket.agent == agent]
    return has + [resource.queue[request_id] for request_id in resource.queue.of(agent)]


def position(resource: Resource, request_id: str) -> int:
    """Place in the queue, from 1; a ticket that is being prepared for is at 1 and counts ahead of all others."""
    if request_id not in resource.queue:
        return 1
    ahead = sum(unit.state is UnitState.PREPARING and unit.ticket is not None for unit in resource.units)
    return ahead + 1 + resource.queue.ahead_of(request_id)


def first_grantable(resource: Resource) -> Ticket | None:
    return resource.queue.first_present()


def serves_itself(resource: Resource) -> bool:
    """Who is first is granted, without anybody's word: no controller chooses, and nothing runs that must end first."""
    return resource.policy is None and not resource.blockers


def is_reserved_anew(resource: Resource, unit: Unit) -> bool:
    """It was granted as one would be now: under the present policy, or under none where there is none."""
    return unit.epoch == (resource.epoch if resource.policy is not None else 0)


def is_preparing(resource: Resource) -> bool:
    """A unit is being prepared for somebody, whose place is ahead of the whole queue."""
    for unit in resource.units:
        if unit.state is UnitState.PREPARING and unit.ticket is not None:
            return True
    return False


def wants_to_hear(resource: Resource, agent: str) -> bool:
    """A sign of life of that agent would change something: a poll is out, a grant unnoticed, a ticket passed over."""
    for unit in resource.units:
        mine = unit.ticket is not None and unit.ticket.agent == agent and not unit.ticket.run
        if mine and unit.state is UnitState.HELD and (not unit.claimed or unit.polled or unit.polls):
            return True
    return bool(resource.queue.absent_of(agent))


def is_down(resource: Resource, unit: Unit) -> bool:
    """Held, and what was promised with it does not stand: its server has died, or it is not prepared any more."""
    if unit.state is not UnitState.HELD or unit.step is not None:
        return False
    match resource.definition.kind:
        case Kind.SERVER:
            return unit.server is None or not unit.server.alive
        case Kind.COMMAND:
            return unit.prepared is None or not unit.prepared.ready
        case Kind.LOCK:
            return False


def why_down(resource: Resource, unit: Unit) -> str:
    """Why it is down, as far as that is known."""
    if unit.why:
        return unit.why
    return "its server does not run" if resource.definition.kind is Kind.SERVER else "it is not prepared any more"


def concerns(resource: Resource, agent: str) -> bool:
    """The agent waits for it, has it, or has commands running under it."""
    if resource.queue.of(agent):
        return True
    for unit in resource.units:
        if unit.ticket is not None and unit.ticket.agent == agent:
            return True
    return False
