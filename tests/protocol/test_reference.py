"""The machine against a second opinion (`reference.py`). Hypothesis plays both and compares them after every step:
who owns it, who waits in which order and at which position, who hears what directly, and that fences only grow.
"""

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.protocol.reference import Reference

from interlock.protocol import (
    resource_admission,
    resource_handover,
    resource_policy,
    resource_recovery,
    resource_waiting,
)
from interlock.protocol.definition import Definition
from interlock.protocol.identity import Identity
from interlock.protocol.messages import Cancel, Extend, Grant, Handover, Queued, Refused, Release, Request, tag_of
from interlock.protocol.outcome import Now
from interlock.protocol.policy import Policy
from interlock.protocol.resource import decide
from interlock.protocol.resource_commands import (
    Admit,
    AgentGone,
    Define,
    Doubt,
    Govern,
    Heard,
    LaunchGone,
    Mail,
    Recover,
    ResourceCommand,
    Revoke,
    Tick,
)
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_events import Defined
from interlock.protocol.resource_state import Resource, Ticket, Unit, UnitState, position, tickets_of

AGENTS = st.sampled_from(["ann", "bob", "cyd", "dan"])


class LockAgainstReference(RuleBasedStateMachine):
    units = 1
    refusals = frozenset({"NOT_HOLDER", "NOT_QUEUED"})

    def __init__(self) -> None:
        super().__init__()
        names = tuple(str(n) for n in range(self.units))
        self.resource = Resource("machine/r", Definition(units=names), units=tuple(Unit(name) for name in names))
        self.reference = Reference(self.units)
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
            assert answer.code in self.refusals | ({"RESOURCE_BUSY"} if isinstance(body, Handover) else set())

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
        doubtful = {n for n, unit in enumerate(self.resource.units) if unit.state is UnitState.RECOVERY_REQUIRED}
        assert doubtful == self.reference.doubtful
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


class ChangingAgainstReference(LockAgainstReference):
    """What is declared changes, and the database can be lost."""

    @rule(units=st.integers(1, 3))
    def declare(self, units: int) -> None:
        self.reference.declare(units, self.now)
        self.do(Define(Definition(units=tuple(str(n) for n in range(units)))))

    @rule(certain=st.integers(0, 3))
    def the_database_is_lost(self, certain: int) -> None:
        if certain == 0:  # seldom: it ends whatever was interesting
            self.reference.lose()
            self.do(Doubt("the database was lost"))

    @rule()
    def a_person_confirms(self) -> None:
        self.number += 1
        answers = self.do(Recover(f"m{self.number}", "person"))
        assert [word for word, _ in answers] == [self.reference.confirm(self.now)]


class GovernedAgainstReference(PoolAgainstReference):
    """There are policies, a controller, and commands. Who has commands under way neither dies nor is revoked here."""

    refusals = frozenset({"NOT_HOLDER", "NOT_QUEUED", "RESOURCE_BUSY", "SCOPE_DENIED"})

    def __init__(self) -> None:
        super().__init__()
        self.epoch, self.commands = 0, 0
        self.under: dict[str, list[str]] = {}

    @rule(enrolled=st.none() | st.sets(AGENTS, min_size=1).map(sorted), blocked=st.booleans())
    def the_gate_says(self, enrolled: list[str] | None, blocked: bool) -> None:
        blocked = blocked and enrolled is not None
        self.epoch += 1
        self.reference.govern(enrolled, blocked, self.now)
        policy = None if enrolled is None else Policy(self.epoch, "ctl", tuple(enrolled))
        self.do(Govern(policy, self.epoch, ("l9",) if blocked else ()))

    @precondition(lambda self: self.reference.enrolled is not None)
    @rule(blocked=st.booleans())
    def what_blocks_comes_and_goes(self, blocked: bool) -> None:
        self.reference.block(blocked, self.now)
        self.do(Govern(self.resource.policy, self.epoch, ("l9",) if blocked else ()))

    @rule(agent=AGENTS)
    def the_controller_grants(self, agent: str) -> None:
        self.number += 1
        ids = [ticket.request_id for ticket in tickets_of(self.resource, agent)]
        grant = Grant(ids[0] if ids else "nobody's", self.epoch)
        answers = self.do(Mail("ctl", 1, f"m{self.number}", grant, "r", may_control=True))
        assert [word for word, _ in answers] == [self.reference.choose(agent, self.now)]

    @rule(agent=AGENTS, what=st.sampled_from(["make", "make", "rm"]))
    def a_command_begins(self, agent: str, what: str) -> None:
        self.number += 1
        fence = next((u.fence for u in self.resource.units if u.ticket is not None and u.ticket.agent == agent), 0)
        launch, keeper = f"l{self.number}", Identity("m", "b", 1, self.number, 1)
        answers = self.do(Admit(agent, f"m{self.number}", fence or 10**9, launch, keeper, what, what))
        assert [word for word, _ in answers] == [self.reference.begin(agent, self.now)]
        if answers[0][0] == "ADMITTED":
            self.under.setdefault(agent, []).append(launch)

    @rule(agent=AGENTS, used=st.booleans())
    def one_is_chosen(self, agent: str, used: bool) -> None:
        """What is interesting about a policy takes a few steps in a row."""
        self.the_gate_says(["ann", "bob", agent], False)
        self.request(agent, None)
        self.the_controller_grants(agent)
        for what in ("make", "rm") if used else ():
            self.a_command_begins(agent, what)

    @rule(agent=AGENTS)
    def a_command_ends(self, agent: str) -> None:
        if self.under.get(agent):
            self.do(LaunchGone(self.under[agent].pop(), True, 0))
            self.reference.end(agent, self.now)

    @rule(agent=AGENTS)
    def die(self, agent: str) -> None:
        if not self.under.get(agent):
            super().die(agent)

    @rule(agent=AGENTS)
    def a_person_revokes(self, agent: str) -> None:
        if not self.under.get(agent):
            super().a_person_revokes(agent)


