"""The messages about tasks: what agents say of work, and what the coordinator answers.

Fields are only ever added: journals keep these structs.
"""

import msgspec


# --- to the coordinator -------------------------------------------------------------------
class AssignTask(msgspec.Struct, frozen=True, omit_defaults=True, tag="ASSIGN"):
    """That agent is to do this.

    Args:
        task: its id, 1 to 64 letters, digits, '.', '_' or '-'; nobody else's, ever.
        agent: whose it is to be. objective: what is to come of it, at most 4,096 characters.
        changes: paths that it may change, files, directories or globs, as seen from the worktree; none: not limited.
        resources: that it may reserve; none: not limited.
        constraints: what must not be done. acceptance: what it is judged by. deliverable: what is to be handed in.
        acceptor: who is to accept it; "": whoever does says so.
        worktree: absolute directory; "-" for the one that the sender is in.
        base: commit that the worktree is at, in hex: what is changed is told from there on.
    """

    task: str
    agent: str
    objective: str
    changes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    acceptance: str = ""
    deliverable: str = ""
    acceptor: str = ""
    worktree: str = "-"
    base: str = ""


class BeginTask(msgspec.Struct, frozen=True, tag="BEGIN"):
    """I am at work on it. Reserving something for it says the same."""

    task: str


class SaidChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A changed path. Args: path: from the top of the worktree. how: git's letter."""

    path: str
    how: str = "M"


class ReportTask(msgspec.Struct, frozen=True, omit_defaults=True, tag="REPORT"):
    """This is what came of it.

    Args:
        files: paths as seen from the worktree; the bus reads them now, and keeps their SHA-256.
        launches: of `bus run`, the sender's own, that have ended. gaps: what is known to be missing.
        summary: what was done, at most 4,096 characters.
        released: all that was reserved for it has been given back. handed_to: or handed over to that agent.
        changes: git's list; more: how many of it were left out. head: the commit that the worktree is at.
    """

    task: str
    files: tuple[str, ...] = ()
    launches: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    summary: str = ""
    released: bool = False
    handed_to: str = ""
    worktree: str = "-"
    changes: tuple[SaidChange, ...] = ()
    more: int = 0
    head: str = ""


class AcceptTask(msgspec.Struct, frozen=True, omit_defaults=True, tag="ACCEPT"):
    """The report meets what it is judged by. `despite`: although its files have changed since.

    Args: report: its number, of which one was looked at; 0: the only one since somebody judged.
    """

    task: str
    because: str = ""
    despite: bool = False
    report: int = 0


class RejectTask(msgspec.Struct, frozen=True, omit_defaults=True, tag="REJECT"):
    """It does not: back to work; or, `for_good`, the task is over. Args: report: as of ACCEPT."""

    task: str
    because: str
    for_good: bool = False
    report: int = 0


class WithdrawTask(msgspec.Struct, frozen=True, tag="WITHDRAW"):
    """From who assigned it: it is not to be done any more."""

    task: str
    because: str


ToTask = AssignTask | BeginTask | ReportTask | AcceptTask | RejectTask | WithdrawTask


# --- from the coordinator -----------------------------------------------------------------
class Assigned(msgspec.Struct, frozen=True, omit_defaults=True, tag="ASSIGNED"):
    """To its assignee: what is to be done, within which bounds. Acking it says "I have read this" and no more."""

    task: str
    by: str
    objective: str
    changes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    acceptance: str = ""
    deliverable: str = ""
    acceptor: str = ""


class TaskIs(msgspec.Struct, frozen=True, omit_defaults=True, tag="TASK"):
    """How a task stands.

    Args:
        state: as of TaskState. by: whose word made it so. why: in that one's words, or the bus's.
        held: what is reserved for it still and has to be given back, for its assignee to read. note: one more sentence.
    """

    task: str
    state: str
    by: str = ""
    why: str = ""
    held: tuple[str, ...] = ()
    note: str = ""


AboutTask = Assigned | TaskIs
