"""What a task's machine can be told, and what happens to a task. Journalled for ever: fields are only ever added.

Who speaks, what files hold, and what the ledger knows of a launch, the door has established.
"""

import msgspec

from interlock.protocol.task_state import Assignment, FileFact, Judgement, Report, Reservation, TaskLaunch


# --- commands -----------------------------------------------------------------------------
class Assign(msgspec.Struct, frozen=True):
    sender: str
    id: str
    assignment: Assignment


class Read(msgspec.Struct, frozen=True):
    """Its assignee has acked what was sent."""

    agent: str


class Begin(msgspec.Struct, frozen=True):
    sender: str
    id: str


class HandIn(msgspec.Struct, frozen=True):
    """A report; its number the machine says.

    Args:
        held, waits: what is reserved for the task at that moment, and waited for. heirs: to whom some was handed over.
    """

    sender: str
    id: str
    report: Report
    held: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    heirs: frozenset[str] = frozenset()


class Judge(msgspec.Struct, frozen=True):
    """Somebody accepts or rejects.

    Args:
        report: number of the one that `now` was looked at for. now: its files as they are. despite: any difference.
        named: number of the one that the sender says it looked at; 0: it says none.
    """

    sender: str
    id: str
    accept: bool
    because: str = ""
    despite: bool = False
    for_good: bool = False
    report: int = 0
    now: tuple[FileFact, ...] = ()
    named: int = 0


class Withdraw(msgspec.Struct, frozen=True):
    sender: str
    id: str
    because: str


class Reserve(msgspec.Struct, frozen=True):
    """Something was granted for it."""

    reservation: Reservation


class GiveBack(msgspec.Struct, frozen=True):
    """It has ended. Args: how: why, in words. handed_to: another agent has it now. at_ms: when; 0: now."""

    fence: int
    how: str
    handed_to: str = ""
    at_ms: int = 0


class LaunchFor(msgspec.Struct, frozen=True):
    """A command was begun for it, or has ended."""

    launch: TaskLaunch


TaskCommand = Assign | Read | Begin | HandIn | Judge | Withdraw | Reserve | GiveBack | LaunchFor


# --- events -------------------------------------------------------------------------------
class TaskAssigned(msgspec.Struct, frozen=True, tag="task_assigned"):
    agent: str
    task: str
    assignment: Assignment


class TaskRead(msgspec.Struct, frozen=True, tag="task_read"):
    """Args: agent: its assignee, who has acked the assignment, which says that and no more."""

    agent: str
    task: str
    at_ms: int


class TaskBegan(msgspec.Struct, frozen=True, tag="task_began"):
    agent: str
    task: str
    at_ms: int


class TaskReported(msgspec.Struct, frozen=True, tag="task_reported"):
    agent: str
    task: str
    report: Report


class TaskJudged(msgspec.Struct, frozen=True, tag="task_judged"):
    """Accepted, rejected for good, or back to work."""

    agent: str
    task: str
    judgement: Judgement


class TaskWithdrawn(msgspec.Struct, frozen=True, tag="task_withdrawn"):
    agent: str
    task: str
    because: str
    at_ms: int


class TaskReserved(msgspec.Struct, frozen=True, tag="task_reserved"):
    agent: str
    task: str
    reservation: Reservation


class TaskUnreserved(msgspec.Struct, frozen=True, omit_defaults=True, tag="task_unreserved"):
    agent: str
    task: str
    fence: int
    how: str
    at_ms: int
    handed_to: str = ""


class TaskRan(msgspec.Struct, frozen=True, tag="task_ran"):
    """A command was begun for it, or has ended with that code."""

    agent: str
    task: str
    launch: TaskLaunch


TaskEvent = (
    TaskAssigned | TaskRead | TaskBegan | TaskReported | TaskJudged | TaskWithdrawn | TaskReserved | TaskUnreserved
    | TaskRan
)  # fmt: skip
