"""The task machine: three records that stay apart, one assignment that nobody widens, and an end that is final."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.claim import Claim
from interlock.protocol.limits import JUDGEMENTS_KEPT, LAUNCHES_OF_TASK_KEPT, RESERVATIONS_OF_TASK_KEPT
from interlock.protocol.messages import Refused
from interlock.protocol.outcome import Now, fold
from interlock.protocol.task import decide, differences
from interlock.protocol.task_commands import (
    Assign,
    Begin,
    GiveBack,
    HandIn,
    Judge,
    LaunchFor,
    Read,
    Reserve,
    TaskCommand,
    TaskEvent,
    Withdraw,
)
from interlock.protocol.task_evolve import evolve
from interlock.protocol.task_messages import Assigned, TaskIs
from interlock.protocol.task_scope import is_outside, why_not_claims, why_not_for, why_not_resource
from interlock.protocol.task_state import (
    OVER,
    Assignment,
    FileFact,
    Report,
    Reservation,
    Task,
    TaskLaunch,
    TaskState,
    roles_shared,
)

ASSIGNMENT = Assignment(
    "lead", "ann", "correct headings", "territory/r", (Claim("report.md"), Claim("tests/report")), ("machine/gpu",),
    acceptance="headings are right",
)  # fmt: skip
FILE = FileFact("report.md", "a" * 64, 10)
REPORT = Report(0, "", 0, "/w", (FILE,))


class Played:
    """One task, told one thing after the other; every state is also that of its events, replayed."""

    def __init__(self, *commands: TaskCommand) -> None:
        self.task = Task("task/T-1")
        self.events: list[TaskEvent] = []
        self.letters: list[tuple[str, Any]] = []
        self.moment = 0
        for command in commands:
            self.answer(command)

    def answer(self, command: TaskCommand) -> Any:
        """The direct answer; None where there is none."""
        self.moment += 1
        outcome = decide(self.task, command, Now(self.moment, "boot", self.moment, len(self.events) + 1))
        self.task = outcome.state
        self.events += outcome.events
        assert fold(evolve, Task("task/T-1"), self.events) == self.task
        self.letters += [(send.to, send.body) for send in outcome.outbox if not send.reply_to]
        answers = [send.body for send in outcome.outbox if send.reply_to]
        assert len(answers) == (1 if hasattr(command, "id") else 0)
        return answers[0] if answers else None

    def refusal(self, command: TaskCommand) -> str:
        """The code of a refusal, which has changed nothing."""
        before = self.task
        answer = self.answer(command)
        assert isinstance(answer, Refused), answer
        assert self.task == before
        return answer.code


def assigned(**changed: Any) -> Assign:
    said = {**{name: getattr(ASSIGNMENT, name) for name in Assignment.__struct_fields__}, **changed}
    return Assign("lead", "m1", Assignment(**said))


def accept(agent: str = "cyd", now: tuple[FileFact, ...] = (FILE,), report: int = 1, **more: Any) -> Judge:
    return Judge(agent, "m9", True, report=report, now=now, **more)


def held(fence: int = 7, agent: str = "ann") -> Reserve:
    return Reserve(Reservation(fence, "machine/gpu", agent, "gpu", 0))


def test_from_assignment_to_acceptance() -> None:
    played = Played()
    assert played.answer(assigned()) == TaskIs("T-1", "assigned", "lead")
    [(to, letter)] = played.letters
    assert (to, letter.changes, letter.acceptance) == ("ann", ("report.md", "tests/report"), "headings are right")
    played.answer(Read("ann"))
    assert played.task.state is TaskState.READ
    played.answer(held())
    assert (played.task.state, played.task.began_ms) == (TaskState.WORKING, 3)
    played.answer(GiveBack(7, "released"))
    assert played.answer(HandIn("ann", "m2", REPORT)).state == "reported"
    assert played.letters[-1] == ("lead", TaskIs("T-1", "reported", "ann"))
    assert played.answer(accept(because="as asked")) == TaskIs("T-1", "accepted", "cyd", "as asked")
    [judgement] = played.task.judgements
    assert (judgement.by, judgement.criterion, judgement.report) == ("cyd", "headings are right", 1)
    assert [to for to, body in played.letters if isinstance(body, TaskIs) and body.state == "accepted"] == [
        "ann",
        "lead",
    ]


def test_reading_says_that_it_was_read_and_nothing_else() -> None:
    played = Played(assigned())
    before = played.task
    played.answer(Read("bob"))  # it was not sent to him
    assert played.task == before
    played.answer(Read("ann"))
    played.answer(Read("ann"))
    assert (played.task.state, played.task.read_ms, played.task.began_ms) == (TaskState.READ, 3, 0)
    assert played.refusal(accept()) == "RESOURCE_BUSY"


def test_nobody_widens_an_assignment() -> None:
    played = Played(assigned())
    wider = Assign("bob", "m2", Assignment("bob", "ann", "more", "territory/r", (Claim("**"),)))
    assert played.refusal(wider) == "ID_CONFLICT"
    assert played.refusal(assigned(changes=(Claim("**"),))) == "ID_CONFLICT"
    assert played.answer(assigned(at_ms=99)).state == "assigned"  # the very same once more is no conflict
    assert len([body for _, body in played.letters if isinstance(body, Assigned)]) == 1


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (Begin("bob", "m2"), "SCOPE_DENIED"),
        (HandIn("bob", "m2", REPORT), "SCOPE_DENIED"),
        (HandIn("lead", "m2", REPORT), "SCOPE_DENIED"),
        (Withdraw("ann", "m2", "I am done"), "SCOPE_DENIED"),
        (Withdraw("lead", "m2", " "), "BAD_MESSAGE"),
        (accept(), "RESOURCE_BUSY"),
        (Judge("cyd", "m2", False, "no"), "RESOURCE_BUSY"),
    ],
)
def test_who_may_not_is_told_why(command: TaskCommand, code: str) -> None:
    assert Played(assigned()).refusal(command) == code


def test_a_task_that_nobody_assigned_is_none() -> None:
    played = Played()
    for command in (Begin("ann", "m2"), HandIn("ann", "m2", REPORT), accept(), Withdraw("lead", "m2", "x")):
        assert played.refusal(command) == "TARGET_ENDED"
    for word in (Read("ann"), held(), GiveBack(7, "released"), LaunchFor(TaskLaunch("run-1", "make"))):
        assert played.answer(word) is None
    assert played.events == []


def test_only_the_named_acceptor_accepts() -> None:
    played = Played(assigned(acceptor="cyd"), HandIn("ann", "m2", REPORT))
    assert [to for to, _ in played.letters[1:]] == ["lead", "cyd"]
    assert played.refusal(accept("bob")) == "SCOPE_DENIED"
    assert played.answer(accept("cyd")).state == "accepted"


def test_what_has_changed_since_the_report_is_shown_and_taken_only_despite_that() -> None:
    other = FileFact("b.md", "b" * 64)
    now = (FileFact("report.md", "c" * 64), FileFact("b.md", ""))
    played = Played(assigned(), HandIn("ann", "m2", Report(0, "", 0, "/w", (FILE, other))))
    refused = played.answer(accept(now=now))
    assert refused.code == "CHANGED_SINCE"
    assert f"report.md was {'a' * 12} and is {'c' * 12}, b.md is gone" in refused.why
    assert played.task.state is TaskState.REPORTED
    assert played.answer(accept(now=now, despite=True)).state == "accepted"
    assert played.task.judgements[-1].despite == (f"report.md was {'a' * 12} and is {'c' * 12}", "b.md is gone")


def test_a_report_that_was_looked_at_before_it_was_replaced_is_not_accepted() -> None:
    played = Played(assigned(), HandIn("ann", "m2", REPORT), HandIn("ann", "m3", REPORT))
    assert played.refusal(accept(report=1)) == "RESOURCE_BUSY"
    refused = played.answer(accept(report=2))  # whoever says no number may have looked at the first
    assert refused.code == "RESOURCE_BUSY"
    assert all(says in refused.why for says in ("reported 2 times", "--report 2"))
    assert played.refusal(accept(report=2, named=1)) == "RESOURCE_BUSY"
    assert played.answer(accept(report=2, named=2)).state == "accepted"


def test_what_is_rejected_goes_back_to_work_and_comes_again() -> None:
    played = Played(assigned(), HandIn("ann", "m2", REPORT))
    assert played.refusal(Judge("cyd", "m3", False, "", report=1)) == "BAD_MESSAGE"
    assert played.answer(Judge("cyd", "m3", False, "one is wrong", report=1)).state == "working"
    assert ("ann", TaskIs("T-1", "rejected", "cyd", "one is wrong")) in played.letters
    assert played.answer(HandIn("ann", "m4", REPORT)).state == "reported"
    assert played.answer(accept(report=2)).state == "accepted"
    assert [each.accepted for each in played.task.judgements] == [False, True]


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (accept(), "accepted by cyd"),
        (Judge("cyd", "m3", False, "useless", for_good=True, report=1), "rejected for good by cyd (useless)"),
        (Withdraw("lead", "m3", "not needed"), "withdrawn by lead (not needed)"),
    ],
)
def test_an_end_is_final_and_asks_for_what_is_held(end: TaskCommand, how: str) -> None:
    played = Played(assigned(), held(7), held(8), GiveBack(8, "released"), HandIn("ann", "m2", REPORT))
    played.answer(end)
    assert played.task.state in OVER
    [news] = [body for to, body in played.letters if to == "ann" and isinstance(body, TaskIs)]
    assert news.held == ("gpu",)
    for command in (Begin("ann", "m4"), HandIn("ann", "m4", REPORT), accept(), Withdraw("lead", "m4", "x")):
        refused = played.answer(command)
        assert (refused.code, how in refused.why) == ("TARGET_ENDED", True)
    played.answer(GiveBack(7, "released"))
    assert not played.task.held()
    played.answer(held(9))  # granted while it ended
    assert played.letters[-1] == ("ann", TaskIs("T-1", str(played.task.state), news.by, how, ("gpu",)))


def test_an_assignment_that_is_withdrawn_unread_leaves_the_inbox() -> None:
    played = Played(assigned())
    outcome = decide(played.task, Withdraw("lead", "m2", "not needed"), Now(1, "b", 1, 1))
    assert [(each.to, each.slot) for each in outcome.withdraw] == [("ann", "Assigned:T-1")]


def test_what_is_said_of_reservations_has_to_be_so() -> None:
    played = Played(assigned(), held(7), held(8))
    released, handed = Report(0, "", 0, released=True), Report(0, "", 0, handed_to="bob")
    for report in (released, handed):
        refused = played.answer(HandIn("ann", "m2", report, held=("gpu (fence 7)", "gpu (fence 8)")))
        assert (refused.code, "gpu (fence 7), gpu (fence 8)" in refused.why) == ("RESOURCE_BUSY", True)
        refused = played.answer(HandIn("ann", "m2", report, waits=("db",)))
        assert (refused.code, "still wait for db" in refused.why) == ("RESOURCE_BUSY", True)
    assert played.refusal(HandIn("ann", "m2", handed)) == "NOT_HOLDER"
    assert played.answer(HandIn("ann", "m2", handed, heirs=frozenset({"bob"}))).state == "reported"
    assert played.answer(HandIn("ann", "m3", released)).state == "reported"
    assert played.answer(HandIn("ann", "m4", Report(0, "", 0), held=("gpu (fence 7)",))).state == "reported"


def test_who_reserves_more_after_the_report_is_at_work_again() -> None:
    played = Played(assigned(), HandIn("ann", "m2", REPORT), held(7))
    assert played.task.state is TaskState.WORKING
    assert played.refusal(accept()) == "RESOURCE_BUSY"
    played.answer(HandIn("ann", "m3", REPORT))
    played.answer(LaunchFor(TaskLaunch("run-1", "make")))  # to look once more is no more work
    assert str(played.task.state) == "reported"
    assert played.answer(Begin("ann", "m4")).state == "working"


def test_a_file_outside_of_the_scope_is_taken_and_marked() -> None:
    outside = FileFact("src/x.py", "d" * 64, outside=True)
    played = Played(assigned())
    answer = played.answer(HandIn("ann", "m2", Report(0, "", 0, "/w", (FILE, outside))))
    assert answer.note == "outside of what it lets you change, and marked so: src/x.py"
    assert played.task.report is not None
    assert [each.outside for each in played.task.report.files] == [False, True]


def test_commands_run_for_it_are_on_its_record_with_their_codes() -> None:
    played = Played(assigned())
    played.answer(LaunchFor(TaskLaunch("run-1", "pytest")))
    assert played.task.state is TaskState.WORKING
    played.answer(LaunchFor(TaskLaunch("run-1", "pytest", 1, 50)))
    played.answer(LaunchFor(TaskLaunch("run-1", "pytest", 0, 60)))  # told again, it is not another end
    assert list(played.task.launches.values()) == [TaskLaunch("run-1", "pytest", 1, 50)]


@pytest.mark.parametrize(
    ("assignment", "judge", "shared"),
    [
        ({}, "cyd", ()),
        ({}, "ann", ("ann is assignee and acceptor",)),
        ({}, "lead", ("lead is assigner and acceptor",)),
        ({"assignee": "lead"}, "cyd", ("lead is assigner and assignee",)),
        ({"assignee": "lead"}, "lead", ("lead is assigner and assignee and acceptor",)),
    ],
)
def test_who_has_several_parts_is_named(assignment: dict[str, str], judge: str, shared: tuple[str, ...]) -> None:
    played = Played(assigned(**assignment))
    assignee = assignment.get("assignee", "ann")
    played.answer(HandIn(assignee, "m2", REPORT))
    answer = played.answer(accept(judge))
    assert roles_shared(played.task) == shared
    assert answer.note == (f"not independent: {shared[0]}" if shared else "")


def test_what_is_kept_is_bounded_and_what_is_held_is_never_forgotten() -> None:
    played = Played(assigned())
    for fence in range(RESERVATIONS_OF_TASK_KEPT + 9):
        played.answer(held(fence))
        if fence > 2:
            played.answer(GiveBack(fence, "released"))
        played.answer(LaunchFor(TaskLaunch(f"run-{fence}", "make", 0, 1)))
    assert len(played.task.reserved) == RESERVATIONS_OF_TASK_KEPT
    assert [each.fence for each in played.task.held()] == [0, 1, 2]
    assert len(played.task.launches) == LAUNCHES_OF_TASK_KEPT
    for number in range(1, JUDGEMENTS_KEPT + 3):
        played.answer(HandIn("ann", "m2", REPORT))
        played.answer(Judge("cyd", "m3", False, "again", report=number))
    assert len(played.task.judgements) == JUDGEMENTS_KEPT


# --- scope --------------------------------------------------------------------------------
def test_only_its_assignee_reserves_for_it_and_only_within_its_scope() -> None:
    task = Played(assigned()).task
    assert why_not_for(task, "ann") == ""
    assert "ann's work" in why_not_for(task, "bob")
    assert why_not_for(Task("task/T-2"), "ann") == "no task T-2 is on record: bus task list"
    assert why_not_resource(task, "machine/gpu") == ""
    assert "lets you reserve machine/gpu, and machine/db is not among them" in why_not_resource(task, "machine/db")
    assert why_not_claims(task, "territory/r", (Claim("report.md"), Claim("tests/report/a.py"))) == ""
    assert "tests is outside of that" in why_not_claims(task, "territory/r", (Claim("tests"),))
    assert "another repository" in why_not_claims(task, "territory/other", (Claim("report.md"),))
    over = Played(assigned(), Withdraw("lead", "m2", "x")).task
    assert "nothing is reserved or run for it any more" in why_not_for(over, "ann")


def test_a_file_that_is_not_there_yet_is_within_by_its_name() -> None:
    task = Played(assigned(changes=(Claim("src/*.py"), Claim("docs/**/*.md"), Claim("README.md", 1, 9)))).task
    for inside in ("src/new.py", "docs/a/b.md"):
        assert why_not_claims(task, "territory/r", (Claim(inside),)) == ""
    for outside in ("src", "src/new.txt", "docs", "README.md"):
        assert "is outside of that" in why_not_claims(task, "territory/r", (Claim(outside),))


def test_a_scope_that_names_nothing_limits_nothing() -> None:
    task = Played(assigned(changes=(), resources=())).task
    assert why_not_resource(task, "machine/any") == ""
    assert why_not_claims(task, "territory/any", (Claim("**"),)) == ""
    assert task.assignment is not None
    assert not is_outside(task.assignment, "territory/any", "x")


@pytest.mark.parametrize(
    ("territory", "path", "outside"),
    [
        ("territory/r", "report.md", False),
        ("territory/r", "tests/report/deep/x.py", False),
        ("territory/r", "tests/reports", True),
        ("territory/r", "[x].md", True),
        ("territory/other", "report.md", True),
        ("territory/r", "/abs/report.md", True),
    ],
)
def test_a_path_is_inside_or_outside_of_it(territory: str, path: str, outside: bool) -> None:
    assert is_outside(ASSIGNMENT, territory, path) is outside


def test_differences_are_told_file_by_file() -> None:
    report = Report(1, "ann", 0, "/w", (FILE, FileFact("b", "b" * 64)))
    assert differences(report, (FILE, FileFact("b", "b" * 64))) == ()
    assert differences(report, (FILE,)) == ("b is gone",)


# --- whatever comes -----------------------------------------------------------------------
AGENT = st.sampled_from(["lead", "ann", "bob", "cyd"])
NOW = st.sampled_from([(FILE,), (FileFact("report.md", "c" * 64),), ()])
COMMANDS: st.SearchStrategy[TaskCommand] = st.one_of(
    st.builds(lambda who, acceptor: Assign(who, "m", Assignment(who, "ann", "x", acceptor=acceptor)),
              AGENT, st.sampled_from(["", "cyd"])),
    st.builds(Read, AGENT),
    st.builds(Begin, AGENT, st.just("m")),
    st.builds(HandIn, AGENT, st.just("m"), st.builds(
        lambda released, to: Report(0, "", 0, "/w", (FILE,), released=released, handed_to=to),
        st.booleans(), st.sampled_from(["", "bob"]))),
    st.builds(Judge, AGENT, st.just("m"), st.booleans(), st.sampled_from(["", "so"]), st.booleans(), st.booleans(),
              st.integers(0, 3), NOW),
    st.builds(Withdraw, AGENT, st.just("m"), st.sampled_from(["", "so"])),
    st.builds(held, st.integers(1, 3), st.just("ann")),
    st.builds(GiveBack, st.integers(1, 3), st.just("released"), st.sampled_from(["", "bob"])),
    st.builds(LaunchFor, st.builds(TaskLaunch, st.sampled_from(["r1", "r2"]), st.just("make"), st.none(),
                                   st.integers(0, 1))),
)  # fmt: skip


@given(st.lists(COMMANDS, max_size=25))
def test_whatever_comes_its_records_stay_apart_and_its_end_is_final(commands: list[TaskCommand]) -> None:
    played = Played()
    for command in commands:
        before = played.task
        answer = played.answer(command)
        task = played.task
        if isinstance(answer, Refused):
            assert task == before
        if before.assignment is not None:
            assert task.assignment == before.assignment
        if before.is_over():
            assert (task.state, task.report, task.judgements) == (before.state, before.report, before.judgements)
        if task.report != before.report:
            assert isinstance(command, HandIn)
            assert before.assignment is not None
            assert command.sender == before.assignment.assignee
        if task.judgements != before.judgements:
            assert isinstance(command, Judge)
            assert before.state is TaskState.REPORTED
        if task.state is TaskState.ACCEPTED and before.state is not TaskState.ACCEPTED:
            assert isinstance(command, Judge)
            assert command.accept
            assert command.despite or command.now == (FILE,)
        if isinstance(command, Read):
            assert (task.began_ms, task.report, task.judgements) == (before.began_ms, before.report, before.judgements)
