"""What an assignment lets change and reserve. None named: that is not limited. Nobody's message makes it wider."""

from interlock.protocol.claim import Claim, claim_covers, claim_text
from interlock.protocol.glob import Pattern
from interlock.protocol.names import plain_name
from interlock.protocol.task_state import Assignment, Task


def why_not_for(task: Task, agent: str) -> str:
    """Why an agent may not do something for a task now, in one sentence; "" where it may."""
    known = task.assignment
    if known is None:
        return f"no task {task.id} is on record: bus task list"
    if task.is_over():
        return f"{task.id} is {task.state}: nothing is reserved or run for it any more"
    if agent != known.assignee:
        return f"{task.id} is {known.assignee}'s work: only {known.assignee} reserves and runs for it"
    return ""


def why_not_resource(task: Task, key: str) -> str:
    """Why a resource is outside of what may be reserved for it, in one sentence; "" where it is not."""
    known = task.assignment
    if known is None or not known.resources or key in known.resources:
        return ""
    lets = ", ".join(map(plain_name, known.resources))
    return (
        f"{task.id} lets you reserve {lets}, and {plain_name(key)} is not among them: "
        f"only a task of {known.assigner}'s that names it would"
    )


def why_not_claims(task: Task, territory: str, claims: tuple[Claim, ...]) -> str:
    """The same of paths of a repository."""
    known = task.assignment
    if known is None or not known.changes:
        return ""
    if territory != known.territory:
        return f"{task.id} is about another repository: ask for these paths without it, or from one of its worktrees"
    outside = [each for each in claims if not any(_lets(mine, each) for mine in known.changes)]
    if not outside:
        return ""
    lets, what = " ".join(map(claim_text, known.changes)), " ".join(map(claim_text, outside))
    return (
        f"{task.id} lets you change {lets}, and {what} is outside of that: "
        f"only a task of {known.assigner}'s that names it would"
    )


def _lets(mine: Claim, asked: Claim) -> bool:
    """What is asked for is within. A path without wildcards may be of a file that is not there yet: by its name."""
    path = Pattern.parse(asked.pattern).literal
    return claim_covers(mine, asked) or bool(path and not mine.first and Pattern.parse(mine.pattern).matches(path))


def is_outside(known: Assignment, territory: str, path: str) -> bool:
    """A path is outside of what the assignment lets change.

    Args: territory: of the worktree that it is in. path: from its top; absolute where it is in none.
    """
    if not known.changes:
        return False
    if path.startswith("/") or territory != known.territory:
        return True
    return not any(Pattern.parse(mine.pattern).matches(path) for mine in known.changes)
