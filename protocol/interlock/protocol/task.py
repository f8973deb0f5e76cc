"""The task machine: an assignment, what was handed in for it, and who accepted that. It judges no content.

What files hold, what git shows and what the ledger knows of a launch the door has established. Source: architecture,
the task machine; the seed's five signals.
"""

import msgspec

from interlock.protocol.claim import claim_text
from interlock.protocol.codes import Code
from interlock.protocol.drafting import Drafting
from interlock.protocol.limits import DIFFERENCES_TOLD_MAX
from interlock.protocol.names import plain_name
from interlock.protocol.outcome import Now, Outcome, Send, Withdraw
from interlock.protocol.task_commands import (
    Assign,
    Begin,
    GiveBack,
    HandIn,
    Judge,
    LaunchFor,
    Read,
    Reserve,
    TaskAssigned,
    TaskBegan,
    TaskCommand,
    TaskEvent,
    TaskJudged,
    TaskRan,
    TaskRead,
    TaskReported,
    TaskReserved,
    TaskUnreserved,
    TaskWithdrawn,
)
from interlock.protocol.task_commands import Withdraw as WithdrawTask
from interlock.protocol.task_evolve import evolve
from interlock.protocol.task_messages import Assigned, TaskIs
from interlock.protocol.task_state import Assignment, FileFact, Judgement, Report, Task, TaskState, roles_shared

replace = msgspec.structs.replace
Decided = Outcome[Task, TaskEvent]
_UNREAD = frozenset({TaskState.ASSIGNED, TaskState.READ})


def decide(task: Task, command: TaskCommand, now: Now) -> Decided:
    """Answer one command. No clock decides anything here: `now` is for the record."""
    draft = _Draft(task, now, getattr(command, "id", ""))
    known = task.assignment
    match command:
        case Assign(sender, _, assignment):
            _assign(draft, sender, assignment)
        case Begin(sender) | HandIn(sender) | Judge(sender) | WithdrawTask(sender) if known is None:
            why = f"no task {task.id} is on record: bus task list"
            draft.refuse(sender, Code.TARGET_ENDED, why)
        case Begin(sender) | HandIn(sender) | Judge(sender) | WithdrawTask(sender) if task.is_over():
            draft.refuse(sender, Code.TARGET_ENDED, f"the task {task.id} is over: {how_it_ended(task)}")
        case _ if known is None:  # what the bus itself says of a task that nobody assigned
            pass
        case Read(agent):
            if agent == known.assignee and not task.read_ms:
                draft.event(TaskRead(agent, task.id, now.at_ms))
        case Begin(sender):
            if _is_assignee(draft, sender, known):
                _begin(draft, sender, anew=True)
                draft.answer(sender, standing(draft.state))
        case HandIn(sender):
            if _is_assignee(draft, sender, known):
                _report(draft, command, known)
        case Judge():
            _judge(draft, command, known)
        case WithdrawTask(sender, _, because):
            _withdraw(draft, sender, because, known)
        case Reserve():
            _reserve(draft, command, known)
        case GiveBack(fence, how, handed_to, at_ms):
            ended = task.reserved.get(str(fence))
            if ended is not None and not ended.over_ms:
                draft.event(TaskUnreserved(ended.agent, task.id, fence, how, at_ms or now.at_ms, handed_to))
        case LaunchFor(launch):
            seen = task.launches.get(launch.launch)
            if seen is None or not seen.over_ms:
                _begin(draft, known.assignee)
                draft.event(TaskRan(known.assignee, task.id, launch))
    return draft.outcome()


def standing(task: Task, note: str = "") -> TaskIs:
    """How it stands, in one message."""
    why = task.because if task.state is TaskState.WITHDRAWN else task.judgements[-1].because if task.is_over() else ""
    return TaskIs(task.id, str(task.state), _last_word(task), why, note=note)


def how_it_ended(task: Task) -> str:
    """In words, of a task that is over."""
    assert task.assignment is not None
    if task.state is TaskState.WITHDRAWN:
        return f"withdrawn by {task.assignment.assigner} ({task.because})"
    last = task.judgements[-1]
    word = "accepted" if last.accepted else "rejected for good"
    return f"{word} by {last.by}" + (f" ({last.because})" if last.because else "")


def differences(report: Report, now: tuple[FileFact, ...]) -> tuple[str, ...]:
    """What is not as it was reported, file by file. Args: now: the same files as they are."""
    present = {each.path: each.sha256 for each in now}
    found = []
    for file in report.files:
        sha256 = present.get(file.path, "")
        if not sha256:
            found.append(f"{file.path} is gone")
        elif sha256 != file.sha256:
            found.append(f"{file.path} was {file.sha256[:12]} and is {sha256[:12]}")
    return tuple(found)


