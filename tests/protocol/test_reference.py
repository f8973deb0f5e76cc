"""A second opinion on locks: a naive model of the contract's sentences, written apart from the machine.

It knows lists and loops and no word of the machine's code. Hypothesis plays both and compares them after every step:
who owns it, who waits in which order and at which position, who hears what directly, and that fences only grow.
"""

from dataclasses import dataclass

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from interlock.protocol import resource_handover, resource_waiting
from interlock.protocol.definition import Definition
from interlock.protocol.messages import Cancel, Extend, Handover, Queued, Refused, Release, Request, tag_of
from interlock.protocol.outcome import Now
from interlock.protocol.resource import decide
from interlock.protocol.resource_commands import AgentGone, Heard, Mail, ResourceCommand, Revoke, Tick
from interlock.protocol.resource_state import Resource, Unit, UnitState, position

POLL, CLAIM, TIME_MAX, LATE = 180_000, 120_000, 1_800_000, 1_000
AGENTS = st.sampled_from(["ann", "bob", "cyd", "dan"])


@dataclass(eq=False)
class Place:
    agent: str
    arrival: int
    declared: int | None = None
    absent: bool = False
    silent_since: int = 0
    missed: int = 0


@dataclass(eq=False)
class Owner:
    place: Place
    noticed: bool
    respected_until: int
    claim_due: int | None = None
    poll_due: int | None = None
    silent_polls: int = 0


class Reference:
    """The contract, read aloud."""

    def __init__(self, units: int) -> None:
        self.owners: list[Owner | None] = [None] * units
        self.line: list[Place] = []
        self.arrivals = 0
        self.look_due: int | None = None
        self.last_look = 0

    def owner(self, agent: str) -> Owner | None:
        for owner in self.owners:
            if owner is not None and owner.place.agent == agent:
                return owner
        return None

    def place(self, agent: str) -> Place | None:
        for place in self.line:
            if place.agent == agent:
                return place
        return None

    def request(self, agent: str, time: int | None, now: int) -> str:
        self.heard(agent)
        owner, place = self.owner(agent), self.place(agent)
        if owner is not None:
            if time is not None:
                owner.respected_until = now + min(time, TIME_MAX)
            self.serve(now)
            return "GRANTED"
        if place is None:
            self.arrivals += 1
            self.line.append(Place(agent, self.arrivals, time))
        elif time is not None:
            place.declared = time
        self.serve(now, asking=agent)
        return "GRANTED" if self.owner(agent) is not None else "QUEUED"

    def release(self, agent: str, now: int) -> str:
        owner = self.owner(agent)
        if owner is not None:
            self.owners[self.owners.index(owner)] = None
            self.serve(now)
            return "RELEASED"
        return "CANCELLED" if self.leave(agent, now) else "REFUSED"

    def handover(self, agent: str, heir: str, now: int) -> str:
        owner = self.owner(agent)
        there = [place for place in self.line if not place.absent]
        if owner is None or self.owner(heir) is not None or (there and there[0].agent != heir):
            return "REFUSED"
        if not there:
            if self.place(heir) is not None:
                return "REFUSED"
            self.arrivals += 1
            self.line.append(Place(heir, self.arrivals))
        given = self.owners.index(owner)
        self.owners[given] = None
        self.serve(now, given=given if not there else None)
        return "RELEASED"

    def cancel(self, agent: str, now: int) -> str:
        return "CANCELLED" if self.leave(agent, now) else "REFUSED"

    def leave(self, agent: str, now: int) -> bool:
        place = self.place(agent)
        if place is not None:
            self.line.remove(place)
        self.serve(now)
        return place is not None

    def extend(self, agent: str, time: int | None, now: int) -> str:
        owner = self.owner(agent)
        if owner is None:
            return "REFUSED"
        self.heard(agent)
        if time is not None:
            owner.respected_until = now + min(time, TIME_MAX)
        self.serve(now)
        return "EXTENDED"

    def gone(self, agent: str, now: int) -> None:
        owner = self.owner(agent)
        if owner is not None:
            self.owners[self.owners.index(owner)] = None
        self.leave(agent, now)

    def revoke(self, agent: str, now: int) -> str:
        """A person takes it from one owner; a lock is passed on at once."""
        owner = self.owner(agent)
        if owner is None:
            return "REFUSED"
        self.owners[self.owners.index(owner)] = None
        self.serve(now)
        return "REVOKED"

    def heard(self, agent: str) -> None:
        owner, place = self.owner(agent), self.place(agent)
        if owner is not None and not owner.noticed:
            owner.noticed, owner.claim_due, owner.place.missed = True, None, 0
        elif owner is not None and owner.poll_due is not None and (owner.silent_polls or owner in self.polled):
            owner.poll_due, owner.silent_polls = None, 0
            self.polled.remove(owner)
        if place is not None:
            place.absent = False

    polled: list[Owner]

    def tick(self, now: int) -> None:
        """The absent are looked at. At most one owner loses it, then whoever is due is asked."""
        if self.look_due is not None and self.look_due <= now:
            if now - self.look_due <= LATE:
                self.line = [place for place in self.line if not place.absent or place.silent_since >= self.last_look]
                self.last_look = now
            self.look_due = now + TIME_MAX
            self.serve(now)
        for number, owner in enumerate(self.owners):
            if owner is None or owner.claim_due is None or owner.claim_due > now:
                continue
            if now - owner.claim_due > LATE:
                owner.claim_due = now + CLAIM
                continue
            self.owners[number] = None
            owner.place.missed += 1
            owner.place.absent, owner.place.silent_since = True, now
            if owner.place.missed < 3:
                self.line.append(owner.place)
                self.line.sort(key=lambda place: place.arrival)
            self.serve(now)
            return
        for number, owner in enumerate(self.owners):
            due = owner is not None and owner.poll_due is not None and owner.poll_due <= now
            if not due or owner is None or owner.poll_due is None or now - owner.poll_due > LATE:
                continue
            if owner.silent_polls == 2 and owner.respected_until <= now:
                self.owners[number] = None
                self.serve(now)
                return
        for owner in self.owners:
            if owner is None or owner.poll_due is None or owner.poll_due > now:
                continue
            if now - owner.poll_due <= LATE:
                owner.silent_polls = owner.silent_polls + 1 if owner.respected_until <= now else 0
                if owner not in self.polled:
                    self.polled.append(owner)
            owner.poll_due = now + POLL
        self.serve(now)

    def serve(self, now: int, asking: str = "", given: int | None = None) -> None:
        """Whoever is first and there takes the first free unit, or the one given; who is waited for is asked."""
        while None in self.owners:
            there = [place for place in self.line if not place.absent]
            if not there:
                break
            first = there[0]
            self.line.remove(first)
            until = 0 if first.declared is None else now + min(first.declared, TIME_MAX)
            noticed = first.agent == asking
            if noticed:
                first.missed = 0
            unit, given = self.owners.index(None) if given is None else given, None
            self.owners[unit] = Owner(first, noticed, until)
        if not any(place.absent for place in self.line):
            self.look_due = None
        elif self.look_due is None:
            self.look_due, self.last_look = now + TIME_MAX, 0
        waited = any(not place.absent for place in self.line)
        for owner in self.owners:
            if owner is None:
                continue
            if not waited:
                owner.claim_due = owner.poll_due = None
                owner.silent_polls = 0
                if owner in self.polled:
                    self.polled.remove(owner)
            elif owner.noticed:
                owner.poll_due = owner.poll_due or now + POLL
            else:
                owner.claim_due = owner.claim_due or now + CLAIM

    def next_due(self) -> int | None:
        due = [at for owner in self.owners if owner is not None for at in (owner.claim_due, owner.poll_due) if at]
        return min([*due, *([self.look_due] if self.look_due is not None else [])], default=None)


