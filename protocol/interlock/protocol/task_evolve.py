"""What each event changes of a task. Total and silent, as a replay needs it."""

import msgspec

from interlock.protocol.limits import JUDGEMENTS_KEPT, LAUNCHES_OF_TASK_KEPT, RESERVATIONS_OF_TASK_KEPT
from interlock.protocol.table import Table
from interlock.protocol.task_commands import (
    TaskAssigned,
    TaskBegan,
    TaskEvent,
    TaskJudged,
    TaskRan,
    TaskRead,
    TaskReported,
    TaskReserved,
    TaskUnreserved,
    TaskWithdrawn,
)
from interlock.protocol.task_state import Judgement, Reservation, Task, TaskLaunch, TaskState

replace = msgspec.structs.replace


def evolve(task: Task, event: TaskEvent) -> Task:
    """Take one fact in."""
    match event:
        case TaskAssigned(assignment=assignment):
            return replace(task, assignment=assignment, state=TaskState.ASSIGNED)
        case TaskRead(at_ms=at_ms):
            state = TaskState.READ if task.state is TaskState.ASSIGNED else task.state
            return replace(task, state=state, read_ms=task.read_ms or at_ms)
        case TaskBegan(at_ms=at_ms):
            return replace(task, state=TaskState.WORKING, began_ms=task.began_ms or at_ms)
        case TaskReported(report=report):
            return replace(task, state=TaskState.REPORTED, report=report)
        case TaskJudged(judgement=judgement):
            return _judged(task, judgement)
        case TaskWithdrawn(because=because, at_ms=at_ms):
            return replace(task, state=TaskState.WITHDRAWN, because=because, over_ms=at_ms)
        case TaskReserved(reservation=reservation):
            return replace(task, reserved=_bounded(task.reserved.put(str(reservation.fence), reservation)))
        case TaskUnreserved(fence=fence, how=how, at_ms=at_ms, handed_to=handed_to):
            known = task.reserved.get(str(fence))
            if known is None:
                return task
            over = replace(known, over_ms=at_ms, how=how, handed_to=handed_to)
            return replace(task, reserved=task.reserved.put(str(fence), over))
        case TaskRan(launch=launch):
            return replace(task, launches=_newest(task.launches.put(launch.launch, launch)))


def _judged(task: Task, judgement: Judgement) -> Task:
    judgements = (*task.judgements, judgement)[-JUDGEMENTS_KEPT:]
    if judgement.accepted:
        state = TaskState.ACCEPTED
    else:
        state = TaskState.REJECTED if judgement.for_good else TaskState.WORKING
    over = judgement.accepted or judgement.for_good
    return replace(task, state=state, judgements=judgements, over_ms=judgement.at_ms if over else 0)


def _bounded(reserved: Table[str, Reservation]) -> Table[str, Reservation]:
    """Without the oldest that are over, where there are too many; what is held is never forgotten."""
    excess = len(reserved) - RESERVATIONS_OF_TASK_KEPT
    if excess > 0:
        for fence in [fence for fence, each in reserved.items() if each.over_ms][:excess]:
            reserved = reserved.without(fence)
    return reserved


def _newest(launches: Table[str, TaskLaunch]) -> Table[str, TaskLaunch]:
    excess = len(launches) - LAUNCHES_OF_TASK_KEPT
    if excess > 0:
        for launch in [name for name, each in launches.items() if each.over_ms][:excess]:
            launches = launches.without(launch)
    return launches
