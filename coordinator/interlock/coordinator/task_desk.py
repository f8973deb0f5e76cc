"""Tasks as people and programs are shown them: a row each, or all that is on record of one. Reads committed state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from interlock.coordinator.ground import Ground
from interlock.coordinator.presence import presence_of
from interlock.coordinator.session import Session
from interlock.coordinator.world import TASK
from interlock.protocol.answers import one_line
from interlock.protocol.claim import claim_text
from interlock.protocol.codes import Code
from interlock.protocol.envelope import wire_time
from interlock.protocol.limits import TASKS_A_PAGE
from interlock.protocol.messages import Refused
from interlock.protocol.names import plain_name
from interlock.protocol.task import differences
from interlock.protocol.task_questions import AskTask, AskTasks, TaskReply, TasksReply
from interlock.protocol.task_state import (
    Assignment,
    Change,
    FileFact,
    Judgement,
    Report,
    Reservation,
    Task,
    TaskLaunch,
    TaskState,
    roles_shared,
)
from interlock.protocol.visible import quoted

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


class TaskDesk:
    """One per bus. Args: ground: the disk."""

    def __init__(self, supervisor: Supervisor, ground: Ground) -> None:
        self._supervisor = supervisor
        self._ground = ground

    def tasks(self, session: Session, question: AskTasks) -> TasksReply:
        """A page of them, in the order in which they were assigned; those that are over last."""
        world = self._supervisor.world
        under_way = (key for key in world.tasks if not world.tasks[key].is_over())
        over = (key for key in world.tasks if question.all and world.tasks[key].is_over())
        keys = [*chain(under_way, over)]
        if question.mine:
            keys = [key for key in keys if _concerns(world.tasks[key], session.agent)]
        after = TASK + question.after
        begin = keys.index(after) + 1 if after in keys else 0
        page = keys[begin : begin + TASKS_A_PAGE]
        rows = tuple(self._row(world.tasks[key]) for key in page)
        return TasksReply(rows, begin + len(page) < len(keys))

    async def task(self, question: AskTask) -> TaskReply | Refused:
        """All that is on record of one."""
        task = self._supervisor.world.tasks.get(TASK + question.task)
        if task is None or task.assignment is None:
            why = f"no task {quoted(question.task)} is on record: bus task list --all"
            return Refused(Code.TARGET_ENDED, why)
        document = _document(task, task.assignment)
        document["assignee_presence"] = self._presence(task.assignment.assignee)
        if question.look and task.report is not None:
            facts = await self._ground.look(task.report.root, [each.path for each in task.report.files])
            now = {each.path: each.sha256 for each in facts}
            document["report"]["files"] = [_file(each, now[each.path]) for each in task.report.files]
            document["differs"] = list(differences(task.report, facts))
        return TaskReply(document)

    def _row(self, task: Task) -> dict[str, Any]:
        known = task.assignment
        assert known is not None
        return {
            "task": task.id,
            "state": str(task.state),
            "assigner": known.assigner,
            "assignee": known.assignee,
            "assignee_presence": self._presence(known.assignee),
            "objective": one_line(known.objective),
            "assigned_at": wire_time(known.at_ms),
            "age_s": max(0, self._supervisor.clock.wall_ms() - known.at_ms) // 1000,
            "held": len(task.held()),
            "not_independent": list(roles_shared(task)),
        }

    def _presence(self, agent: str) -> str:
        return str(presence_of(self._supervisor, self._supervisor.world.registry.agents.get(agent)))


def tasks_of(tasks: Iterable[Task], agent: str) -> Iterator[dict[str, Any]]:
    """Those in which something is asked of an agent now, each with its next command."""
    for task in tasks:
        known = task.assignment
        if known is None or task.is_over():
            continue
        judges = (known.acceptor or known.assigner) == agent
        if task.state is TaskState.REPORTED and judges:
            following = f"bus task show {task.id}, then bus task accept {task.id} or reject {task.id}"
        elif task.state is TaskState.REPORTED or known.assignee != agent:
            continue
        else:
            begun = task.state is TaskState.WORKING
            following = f"bus task report {task.id} --file …" if begun else f"bus task begin {task.id}"
        row = {"task": task.id, "state": str(task.state), "assigner": known.assigner, "assignee": known.assignee}
        yield {**row, "objective": one_line(known.objective), "next": following}


def _concerns(task: Task, agent: str) -> bool:
    known = task.assignment
    return known is not None and agent in {known.assigner, known.assignee, known.acceptor}


def _document(task: Task, known: Assignment) -> dict[str, Any]:
    return {
        "task": task.id,
        "state": str(task.state),
        "objective": known.objective,
        "assigner": known.assigner,
        "assignee": known.assignee,
        "acceptor": known.acceptor,
        "not_independent": list(roles_shared(task)),
        "changes": list(map(claim_text, known.changes)),
        "resources": list(map(plain_name, known.resources)),
        "constraints": list(known.constraints),
        "acceptance": known.acceptance,
        "deliverable": known.deliverable,
        "territory": known.territory,
        "base": known.base,
        "assigned_at": _time(known.at_ms),
        "read_at": _time(task.read_ms),
        "began_at": _time(task.began_ms),
        "over_at": _time(task.over_ms),
        "reservations": [_reservation(each) for each in task.reserved.values()],
        "launches": [_launch(each) for each in task.launches.values()],
        "report": _report(task.report) if task.report is not None else None,
        "judgements": [_judgement(each) for each in task.judgements],
        "withdrawn_because": task.because,
    }


def _report(report: Report) -> dict[str, Any]:
    return {
        "number": report.number,
        "by": report.by,
        "at": _time(report.at_ms),
        "root": report.root,
        "head": report.head,
        "summary": report.summary,
        "files": [_file(each) for each in report.files],
        "changes": [_change(each) for each in report.changes],
        "more_changes": report.more,
        "launches": [_launch(each) for each in report.launches],
        "gaps": list(report.gaps),
        "released": report.released,
        "handed_to": report.handed_to,
    }


def _file(file: FileFact, now: str | None = None) -> dict[str, Any]:
    row = {"path": file.path, "sha256": file.sha256, "size": file.size, "outside": file.outside}
    if now is None:
        return row
    return row | {"now": "gone" if not now else "same" if now == file.sha256 else "changed", "sha256_now": now}


def _change(change: Change) -> dict[str, Any]:
    return {"path": change.path, "how": change.how, "outside": change.outside}


def _launch(launch: TaskLaunch) -> dict[str, Any]:
    return {
        "launch": launch.launch,
        "command": launch.command,
        "code": launch.code,
        "over_at": _time(launch.over_ms),
        "for": launch.other,
    }


def _judgement(judgement: Judgement) -> dict[str, Any]:
    return {
        "by": judgement.by,
        "accepted": judgement.accepted,
        "for_good": judgement.for_good,
        "at": _time(judgement.at_ms),
        "report": judgement.report,
        "because": judgement.because,
        "criterion": judgement.criterion,
        "despite": list(judgement.despite),
    }


def _reservation(reservation: Reservation) -> dict[str, Any]:
    return {
        "what": reservation.what,
        "lease": reservation.lease,
        "agent": reservation.agent,
        "fence": reservation.fence,
        "since": _time(reservation.at_ms),
        "over_at": _time(reservation.over_ms),
        "how": reservation.how,
        "handed_to": reservation.handed_to,
    }


def _time(ms: int) -> str | None:
    return wire_time(ms) if ms else None
