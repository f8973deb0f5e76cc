"""The gate, command by command: a row is given, when, then, and what its sender hears. Then the rules, over any story."""

# ruff: noqa: E501 - a table is read across, one row a rule

import msgspec
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from interlock.protocol import gate as gates
from interlock.protocol.answers import format_answer
from interlock.protocol.gate import covering, decide, evolve
from interlock.protocol.gate_commands import (
    AdmitCommand,
    ClearPolicy,
    CommandAdmitted,
    CommandBegan,
    CommandDraining,
    CommandFinished,
    CommandGone,
    CommandInDoubt,
    CommandRecovered,
    CommandStarted,
    GateCommand,
    GateEvent,
    LeaderEnded,
    PolicyCleared,
    PolicySet,
    RecoverCommand,
    SetPolicy,
    SyncGate,
)
from interlock.protocol.gate_state import CommandState, Gate, Hold, Managed
from interlock.protocol.identity import Identity
from interlock.protocol.limits import PARTICIPANTS_MAX
from interlock.protocol.messages import PolicyIs, Refused
from interlock.protocol.outcome import Now, fold
from interlock.protocol.plain import from_plain, to_plain
from interlock.protocol.policy import Policy, Profile

NOW = Now(5_000, "boot", 5_000, 1)
KEEPER, LEADER = Identity("machine", "boot", 1, 4121, 77), Identity("machine", "boot", 1, 4122, 78)
A, B = "machine/a", "machine/b"


def policy(epoch: int = 1, participants: str = "ann bob", profile: Profile = Profile.STRICT) -> Policy:
    return Policy(epoch, "boss", tuple(participants.split()), profile)


def blockers_of(state: Gate, key: str) -> tuple[str, ...]:
    """As each command has it on record."""
    return tuple(launch for launch, command in state.commands.items() if key in command.blocks)


def set_policy(
    key: str = A, participants: str = "ann bob", profile: Profile = Profile.STRICT, **more: object
) -> SetPolicy:
    said = {"may_control": True, "controller": "boss", "controller_here": True, **more}
    return SetPolicy("m1", "boss", key=key, participants=tuple(participants.split()), profile=profile, **said)  # type: ignore[arg-type] # by name, as the row says it


def clear(key: str = A, *, may_control: bool = True, epoch: int = 0) -> ClearPolicy:
    return ClearPolicy("m1", "boss", may_control, key, epoch)


def managed(
    launch: str = "l1", agent: str = "ann", *holds: str, recognised: bool = False, also: str = "", **more: object
) -> Managed:
    held = tuple(Hold(key, 7) for key in holds)
    return Managed(launch, agent, KEEPER, "make", "/w", "d1", 0, recognised, tuple(also.split()), held, **more)  # type: ignore[arg-type] # by name, as the row says it


def admit(command: Managed, **epochs: int) -> AdmitCommand:
    return AdmitCommand("m1", command, {f"machine/{name}": epoch for name, epoch in epochs.items()})


def gate(*events: GateEvent) -> Gate:
    return fold(evolve, Gate(), events)


def governed(key: str = A, epoch: int = 1, blockers: str = "", **rest: object) -> PolicySet:
    return PolicySet(key, policy(epoch, **rest), "boss", 1_000, tuple(blockers.split()))  # type: ignore[arg-type] # by name, as the row says it


def on_record(command: Managed) -> CommandAdmitted:
    return CommandAdmitted(command.agent, command)


RUNS = on_record(managed())
BEGAN = CommandStarted("ann", "l1", LEADER, 4122)
DOUBT = CommandInDoubt("ann", "l1", "its keeper died")
CLEARED = PolicyCleared(A, 2, "boss", 1_000)

