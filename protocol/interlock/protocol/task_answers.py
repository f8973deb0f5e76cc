"""What is said about tasks, as a model reads it after its command. The first line alone is enough to act on."""

from interlock.protocol.task_messages import Assigned, TaskIs
from interlock.protocol.visible import unhidden
from interlock.protocol.words import quote

_NEXT = {
    "reported": "bus task show {0}, then bus task accept {0} or reject {0}",
    "accepted": "bus task show {0}",
}


def assigned(body: Assigned) -> str:
    """What is to be done, and its bounds, a line each."""
    rows = [
        ("changes", _paths(body.changes)),
        ("resources", _paths(body.resources)),
        *(("constraint", each) for each in body.constraints),
        ("acceptance", body.acceptance),
        ("deliverable", body.deliverable),
        ("accepted by", body.acceptor),
        ("next", f"bus task begin {body.task}; at the end, bus task report {body.task} --file …"),
    ]
    lines = [f"ASSIGNED {body.task} by {body.by} - {_line(body.objective)}"]
    return "\n  ".join([*lines, *(f"{name}: {_line(value)}" for name, value in rows if value)])


def task_is(body: TaskIs) -> str:
    """How it stands, by whose word, and what follows."""
    by = f" by {body.by}" if body.by else ""
    why = f" - {_line(body.why)}" if body.why else ""
    held = f"; give back what you still have for it: {_line(', '.join(body.held))}" if body.held else ""
    note = f"; {_line(body.note)}" if body.note else ""
    following = f"; next: {_NEXT[body.state].format(body.task)}" if body.state in _NEXT and not body.held else ""
    return f"TASK {body.task} {body.state}{by}{why}{held}{note}{following}"


def _paths(paths: tuple[str, ...]) -> str:
    return " ".join(quote(unhidden(each)) for each in paths)


def _line(text: str) -> str:
    return unhidden(" ".join(text.split()))
