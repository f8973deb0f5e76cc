"""A task: what somebody was given to do, what came of it, and who accepted that. Three records, kept apart.

    assigned ──▶ read (its ACK: nothing more) ──▶ working ──▶ reported ──▶ accepted
        │                                            ▲            └──────▶ rejected: back to working, or for good
        └──────────────── withdrawn ◀────────────────┴ (by whoever assigned it, at any time before its end)

Nothing here has a deadline: silence is not consent, and nothing moves by time alone.
"""

from enum import StrEnum

import msgspec

from interlock.protocol.claim import Claim
from interlock.protocol.table import EMPTY, Table


class TaskState(StrEnum):
    ASSIGNED = "assigned"
    READ = "read"
    WORKING = "working"
    REPORTED = "reported"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


OVER = frozenset({TaskState.ACCEPTED, TaskState.REJECTED, TaskState.WITHDRAWN})


class Assignment(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was to be done. It never changes: who wants more withdraws it, and assigns another task.

    Args:
        assigner, assignee: agents.
        territory: key of the repository that `changes` are in; "" where there is none.
        changes: what of it may be changed; none: that is not limited.
        resources: keys of what may be reserved; none: that is not limited.
        constraints: what must not be done. acceptance: the criterion. deliverable: what is to be handed in.
        acceptor: who is to accept it; "": whoever does.
        base: commit that the assigner's worktree was at, "" where it was at none.
        at_ms: wall clock.
    """

    assigner: str
    assignee: str
    objective: str
    territory: str = ""
    changes: tuple[Claim, ...] = ()
    resources: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    acceptance: str = ""
    deliverable: str = ""
    acceptor: str = ""
    base: str = ""
    at_ms: int = 0


class FileFact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file as the bus has read it.

    Args:
        path: from the top of its worktree; absolute where it lies outside of it.
        sha256: of its content, in hex; "" where it is gone. size: bytes.
        outside: of what the assignment lets change.
    """

    path: str
    sha256: str
    size: int = 0
    outside: bool = False


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path that git shows as changed since the assignment.

    Args: how: git's letter: A, M, D, T, or ? of what it does not follow. outside: as of FileFact.
    """

    path: str
    how: str
    outside: bool = False


class TaskLaunch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command of `bus run`, as the ledger has it.

    Args:
        code: its exit code, 128 + N for a signal; None: it runs, or nobody knows. over_ms: 0 while it is not over.
        other: the task that it was run for, where that is another one.
    """

    launch: str
    command: str
    code: int | None = None
    over_ms: int = 0
    other: str = ""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What its assignee handed in.

    Args:
        number: from 1. by: who.
        root: top of the worktree that its files are in, a real path; "" where they are in none.
        changes: git's list, as the reporter's git says it; `more` were left out. head: the commit that it was made at.
        gaps: what is known to be missing. summary: in the words of its assignee.
        released: all that was reserved has been given back. handed_to: or was handed over to that agent.
    """

    number: int
    by: str
    at_ms: int
    root: str = ""
    files: tuple[FileFact, ...] = ()
    changes: tuple[Change, ...] = ()
    more: int = 0
    head: str = ""
    launches: tuple[TaskLaunch, ...] = ()
    gaps: tuple[str, ...] = ()
    summary: str = ""
    released: bool = False
    handed_to: str = ""


class Judgement(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody's word on a report.

    Args:
        report: its number. criterion: of the assignment, that it was judged by.
        despite: what had changed since the report, file by file, and was accepted all the same.
        for_good: of a rejection: the task is over.
    """

    by: str
    accepted: bool
    at_ms: int
    report: int
    because: str = ""
    criterion: str = ""
    despite: tuple[str, ...] = ()
    for_good: bool = False


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was reserved for the task: a resource, or a lease.

    Args:
        fence: of its grant. key: of the resource, or of the territory. what: its name, or the paths of the lease.
        lease: its id, "" of a resource.
        over_ms: 0 while it is held. how: it ended. handed_to: to whom it was handed over.
    """

    fence: int
    key: str
    agent: str
    what: str
    at_ms: int
    lease: str = ""
    over_ms: int = 0
    how: str = ""
    handed_to: str = ""


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task. Without an assignment it does not exist.

    Args:
        key: `task/<id>`.
        read_ms, began_ms, over_ms: wall clock; 0: not yet.
        report: the last one. judgements: the last few.
        reserved: by fence, as text. launches: commands run for it, by launch.
        because: of its withdrawal.
    """

    key: str
    assignment: Assignment | None = None
    state: TaskState = TaskState.ASSIGNED
    read_ms: int = 0
    began_ms: int = 0
    over_ms: int = 0
    report: Report | None = None
    judgements: tuple[Judgement, ...] = ()
    reserved: Table[str, Reservation] = EMPTY
    launches: Table[str, TaskLaunch] = EMPTY
    because: str = ""

    @property
    def id(self) -> str:
        return self.key.partition("/")[2]

    def is_over(self) -> bool:
        return self.state in OVER

    def held(self) -> list[Reservation]:
        """What is still reserved for it."""
        return [each for each in self.reserved.values() if not each.over_ms]


def roles_shared(task: Task) -> tuple[str, ...]:
    """Who has more than one part in it, in words: none of these checks is an independent one."""
    if task.assignment is None:
        return ()
    parts: dict[str, list[str]] = {}
    last = task.judgements[-1] if task.judgements else None
    judge = "acceptor" if last is None or last.accepted else "reviewer"
    for agent, part in (
        (task.assignment.assigner, "assigner"),
        (task.assignment.assignee, "assignee"),
        (last.by if last is not None else task.assignment.acceptor, judge),
    ):
        if agent:
            parts.setdefault(agent, []).append(part)
    return tuple(f"{agent} is {' and '.join(mine)}" for agent, mine in parts.items() if len(mine) > 1)