POLICIES = [
    ("the first policy has epoch 1", (), set_policy(), "PolicySet", "POLICY machine/a epoch 1 - boss grants to ann, bob"),
    ("each change has the next", (governed(),), set_policy(participants="cyd"), "PolicySet", "POLICY machine/a epoch 2 - boss grants to cyd"),
    ("the same policy again too", (governed(),), set_policy(), "PolicySet", "POLICY machine/a epoch 2 - boss grants to ann, bob"),
    ("a number is not used again after a policy was taken away", (governed(), CLEARED), set_policy(), "PolicySet", "POLICY machine/a epoch 3 -"),
    ("each participant counts once", (), set_policy(participants="ann bob ann"), "PolicySet", "grants to ann, bob"),
    ("who may not is refused", (), set_policy(may_control=False), "", "REFUSED CAPABILITY_DENIED boss may not set policies"),
    ("a controller that is not here is none", (), set_policy(controller_here=False), "", "REFUSED CONTROLLER_UNAVAILABLE the controller boss is not here"),
    ("the sender knows an older policy", (governed(epoch=3),), set_policy(epoch=2), "", "REFUSED STALE_POLICY machine/a is at epoch 3 now, not 2"),
    ("the sender knows the present one", (governed(epoch=3),), set_policy(epoch=3), "PolicySet", "epoch 4"),
    ("what never had a policy is at epoch 1", (), set_policy(epoch=1), "PolicySet", "epoch 1"),
    ("nobody is named", (), set_policy(participants=""), "", "REFUSED BAD_MESSAGE a policy without participants"),
    ("more are named than there can be", (), set_policy(participants=" ".join(f"a{n}" for n in range(257))), "", "REFUSED BAD_MESSAGE 257 participants are named, at most 256"),
    ("a participant is no name", (), set_policy(participants="ann a/b"), "", "REFUSED BAD_MESSAGE 'a/b' is no agent name"),
    ("the controller is no name", (), set_policy(controller="--"), "", "REFUSED BAD_MESSAGE '--' is no agent name"),
    ("a policy is taken away", (governed(),), clear(), "PolicyCleared", "POLICY machine/a epoch 2 - none any more"),
    ("there is none to take away", (), clear(), "", "REFUSED TARGET_ENDED machine/a has no policy"),
    ("who may not does not take it away", (governed(),), clear(may_control=False), "", "REFUSED CAPABILITY_DENIED"),
    ("… nor who knows an older one", (governed(epoch=3),), clear(epoch=2), "", "REFUSED STALE_POLICY"),
    ("what runs already is adopted", (RUNS,), set_policy(), "PolicySet", "1 of their commands run without it"),
    ("… not what holds the resource", (on_record(managed("l1", "ann", A)),), set_policy(), "PolicySet", "ann, bob"),
    ("… not another's", (on_record(managed(agent="eve")),), set_policy(), "PolicySet", "ann, bob"),
    ("… but one that counts as a participant", (on_record(managed(agent="eve", also="bob")),), set_policy(), "PolicySet", "1 of their commands"),
    ("… of a build policy only build tools", (RUNS,), set_policy(profile=Profile.BUILD), "PolicySet", "ann, bob"),
    ("… and those", (on_record(managed(recognised=True)),), set_policy(profile=Profile.BUILD), "PolicySet", "1 of their commands"),
    ("… what is in doubt too", (RUNS, DOUBT), set_policy(), "PolicySet", "1 of their commands"),
]  # fmt: skip

