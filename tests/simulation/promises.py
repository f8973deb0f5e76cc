"""The promises of the contract, checked against what is on disk, what was said, and which processes live.

It is told every record the moment it is durable, and every frame the moment a client has it; from these and from the
simulated machine it knows what is true. It never looks into the supervisor.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from tests.simulation.gated import Ledger
from tests.simulation.machine import Broken, Machine

from interlock.coordinator import records
from interlock.coordinator.journal import numbered
from interlock.coordinator.store import Row
from interlock.protocol.inbox import MessageSent
from interlock.protocol.limits import PASSES_MAX
from interlock.protocol.outcome import Deadline
from interlock.protocol.registry import AgentJoined, AgentLeft
from interlock.protocol.resource_events import (
    Amended,
    Armed,
    Claimed,
    Defined,
    Draining,
    Finished,
    Heard,
    HoldExtended,
    HoldGranted,
    HoldReleased,
    HoldRevoked,
    PassedOver,
    Polled,
    PrepareFailed,
    Recovered,
    RecoveryRequired,
    Requested,
    Returned,
    Started,
    StepDone,
    StepStarted,
    TicketCancelled,
)
from interlock.protocol.resource_set_events import SetAside, SetParted, SetPassed
from interlock.protocol.resource_state import Server, StepKind, Ticket


@dataclass
class Hold:
    fence: int
    ticket: Ticket
    granted_s: float
    polls: list[float] = field(default_factory=list)
    claimed: bool = False
    draining: bool = False
    launches: set[str] = field(default_factory=set)


@dataclass
class Key:
    """One resource as its records tell it."""

    queue: dict[str, Ticket] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    prepared: dict[str, Ticket] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    doubt: set[str] = field(default_factory=set)
    servers: dict[str, Server] = field(default_factory=dict)
    grace: dict[str, Deadline] = field(default_factory=dict)  # unit → until when what runs there is let be


@dataclass
class Truth:
    """What the story knows of its agents: when each was answered, asked to release, left or died (virtual seconds)."""

    answered: dict[str, list[float]] = field(default_factory=dict)
    released: set[tuple[str, str]] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)  # agents that left, died or were taken over, at any time
    revoked: set[str] = field(default_factory=set)  # keys that a person has taken back, at any time
    requests: set[str] = field(default_factory=set)  # ids: sent again they are a sign of life, and on record as that
    away: Callable[[str], bool] = lambda name: False  # nobody could hear of its session for as long as it takes
    troubles: list[float] = field(default_factory=list)  # when a supervisor died or the disk was full


def hold_to(promise: str, holds: object, *about: object) -> None:
    if not holds:
        raise Broken(f"{promise}: {' '.join(map(str, about))}")


class Promises:
    """Args: units: key → how many. servers: keys of kind server. now_s: virtual time."""

    def __init__(
        self, machine: Machine, truth: Truth, units: Mapping[str, int], servers: set[str], now_s: Callable[[], float]
    ) -> None:
        self.keys: dict[str, Key] = {}
        self.ledger = Ledger()
        self.seq = 0
        self._machine = machine
        self._truth = truth
        self._units = dict(units)
        self._servers = servers
        self._now_s = now_s
        self._index = 0
        self._fence = 0
        self._causes: set[str] = set()
        self._requested: dict[str, str] = {}  # request id → agent
        self._over: set[str] = set()  # request ids that ended
        self._granted: dict[int, tuple[str, str]] = {}
        self._ended: set[int] = set()  # fences
        self._places: set[tuple[str, str]] = set()  # (request id, resource): of several it has one at each
        self._polled: set[int] = set()
        self._started: set[str] = set()
        self._letters: set[str] = set()
        self._joined: set[tuple[str, int]] = set()
        self._left: set[str] = set()
        self._lost = False
        self.seen: Counter[str] = Counter()  # kinds of events

    def lose(self) -> None:
        """The database is lost: nobody has or waits for anything, but no number and no fence is given again."""
        self.keys, self._index, self._lost, self.ledger = {}, 0, True, Ledger()
        self._causes.clear()
        self._requested.clear()
        self._places.clear()
        self._letters.clear()

    # --- on disk ------------------------------------------------------------------------------
    def durable(self, row: Row) -> None:
        record = records.decode(row.body)
        hold_to("records follow one another", row.index == self._index + 1, row.index)
        self._index = row.index
        for entry in record.entries:
            for cause in entry.causes:
                new = cause not in self._causes or cause in self._truth.requests
                hold_to("nothing is executed twice", new, cause)
                self._causes.add(cause)
        for seq, actor, event in numbered(record, 0):
            hold_to("events are numbered without a gap", seq == self.seq + 1 or (self._lost and seq > self.seq), seq)
            self.seq, self._lost = seq, False
            self.seen[type(event).__name__] += 1
            self.ledger.durable(event)
            self._event(seq, actor, event)

    def _event(self, seq: int, actor: str, event: Any) -> None:
        key = self.keys.setdefault(actor, Key())
        if isinstance(event, Draining | HoldRevoked | PassedOver) and event.grace is not None:
            key.grace[event.unit] = event.grace
        match event:
            case MessageSent(_, letter):
                hold_to("nothing is executed twice", letter.id not in self._letters, letter.id)
                self._letters.add(letter.id)
            case AgentJoined(agent):
                self._joined.add((agent.name, agent.incarnation))
            case AgentLeft(name, why=why):
                if "session was cut" in why:
                    hold_to("a session counts as gone only once it was away for long", self._truth.away(name), event)
                    self._truth.ended.add(name)
                hold_to("gone is proved or said", name in self._truth.ended, event)
                self._left.add(name)
            case Requested(agent, ticket):
                hold_to("nothing is executed twice", (ticket.request_id, actor) not in self._places, event)
                self._places.add((ticket.request_id, actor))
                self._requested[ticket.request_id] = agent
                key.queue[ticket.request_id] = ticket
            case Amended(_, ticket):
                key.queue[ticket.request_id] = ticket
            case Returned(_, request_id):
                key.absent.discard(request_id)
            case TicketCancelled(_, request_id, why):
                hold_to("a ticket ends with a reason", why, event)
                self._drop(key, request_id)
            case PrepareFailed(unit=unit, request_id=request_id, why=why):
                hold_to("a ticket ends with a reason", why, event)
                self._drop(key, request_id)
            case StepStarted(unit=unit, kind=StepKind.STOP, halt=False) if self._in_grace(key, unit):
                raise Broken(f"what runs is let be for the moment of grace: {event}")
            case StepStarted(unit=unit, request_id=request_id) if request_id and unit not in key.holds:
                self._next(actor, key, unit, request_id)
                key.prepared[unit] = key.queue.pop(request_id)
            case SetAside(unit=unit, request_id=request_id):
                self._next(actor, key, unit, request_id)
                key.prepared[unit] = key.queue.pop(request_id)
            case SetPassed(passed=passed):
                hold_to("a set is passed 8 times at most", passed <= PASSES_MAX, event)
            case SetParted(_, request_id):
                key.queue[request_id] = msgspec.structs.replace(key.queue[request_id], together=())
            case StepDone(unit=unit, server=server) if server is not None:
                key.servers[unit] = server
            case HoldGranted():
                self._grant(seq, actor, key, event)
            case Started(unit=unit, fence=fence, launch=launch):
                hold_to(
                    "a command begins under a live hold", unit in key.holds and key.holds[unit].fence == fence, event
                )
                hold_to("nothing is executed twice", launch.launch not in self._started, event)
                self._started.add(launch.launch)
                key.holds[unit].launches.add(launch.launch)
                key.holds[unit].claimed = True
            case Finished(unit=unit, launch=launch):
                lives = self._machine.trees[launch].lives
                hold_to("a command has ended only if it has", not lives, event)
                if unit in key.holds:
                    key.holds[unit].launches.discard(launch)
            case Claimed(unit=unit) | Heard(unit=unit) | HoldExtended(unit=unit):
                key.holds[unit].claimed, key.holds[unit].polls = True, []
            case Armed(unit=unit, poll_at=None) if unit in key.holds:
                key.holds[unit].polls = []
            case Polled(unit=unit, fence=fence, polls=polls):
                key.holds[unit].polls.append(self._now_s())
                if not polls:
                    key.holds[unit].polls.clear()
                self._polled.add(fence)
            case Draining(unit=unit, why=why):
                self._may_lose(actor, key, key.holds[unit], event, why)
                key.holds[unit].draining = True
                self._ended.add(key.holds[unit].fence)
            case HoldReleased(unit=unit, why=why) | HoldRevoked(unit=unit, why=why) | PassedOver(unit=unit, why=why):
                hold_to("a hold ends once", unit in key.holds and key.holds[unit].fence == event.fence, event)
                hold_to("a hold ends with a reason", why, event)
                hold_to("while a command lives its hold does not end", not key.holds[unit].launches, event)
                if not key.holds[unit].draining:
                    self._may_lose(actor, key, key.holds[unit], event, why)
                hold = self._end(key, unit)
                if isinstance(event, PassedOver):
                    key.queue[hold.ticket.request_id] = hold.ticket
                    key.absent.add(hold.ticket.request_id)
            case RecoveryRequired(unit=unit, why=why, remains=remains):
                hold_to("a doubt has a reason", why, event)
                key.doubt.add(unit)
                if unit in key.prepared:
                    ticket = key.prepared.pop(unit)
                    key.queue[ticket.request_id] = ticket
                if unit in key.holds:
                    self._end(key, unit)
                if remains is not None and remains.server is not None:
                    key.servers[unit] = remains.server
            case Recovered(unit):
                key.doubt.discard(unit)
            case Defined(definition):
                self._units[actor] = len(definition.units)

    def _in_grace(self, key: Key, unit: str) -> bool:
        clock, until = self._machine.clock, key.grace.get(unit)
        return until is not None and until.boot == clock.boot() and until.mono_ms > clock.mono_ms()

    def _drop(self, key: Key, request_id: str) -> None:
        key.queue.pop(request_id, None)
        key.absent.discard(request_id)
        key.prepared = {unit: ticket for unit, ticket in key.prepared.items() if ticket.request_id != request_id}
        self._over.add(request_id)

    def _end(self, key: Key, unit: str) -> Hold:
        hold = key.holds.pop(unit)
        self._ended.add(hold.fence)
        self._over.add(hold.ticket.request_id)
        return hold

    def _next(self, actor: str, key: Key, unit: str, request_id: str) -> None:
        """Promise 3, and that the unit is nobody's."""
        hold_to("nothing is given that somebody holds", unit not in key.holds and unit not in key.doubt, actor, unit)
        hold_to("a ticket is served from the queue", request_id in key.queue, actor, request_id)
        mine = key.queue[request_id].arrival
        ahead = [t for t in key.queue.values() if t.arrival < mine and t.request_id not in key.absent]
        ahead = [t for t in ahead if not t.together]  # who waits for several may be passed
        hold_to("first come, first served", not ahead, actor, request_id, "passed", ahead)

    def _grant(self, seq: int, actor: str, key: Key, event: HoldGranted) -> None:
        hold_to("a fence is its grant's number and grows", event.fence == seq > self._fence, event)
        self._fence = seq
        unit = event.unit
        if unit in key.prepared:
            ticket = key.prepared.pop(unit)
            hold_to("it is given to whom it was prepared for", ticket.request_id == event.request_id, event)
            hold_to("nothing is given that somebody holds", unit not in key.holds and unit not in key.doubt, event)
        else:
            self._next(actor, key, unit, event.request_id)
            ticket = key.queue.pop(event.request_id)
        key.holds[unit] = Hold(seq, ticket, self._now_s(), claimed=event.claimed)
        self._over.discard(ticket.request_id)
        self._granted[seq] = (event.agent, actor)
        hold_to("live grants never exceed the units", len(key.holds) <= self._units.get(actor, 1), event)
        for old in self._machine.living(actor, unit, "command"):
            hold_to("no command of an old fence lives when it is given on", not old.keeper_lives, event, old)
        if actor == "machine/board":
            made = self._machine.made.get((actor, unit))
            hold_to(
                "GRANTED: prepared and verified in its worktree", made == (ticket.worktree, "verified"), event, made
            )
        if actor in self._servers:
            trees = self._machine.living(actor, unit, "server")
            right = all(each.worktree == ticket.worktree for each in trees) and len(trees) <= 1
            hold_to("GRANTED: the last server is gone and this one runs from its worktree", right, event, trees)
            server = key.servers.get(unit)
            here = server is not None and server.worktree == ticket.worktree and self._machine.trees[server.launch].went
            hold_to("GRANTED: a server was started from that worktree", here, event, server)

    def _may_lose(self, actor: str, key: Key, hold: Hold, event: Any, why: str) -> None:
        """Promise 4."""
        agent, now_s = hold.ticket.agent, self._now_s()
        match event:
            case HoldReleased() if hold.ticket.run:
                right = hold.ticket.process not in self._machine.alive or "command ended" in why
            case HoldReleased():
                right = (agent, actor) in self._truth.released
            case PassedOver():
                right = not hold.claimed and bool(key.queue or hold.ticket.together)
            case _ if "revoked by" in why:
                right = actor in self._truth.revoked
            case _ if "not used within" in why:
                right = hold.ticket.run and not hold.claimed
            case _ if "no answer to" in why:
                right = len(hold.polls) >= 2 and bool(key.queue) and not self._answered(agent, hold.polls[-2], now_s)
            case _:
                right = agent in self._truth.ended
        hold_to("nobody loses a hold without one of the reasons", right, event, hold)
        since_s = hold.polls[-1] if "no answer to" in why else hold.granted_s
        waited_s = {"no answer to": 20, "not used within": 10 if hold.ticket.run else 15}
        due_s = next((s for words, s in waited_s.items() if words in why), 0)
        hold_to("whoever is silent had its whole time, awake", now_s - since_s > due_s - 1.2, event, hold)

    def _answered(self, agent: str, since_s: float, now_s: float) -> bool:
        """The agent was answered well after that, and nothing went wrong at that moment."""
        times = [t for t in self._truth.answered.get(agent, ()) if since_s + 1 < t < now_s - 1]
        return any(all(abs(t - trouble) > 2 for trouble in self._truth.troubles) for t in times)

    # --- said ---------------------------------------------------------------------------------
    def told(self, agent: str, body: dict[str, Any]) -> None:
        """Promise 2: what a client has heard is on disk."""
        fence, request_id = body.get("fence", 0), body.get("request_id", "")
        match body.get("type"):
            case "GRANTED":
                each = body.get("together") or [body]
                right = all(self._granted.get(one["fence"]) == (agent, one["key"]) for one in each)
            case "QUEUED":
                right = self._requested.get(request_id) == agent
            case "RELEASED" if fence:
                right = fence in self._ended
            case "CANCELLED" if request_id:
                right = request_id in self._over
            case "REVOKED" if fence or request_id:
                right = fence in self._ended if fence else request_id in self._over
            case "EXTENDED":
                right = self._granted.get(fence, ("",))[0] == agent
            case "STILL USING?":
                right = fence in self._polled
            case "SENT":
                right = body["id"] in self._letters
            case "ADMITTED":
                right = body["launch"] in self._started
            case "JOINED":
                right = (body["agent"], body["incarnation"]) in self._joined
            case "LEFT" if body["why"] == "left":
                right = body["agent"] in self._left
            case _:
                right = True
        hold_to("on disk before anyone is told", right, agent, body)