TestLock = LockAgainstReference.TestCase
TestGoverned = GovernedAgainstReference.TestCase
TestGoverned.settings = settings(max_examples=45, stateful_step_count=50)
TestPool = PoolAgainstReference.TestCase
TestChanging = ChangingAgainstReference.TestCase
TestLock.settings = settings(max_examples=45, stateful_step_count=50)
TestPool.settings = settings(max_examples=45, stateful_step_count=50)
TestChanging.settings = settings(max_examples=45, stateful_step_count=50)


def test_a_refused_cancel_is_an_answer_to_a_poll_and_the_next_one_comes_in_its_time() -> None:
    both = PoolAgainstReference()
    both.one_sleeps_through_its_grants("ann", 1)
    both.cancel("ann")
    both.the_deadline_comes(0)
    both.one_sleeps_through_its_grants("ann", 3)
    both.both_agree()


@pytest.mark.parametrize(
    ("declared", "then", "given"), [(2, 1, 0), (3, 2, 1)], ids=["not to be any more", "still to be"]
)
def test_of_a_pool_that_is_to_change_that_very_unit_is_handed_over_or_one_that_will_be(
    declared: int, then: int, given: int
) -> None:
    both = ChangingAgainstReference()
    both.declare(declared)
    both.request("ann", None)
    both.request("bob", None)
    both.declare(then)
    both.release("ann")
    both.handover("bob", "cyd")
    both.both_agree()
    assert both.reference.owner("cyd") is both.reference.owners[given]


# --- the second opinion is a real one -----------------------------------------------------------
def redefine_under_a_holder(draft: Draft) -> None:
    if draft.state.next_definition is not None:
        draft.event(Defined(draft.state.next_definition))


def give_what_is_in_doubt(draft: Draft, ticket: Ticket) -> Unit | None:
    return next((unit for unit in draft.state.units if unit.ticket is None), None)


FAULTS = [
    ("overtake", resource_handover, "first_grantable", lambda state: next(reversed([*state.queue.values()]), None)),
    ("grant the absent", resource_handover, "first_grantable", lambda state: next(iter(state.queue.values()), None)),
    ("take after one poll", resource_waiting, "POLLS_UNANSWERED_MAX", 1),
    ("count in the declared time", resource_waiting, "_counts", lambda draft, unit: True),
    ("take after sleeping", resource_waiting, "LATE_MS", 10**9),
    ("cancel after two misses", resource_waiting, "CLAIMS_MISSED_MAX", 2),
    ("let the absent stand for ever", resource_waiting, "_look_at_absent", lambda draft: None),
]
OF_CHANGES = [
    ("redefine under a holder", resource_handover, "redefine", redefine_under_a_holder),
    ("redefine never", resource_handover, "redefine", lambda draft: None),
    ("give what is in doubt", resource_handover, "free_unit_for", give_what_is_in_doubt),
    ("end no place with the database", resource_recovery, "cancel_ticket", lambda draft, ticket, why: None),
]


OF_POLICIES = [
    ("serve without the controller", resource_handover, "serves_itself", lambda state: True),
    ("keep what is stale", resource_policy, "_end_unused", lambda draft, unit, why: None),
    ("keep the places of others", resource_policy, "_end_place", lambda draft, ticket, why: None),
    ("begin anything", resource_admission, "_is_not_for_it", lambda draft, unit, digest: None),
    ("reserve for ever", Unit, "is_reservation", lambda unit: False),
]
ROWS = [
    *((LockAgainstReference, *row) for row in FAULTS),
    *((ChangingAgainstReference, *row) for row in OF_CHANGES),
    *((GovernedAgainstReference, *row) for row in OF_POLICIES),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("played", "module", "name", "fault"), [(row[0], *row[2:]) for row in ROWS], ids=[row[1] for row in ROWS]
)
def test_the_reference_sees_a_fault(
    monkeypatch: pytest.MonkeyPatch, played: type[RuleBasedStateMachine], module: object, name: str, fault: object
) -> None:
    monkeypatch.setattr(module, name, fault)
    # The same examples each time: which faults are found is a fact about this file, and not a matter of luck.
    often = settings(
        max_examples=3_000, stateful_step_count=50, database=None, phases=[Phase.generate], derandomize=True
    )
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(played, settings=often)