LEDGER = [
    ("without a policy everything is admitted", (), admit(managed()), "CommandAdmitted", "ADMITTED"),
    ("who holds what covers it is admitted", (governed(),), admit(managed("l1", "ann", A), a=1), "CommandAdmitted", "ADMITTED machine/a (fence 7)"),
    ("who does not is refused, and hears which", (governed(),), admit(managed()), "", "REFUSED STALE_POLICY the policy of machine/a is at epoch 1 now"),
    ("who holds it but was not told of the policy", (governed(),), admit(managed("l1", "ann", A)), "", "REFUSED STALE_POLICY"),
    ("… or of an older one", (governed(epoch=2),), admit(managed("l1", "ann", A), a=1), "", "REFUSED STALE_POLICY"),
    ("… or holds another", (governed(), governed(B)), admit(managed("l1", "ann", A), a=1, b=1), "", "REFUSED STALE_POLICY the policy of machine/b"),
    ("a policy that does not cover it does not matter", (governed(participants="eve"),), admit(managed()), "CommandAdmitted", "ADMITTED"),
    ("one that counts as a participant is covered", (governed(),), admit(managed(agent="kid", also="ann")), "", "REFUSED STALE_POLICY"),
    ("a build policy covers build tools", (governed(profile=Profile.BUILD),), admit(managed(recognised=True)), "", "REFUSED STALE_POLICY"),
    ("… and nothing else", (governed(profile=Profile.BUILD),), admit(managed()), "CommandAdmitted", "ADMITTED"),
    ("a policy that is gone asks for nothing", (governed(), CLEARED), admit(managed("l1", "ann", A), a=1), "CommandAdmitted", "ADMITTED"),
    ("the same launch again is the same answer", (RUNS,), admit(managed()), "", "ADMITTED"),
    ("… whatever the policy has become", (RUNS, governed()), admit(managed()), "", "ADMITTED"),
    ("another command under its name is none", (RUNS,), admit(managed(agent="eve")), "", "REFUSED ID_CONFLICT"),
    ("it was executed", (RUNS,), CommandBegan("l1", LEADER, 4122), "CommandStarted", ""),
    ("… which is said again", (RUNS, BEGAN), CommandBegan("l1", LEADER, 4122), "", ""),
    ("its first process has ended", (RUNS, BEGAN), LeaderEnded("l1"), "CommandDraining", ""),
    ("… before anybody said that it was executed", (RUNS,), LeaderEnded("l1"), "CommandDraining", ""),
    ("… and again", (RUNS, CommandDraining("ann", "l1")), LeaderEnded("l1"), "", ""),
    ("its tree is gone", (RUNS, BEGAN), CommandGone("l1", True, 3), "CommandFinished", ""),
    ("its keeper is gone without a word", (RUNS, BEGAN), CommandGone("l1", False, None, "lost"), "CommandInDoubt", ""),
    ("… and again", (RUNS, DOUBT), CommandGone("l1", False, None, "lost"), "", ""),
    ("… and then it is proved", (RUNS, DOUBT), CommandGone("l1", True), "CommandFinished", ""),
    ("what is in doubt does not begin", (RUNS, DOUBT), CommandBegan("l1", LEADER, 1), "", ""),
    ("nor drain", (RUNS, DOUBT), LeaderEnded("l1"), "", ""),
    ("of an unknown launch nothing is believed: that it began", (), CommandBegan("l9", LEADER, 1), "", ""),
    ("… that its leader ended", (), LeaderEnded("l9"), "", ""),
    ("… that it is gone", (), CommandGone("l9", True), "", ""),
    ("a person confirms what is in doubt", (RUNS, DOUBT), RecoverCommand("m1", "person", "l1"), "CommandRecovered", "RECOVERED l1 - make of ann is struck off"),
    ("… and nothing that is not", (RUNS,), RecoverCommand("m1", "person", "l1"), "", "REFUSED RESOURCE_BUSY make (l1) is admitted"),
    ("… nor what is over", (), RecoverCommand("m1", "person", "l1"), "", "REFUSED TARGET_ENDED no command l1"),
    ("who waits for all of this is answered", (RUNS,), SyncGate("m1", "ann"), "", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "when", "then", "says"), [row[1:] for row in POLICIES + LEDGER], ids=[row[0] for row in POLICIES + LEDGER]
)
def test_each_command_has_its_event_and_its_answer(
    given: tuple[GateEvent, ...], when: GateCommand, then: str, says: str
) -> None:
    before = gate(*given)
    outcome = decide(before, when, NOW)
    assert [type(event).__name__ for event in outcome.events] == ([then] if then else [])
    assert says in "".join(format_answer(send.body) for send in outcome.outbox)
    assert all(send.reply_to == "m1" for send in outcome.outbox)
    assert outcome.state == fold(evolve, before, outcome.events)