# --- straight helpers ---------------------------------------------------------------------
def _assign(draft: "_Draft", sender: str, assignment: Assignment) -> None:
    task, known = draft.state, draft.state.assignment
    if known is not None:
        if replace(assignment, at_ms=known.at_ms, base=known.base) == known:
            draft.answer(sender, standing(task))
            return
        why = (
            f"{task.id} was assigned to {known.assignee} by {known.assigner}, and no other message changes that: "
            "use another id, or withdraw it first and then use another"
        )
        draft.refuse(sender, Code.ID_CONFLICT, why)
        return
    draft.event(TaskAssigned(assignment.assignee, task.id, replace(assignment, at_ms=draft.now.at_ms)))
    letter = Assigned(
        task.id, sender, assignment.objective, tuple(map(claim_text, assignment.changes)),
        tuple(map(plain_name, assignment.resources)), assignment.constraints, assignment.acceptance,
        assignment.deliverable, assignment.acceptor,
    )  # fmt: skip
    draft.tell(assignment.assignee, letter)
    draft.answer(sender, standing(draft.state, _shared(draft.state)))


def _begin(draft: "_Draft", agent: str, *, anew: bool = False) -> None:
    """Args: anew: also where it was reported already: that report stands no more, and another is to come."""
    if draft.state.state in _UNREAD or (anew and draft.state.state is TaskState.REPORTED):
        draft.event(TaskBegan(agent, draft.state.id, draft.now.at_ms))


def _report(draft: "_Draft", handed: HandIn, known: Assignment) -> None:
    task, sender, report = draft.state, handed.sender, handed.report
    claims = report.released or bool(report.handed_to)
    if claims and handed.held:
        why = f"{', '.join(handed.held)} is still reserved for {task.id}: give it back first, or say nothing of it"
        draft.refuse(sender, Code.RESOURCE_BUSY, why)
        return
    if claims and handed.waits:
        why = f"you still wait for {', '.join(handed.waits)} for {task.id}: take your place back first (bus cancel)"
        draft.refuse(sender, Code.RESOURCE_BUSY, why)
        return
    if report.handed_to and report.handed_to not in handed.heirs:
        why = (
            f"nothing that was reserved for {task.id} is on record as handed over to {report.handed_to}: "
            f"bus handover RESOURCE {report.handed_to}, or bus lease transfer, first"
        )
        draft.refuse(sender, Code.NOT_HOLDER, why)
        return
    number = task.report.number + 1 if task.report is not None else 1
    draft.event(TaskReported(sender, task.id, replace(report, number=number, by=sender, at_ms=draft.now.at_ms)))
    news = TaskIs(task.id, str(TaskState.REPORTED), sender, report.summary)
    for agent in dict.fromkeys((known.assigner, known.acceptor)):
        if agent not in {"", sender}:
            draft.tell(agent, news)
    outside = [each.path for each in report.files if each.outside]
    note = f"outside of what it lets you change, and marked so: {', '.join(outside[:DIFFERENCES_TOLD_MAX])}"
    draft.answer(sender, standing(draft.state, note if outside else ""))


def _judge(draft: "_Draft", judge: Judge, known: Assignment) -> None:
    task, report = draft.state, draft.state.report
    if task.state is not TaskState.REPORTED or report is None:
        why = f"{task.id} is {task.state} and not reported: {known.assignee} reports it first, then it is judged"
        draft.refuse(judge.sender, Code.RESOURCE_BUSY, why)
        return
    if known.acceptor and judge.sender != known.acceptor:
        draft.refuse(judge.sender, Code.SCOPE_DENIED, f"{task.id} is {known.acceptor}'s to accept or reject: ask there")
        return
    judged = task.judgements[-1].report if task.judgements else 0
    if judge.report != report.number or judge.named not in {0, report.number}:
        why = f"{task.id} was reported anew while you looked: see bus task show {task.id}, then say it again"
        draft.refuse(judge.sender, Code.RESOURCE_BUSY, why)
        return
    if not judge.named and report.number > judged + 1:
        why = (
            f"{task.id} was reported {report.number - judged} times since anybody judged it: look at the last, "
            f"then say --report {report.number}"
        )
        draft.refuse(judge.sender, Code.RESOURCE_BUSY, why)
        return
    if not judge.accept and not judge.because.strip():
        draft.refuse(judge.sender, Code.BAD_MESSAGE, "say why: who did the work reads it, and the record keeps it")
        return
    changed = differences(report, judge.now) if judge.accept else ()
    if changed and not judge.despite:
        more = f" and {len(changed) - DIFFERENCES_TOLD_MAX} more" if len(changed) > DIFFERENCES_TOLD_MAX else ""
        why = (
            f"since the report {', '.join(changed[:DIFFERENCES_TOLD_MAX])}{more}: have it reported anew, "
            "or accept it --despite that"
        )
        draft.refuse(judge.sender, Code.CHANGED_SINCE, why)
        return
    judgement = Judgement(
        judge.sender, judge.accept, draft.now.at_ms, report.number, judge.because, known.acceptance, changed,
        judge.for_good and not judge.accept,
    )  # fmt: skip
    draft.event(TaskJudged(judge.sender, task.id, judgement))
    _tell_of_end(draft, judge.sender, known, judge.because)
    draft.answer(judge.sender, standing(draft.state, _shared(draft.state)))