class LockAgainstReference(RuleBasedStateMachine):
    units = 1

    def __init__(self) -> None:
        super().__init__()
        names = tuple(str(n) for n in range(self.units))
        self.resource = Resource("machine/r", Definition(units=names), units=tuple(Unit(name) for name in names))
        self.reference = Reference(self.units)
        self.reference.polled = []
        self.now, self.seq, self.number = 1_000, 1, 0
        self.fences: list[int] = []
        self.incarnations: dict[str, int] = {}

    def do(self, command: ResourceCommand) -> list[tuple[str, object]]:
        outcome = decide(self.resource, command, Now(10**12 + self.now, "b", self.now, self.seq))
        self.resource = outcome.state
        self.seq += len(outcome.events)
        self.fences += [getattr(e, "fence", 0) for e in outcome.events if e.__struct_config__.tag == "granted"]
        return [(tag_of(send.body), send.body) for send in outcome.outbox if send.reply_to]

    def say(self, agent: str, body: Request | Release | Extend | Cancel | Handover, expected: str) -> None:
        self.number += 1
        incarnation = self.incarnations.get(agent, 1)
        heir = self.incarnations.get(body.agent, 1) if isinstance(body, Handover) else 0
        answers = self.do(Mail(agent, incarnation, f"m{self.number}", body, "r", heir=heir))
        assert [word for word, _ in answers] == [expected]
        answer = answers[0][1]
        if isinstance(answer, Queued):
            line = [place.agent for place in self.reference.line]
            assert answer.position == line.index(agent) + 1
        if isinstance(answer, Refused):
            assert answer.code in {"NOT_HOLDER", "NOT_QUEUED"} | (
                {"RESOURCE_BUSY"} if isinstance(body, Handover) else set()
            )

    @rule(agent=AGENTS, time=st.none() | st.sampled_from([60_000, 200_000, 900_000, 7_200_000]))
    def request(self, agent: str, time: int | None) -> None:
        self.say(agent, Request("r", time_ms=time), self.reference.request(agent, time, self.now))

    @rule(agent=AGENTS)
    def release(self, agent: str) -> None:
        self.say(agent, Release("r"), self.reference.release(agent, self.now))

    @rule(agent=AGENTS, heir=AGENTS)
    def handover(self, agent: str, heir: str) -> None:
        self.say(agent, Handover("r", heir), self.reference.handover(agent, heir, self.now))

    @rule(agent=AGENTS)
    def cancel(self, agent: str) -> None:
        self.say(agent, Cancel("r"), self.reference.cancel(agent, self.now))

    @rule(agent=AGENTS, time=st.none() | st.sampled_from([60_000, 400_000]))
    def extend(self, agent: str, time: int | None) -> None:
        self.say(agent, Extend("r", time_ms=time), self.reference.extend(agent, time, self.now))

    @rule(agent=AGENTS)
    def sign_of_life(self, agent: str) -> None:
        self.reference.heard(agent)
        self.reference.serve(self.now)
        self.do(Heard(agent))

    @rule(agent=AGENTS)
    def a_person_revokes(self, agent: str) -> None:
        self.number += 1
        answers = self.do(Revoke(f"m{self.number}", "person", "mine", holder=agent))
        assert [word for word, _ in answers] == [self.reference.revoke(agent, self.now)]

    @rule(agent=AGENTS)
    def die(self, agent: str) -> None:
        incarnation = self.incarnations.get(agent, 1)
        self.incarnations[agent] = incarnation + 1
        self.reference.gone(agent, self.now)
        self.do(AgentGone(agent, incarnation, "gone"))

    @rule(ms=st.sampled_from([1, 500, 30_000, 90_000]))
    def time_passes(self, ms: int) -> None:
        due = self.reference.next_due()
        self.now += ms if due is None else max(0, min(ms, due - self.now - 1))

    @precondition(lambda self: self.reference.next_due() is not None)
    @rule(late=st.sampled_from([0, 0, 0, 0, 3, 1_000, 1_001, 60_000]))
    def the_deadline_comes(self, late: int) -> None:
        self.now = max(self.now, (self.reference.next_due() or 0) + late)
        self.reference.tick(self.now)
        self.do(Tick())

    @rule(sleeper=AGENTS, times=st.integers(1, 4))
    def one_sleeps_through_its_grants(self, sleeper: str, times: int) -> None:
        """It is heard of only where it stands in the queue, never once it is granted."""
        others = [agent for agent in ("ann", "bob", "cyd", "dan") if agent != sleeper]
        for _ in range(times):
            if self.reference.owner(sleeper) is None:
                self.request(sleeper, None)
            for agent in others:
                self.request(agent, None)
            for agent in others:
                if self.reference.owner(agent) is not None and self.reference.owner(sleeper) is None:
                    self.release(agent)
            if self.reference.next_due() is not None:
                self.the_deadline_comes(0)

    @rule()
    def a_tick_too_early(self) -> None:
        due = self.reference.next_due()
        if due is None or due > self.now:
            self.do(Tick())

    @invariant()
    def both_agree(self) -> None:
        owners = [unit.ticket.agent if unit.ticket is not None else None for unit in self.resource.units]
        assert owners == [owner.place.agent if owner is not None else None for owner in self.reference.owners]
        queue = [(ticket.agent, ticket.absent) for ticket in self.resource.queue.values()]
        assert queue == [(place.agent, place.absent) for place in self.reference.line]
        places = [position(self.resource, request_id) for request_id in self.resource.queue]
        assert places == list(range(1, len(places) + 1))
        held = [unit for unit in self.resource.units if unit.state is UnitState.HELD]
        assert len(held) == len([owner for owner in owners if owner is not None])
        assert self.fences == sorted(set(self.fences))
        assert {unit.fence for unit in held} <= set(self.fences)