def test_more_policies_and_more_commands_than_there_can_be_are_refused_with_both_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gates, "POLICIES_MAX", 1)
    monkeypatch.setattr(gates, "COMMANDS_MAX", 1)
    monkeypatch.setattr(gates, "RESOURCES_LIVE_MAX", 1)
    full = gate(RUNS, governed())
    once = gate(RUNS, governed(), CLEARED)
    for command, state, why in (
        (set_policy(B), full, "1 policies are set, at most 1"),
        (set_policy(B), once, "1 resources have had a policy, at most 1"),
        (admit(managed("l2", "eve")), full, "1 commands run under the bus, at most 1"),
    ):
        (send,) = decide(state, command, NOW).outbox
        assert isinstance(send.body, Refused)
        assert (send.body.code, why in send.body.why) == ("QUEUE_FULL", True)
    assert isinstance(decide(full, set_policy(), NOW).outbox[0].body, PolicyIs)


def test_as_many_participants_as_there_can_be_are_taken() -> None:
    names = " ".join(f"a{n}" for n in range(PARTICIPANTS_MAX))
    assert decide(Gate(), set_policy(participants=names), NOW).events


def test_a_command_has_what_was_reported_of_it_and_keeps_its_place() -> None:
    known = gate(RUNS, on_record(managed("l2")), BEGAN).commands
    assert list(known) == ["l1", "l2"]
    assert (known["l1"].state, known["l1"].leader, known["l1"].group) == (CommandState.STARTED, LEADER, 4122)
    admitted = decide(Gate(), admit(managed(state=CommandState.DRAINING, blocks=(B,))), NOW).state.commands["l1"]
    assert (admitted.state, admitted.blocks, admitted.since_ms) == (CommandState.ADMITTED, (), 5_000)


def test_a_blocker_is_one_until_it_ends_or_the_policy_does_not_cover_it_any_more() -> None:
    blocked = decide(gate(RUNS), set_policy(), NOW).state
    assert blockers_of(blocked, A) == ("l1",)
    for end in (CommandGone("l1", True), set_policy(participants="eve"), clear()):
        assert blockers_of(decide(blocked, end, NOW).state, A) == ()
    assert blockers_of(decide(blocked, CommandGone("l1", False), NOW).state, A) == ("l1",)


def test_a_gate_is_the_same_after_it_was_written_down() -> None:
    state = gate(RUNS, governed(blockers="l1"), governed(B, 2), PolicyCleared(B, 3, "boss", 1), BEGAN)
    written = msgspec.json.encode(state, enc_hook=to_plain)
    assert msgspec.json.decode(written, type=Gate, dec_hook=from_plain) == state


# --- the rules, over any story ------------------------------------------------------------------
AGENTS = st.sampled_from(["ann", "bob", "cyd"])
KEYS = st.sampled_from([A, B, "machine/c"])
LAUNCHES = st.sampled_from(["l1", "l2", "l3", "l4"])
SOME_AGENTS = st.lists(AGENTS, max_size=2).map(tuple)