def _withdraw(draft: "_Draft", sender: str, because: str, known: Assignment) -> None:
    if sender != known.assigner:
        why = f"{draft.state.id} was assigned by {known.assigner}, who alone withdraws it: ask there"
        draft.refuse(sender, Code.SCOPE_DENIED, why)
    elif not because.strip():
        draft.refuse(sender, Code.BAD_MESSAGE, "say why: who works on it reads it, and the record keeps it")
    else:
        draft.event(TaskWithdrawn(sender, draft.state.id, because, draft.now.at_ms))
        draft.withdraw(known.assignee, Assigned)
        _tell_of_end(draft, sender, known, because)
        draft.answer(sender, standing(draft.state))


def _tell_of_end(draft: "_Draft", sender: str, known: Assignment, because: str) -> None:
    """Whom it concerns hears it; its assignee also what has to be given back now, where it is over."""
    task = draft.state
    state = "rejected" if task.state is TaskState.WORKING else str(task.state)
    held = tuple(_what(each.lease, each.what) for each in task.held()) if task.is_over() else ()
    for agent in dict.fromkeys((known.assignee, known.assigner)):
        mine = held if agent == known.assignee else ()
        if agent != sender or mine:
            draft.tell(agent, TaskIs(task.id, state, sender, because, mine, _shared(task)))


def _reserve(draft: "_Draft", command: Reserve, known: Assignment) -> None:
    task, reservation = draft.state, command.reservation
    if str(reservation.fence) in task.reserved:
        return
    if not task.is_over():
        _begin(draft, reservation.agent, anew=True)
    at_ms = reservation.at_ms or draft.now.at_ms
    draft.event(TaskReserved(reservation.agent, task.id, replace(reservation, at_ms=at_ms)))
    if task.is_over():  # its end and this grant have crossed
        what = (_what(reservation.lease, reservation.what),)
        draft.tell(reservation.agent, TaskIs(task.id, str(task.state), _last_word(task), how_it_ended(task), what))


def _is_assignee(draft: "_Draft", sender: str, known: Assignment) -> bool:
    if sender == known.assignee:
        return True
    why = f"{draft.state.id} is {known.assignee}'s work: tell {known.assignee} what you have, by bus send"
    draft.refuse(sender, Code.SCOPE_DENIED, why)
    return False


def _last_word(task: Task) -> str:
    """Whose word made it what it is."""
    known = task.assignment
    if known is None:
        return ""
    if task.state in {TaskState.ASSIGNED, TaskState.WITHDRAWN}:
        return known.assigner
    if task.state in {TaskState.ACCEPTED, TaskState.REJECTED}:
        return task.judgements[-1].by
    return known.assignee


def _shared(task: Task) -> str:
    shared = roles_shared(task)
    return f"not independent: {', '.join(shared)}" if shared else ""


def _what(lease: str, what: str) -> str:
    return f"{what} ({lease})" if lease else what


class _Draft(Drafting[Task, TaskEvent]):
    """Of one task. Args: asker: id of the message under decision."""

    def __init__(self, task: Task, now: Now, asker: str) -> None:
        super().__init__(evolve, task, now, asker)

    def tell(self, agent: str, body: Assigned | TaskIs) -> None:
        """Into its inbox; of each kind the newest about this task stays unread."""
        self._outbox.append(Send(agent, body, slot=_slot(type(body), self.state.id)))

    def withdraw(self, agent: str, body: type) -> None:
        self._withdraw.append(Withdraw(agent, _slot(body, self.state.id)))


def _slot(body: type, task: str) -> str:
    return f"{body.__name__}:{task}"