class PoolAgainstReference(LockAgainstReference):
    units = 2


TestLock = LockAgainstReference.TestCase
TestPool = PoolAgainstReference.TestCase
TestLock.settings = settings(max_examples=60, stateful_step_count=50)
TestPool.settings = settings(max_examples=60, stateful_step_count=50)


# --- the second opinion is a real one -----------------------------------------------------------
FAULTS = [
    ("overtake", resource_handover, "first_grantable", lambda state: next(reversed([*state.queue.values()]), None)),
    ("grant the absent", resource_handover, "first_grantable", lambda state: next(iter(state.queue.values()), None)),
    ("take after one poll", resource_waiting, "POLLS_UNANSWERED_MAX", 1),
    ("count in the declared time", resource_waiting, "_counts", lambda draft, unit: True),
    ("take after sleeping", resource_waiting, "LATE_MS", 10**9),
    ("cancel after two misses", resource_waiting, "CLAIMS_MISSED_MAX", 2),
    ("let the absent stand for ever", resource_waiting, "_look_at_absent", lambda draft: None),
]


@pytest.mark.parametrize(("module", "name", "fault"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_the_reference_sees_a_fault(monkeypatch: pytest.MonkeyPatch, module: object, name: str, fault: object) -> None:
    monkeypatch.setattr(module, name, fault)
    # The same examples each time: which faults are found is a fact about this file, and not a matter of luck.
    often = settings(
        max_examples=3_000, stateful_step_count=50, database=None, phases=[Phase.generate], derandomize=True
    )
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(LockAgainstReference, settings=often)