class Ledger(RuleBasedStateMachine):
    """Any commands in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def tell(self, command: GateCommand) -> tuple[GateEvent, ...]:
        before, outcome = self.gate, decide(self.gate, command, NOW)
        self.gate = outcome.state
        assert fold(evolve, before, outcome.events) == self.gate
        for key, epoch in before.epochs.items():
            assert self.gate.epochs[key] >= epoch, "an epoch only grows"
        return outcome.events

    @rule(
        key=KEYS, participants=SOME_AGENTS, profile=st.sampled_from(Profile), may=st.booleans(), epoch=st.integers(0, 3)
    )
    def sets(self, key: str, participants: tuple[str, ...], profile: Profile, may: bool, epoch: int) -> None:
        before = self.gate.epochs.get(key, 0)
        command = SetPolicy("m", "boss", may, key, "boss", True, participants, profile, epoch)
        if self.tell(command):
            assert may
            assert self.gate.policies[key].epoch == before + 1

    @rule(key=KEYS)
    def clears(self, key: str) -> None:
        before = self.gate.epochs.get(key, 0)
        if self.tell(clear(key)):
            assert self.gate.epochs[key] == before + 1

    @rule(
        launch=LAUNCHES, agent=AGENTS, also=SOME_AGENTS, keys=st.lists(KEYS, max_size=2, unique=True),
        recognised=st.booleans(), told=st.booleans(),
    )  # fmt: skip
    def admits(
        self, launch: str, agent: str, also: tuple[str, ...], keys: list[str], recognised: bool, told: bool
    ) -> None:
        command = managed(launch, agent, *keys, recognised=recognised, also=" ".join(also))
        epochs = {key: self.gate.epochs.get(key, 0) - (not told) for key in keys}
        before = self.gate
        if self.tell(AdmitCommand("m", command, epochs)):
            for key, each in covering(before, agent, also, recognised):
                assert key in keys, "no command is admitted without what covers it"
                assert epochs[key] == each.epoch
            assert self.gate.commands[launch].blocks == ()

    @rule(launch=LAUNCHES, proved=st.booleans())
    def ends(self, launch: str, proved: bool) -> None:
        self.tell(CommandGone(launch, proved))

    @rule(launch=LAUNCHES, what=st.sampled_from(["began", "drains", "recovered"]))
    def goes_on(self, launch: str, what: str) -> None:
        doubtful = launch in self.gate.commands and self.gate.commands[launch].state is CommandState.RECOVERY_REQUIRED
        if what == "began":
            self.tell(CommandBegan(launch, LEADER, 1))
        elif what == "drains":
            self.tell(LeaderEnded(launch))
        else:
            events = self.tell(RecoverCommand("m", "person", launch))
            assert bool(events) is doubtful, "a person's word strikes off what is in doubt, and nothing else"

    @invariant()
    def blockers_are_the_live_covered_commands_without_the_hold(self) -> None:
        for key in ("machine/a", "machine/b", "machine/c"):
            each = self.gate.policies.get(key)
            expected = [
                launch
                for launch, command in self.gate.commands.items()
                if each is not None
                and command.is_of(each.participants)
                and each.profile.takes(command.recognised)
                and key not in {hold.key for hold in command.holds}
            ]
            assert list(blockers_of(self.gate, key)) == expected


def test_whatever_is_said_the_ledger_and_the_policies_agree() -> None:
    run_state_machine_as_test(Ledger, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))


def _blocks_nobody(state: Gate, key: str, blockers: frozenset[str]) -> Gate:
    return state


def _covers_nobody(*_: object) -> list[tuple[str, Policy]]:
    return []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "planted"), [("_block", _blocks_nobody), ("covering", _covers_nobody)])
def test_the_rules_notice_a_planted_fault(monkeypatch: pytest.MonkeyPatch, name: str, planted: object) -> None:
    monkeypatch.setattr(gates, name, planted)
    at_once = settings(
        max_examples=1_000,
        stateful_step_count=30,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        derandomize=True,
        database=None,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Ledger, settings=at_once)


def test_the_tables_show_every_event() -> None:
    shown = {row[3] for row in POLICIES + LEDGER} - {""}
    assert shown == {
        each.__name__
        for each in (
            PolicySet, PolicyCleared, CommandAdmitted, CommandStarted, CommandDraining, CommandFinished, CommandInDoubt,
            CommandRecovered,
        )
    }  # fmt: skip
