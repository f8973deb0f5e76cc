"""A task's record in words: sections of lines, for a terminal, or as Markdown that another session can go on from."""

import re
from collections.abc import Iterator
from typing import Any

from interlock.adapters.scrubbing import scrub
from interlock.protocol.visible import unhidden

Document = dict[str, Any]
_LINES = re.compile(r":[0-9]+(?:-[0-9]+)?$")
Section = tuple[str, list[str]]


def sections(task: Document) -> list[Section]:
    """Heading and lines of each part; a part that says nothing is left out."""
    report = task["report"]
    found = [
        ("Standing", list(_standing(task))),
        ("Assignment", list(_assignment(task))),
        (f"Report {report['number']}" if report else "Report", list(_report(report)) if report else []),
        ("Judgement", [_judgement(each) for each in task["judgements"]]),
        ("Reservations", [_reservation(each) for each in task["reservations"]]),
        ("Commands run for it", [_launch(each) for each in task["launches"]]),
    ]
    return [(heading, list(map(_line, lines))) for heading, lines in found if lines]


def for_terminal(task: Document) -> str:
    """All of it, to be read."""
    lines = [f"{task['task']}: {task['state']} - {_line(task['objective'])}"]
    for heading, rows in sections(task):
        lines += [heading, *(f"  {row}" for row in rows)]
    return "\n".join([*lines, *([f"next: {following}"] if (following := _next(task)) else [])])


def as_markdown(task: Document) -> str:
    """All of it without secrets, home paths or environment."""
    lines = [f"# {task['task']}: {_escaped(_line(task['objective']))}", ""]
    for heading, rows in sections(task):
        lines += [f"## {heading}", "", *(f"- {_escaped(row)}" for row in rows), ""]
    following = _next(task)
    return "\n".join([*lines, *([f"Next: `{following}`", ""] if following else [])]).rstrip() + "\n"


# --- straight helpers -------------------------------------------------------------------------
def _standing(task: Document) -> Iterator[str]:
    last = task["judgements"][-1] if task["judgements"] else None
    match task["state"]:
        case "accepted" if last is not None:
            yield f"accepted by {last['by']} at {last['at']}"
        case "rejected" if last is not None:
            yield f"rejected for good by {last['by']} at {last['at']}"
        case "withdrawn":
            yield f"withdrawn by {task['assigner']} at {task['over_at']}: {_line(task['withdrawn_because'])}"
        case "working" if last is not None:
            yield f"back to work: rejected by {last['by']} at {last['at']}"
        case state:
            yield state
    if task["not_independent"]:
        yield f"not independent: {', '.join(task['not_independent'])}"
    yield f"assigned {task['assigned_at']}; read {_when(task['read_at'])}; begun {_when(task['began_at'])}"


def _assignment(task: Document) -> Iterator[str]:
    presence = f", who is {task['assignee_presence']}" if task.get("assignee_presence") == "gone" else ""
    yield f"{task['assigner']} to {task['assignee']}{presence}"
    yield f"objective: {_line(task['objective'])}"
    yield f"may change: {' '.join(task['changes']) or 'not limited'}"
    if any(_LINES.search(each) for each in task["changes"]):
        yield "of a file of which lines are named, nobody has looked which of them were changed"
    yield f"may reserve: {' '.join(task['resources']) or 'not limited'}"
    for each in task["constraints"]:
        yield f"constraint: {_line(each)}"
    yield f"acceptance: {_line(task['acceptance']) or 'no criterion was given'}"
    if task["acceptor"]:
        yield f"to be accepted by: {task['acceptor']}"
    if task["deliverable"]:
        yield f"deliverable: {_line(task['deliverable'])}"
    if task["base"]:
        yield f"from commit: {task['base']}"


def _report(report: Document) -> Iterator[str]:
    yield f"number {report['number']}, by {report['by']} at {report['at']}"
    if report["head"]:
        yield f"commit, as its reporter says: {report['head']}"
    if report["summary"]:
        yield f"what was done: {_line(report['summary'])}"
    for file in report["files"]:
        now = f", {_now(file)}" if "now" in file else ""
        yield f"file: {file['path']} sha256 {file['sha256']} ({file['size']:,} bytes{_outside(file)}){now}"
    for change in report["changes"]:
        outside = f" ({_outside(change)[2:]})" if change["outside"] else ""
        yield f"changed, as its reporter's git says: {change['how']} {change['path']}{outside}"
    if report["more_changes"]:
        yield f"changed, as its reporter's git says: and {report['more_changes']:,} more"
    for launch in report["launches"]:
        yield f"test: {_launch(launch)}"
    for gap in report["gaps"] or ["none is named"]:
        yield f"known gap: {_line(gap)}"
    if report["released"]:
        yield "reservations: none is held any more"
    if report["handed_to"]:
        yield f"reservations: handed over to {report['handed_to']}"


def _judgement(judgement: Document) -> str:
    word = "accepted" if judgement["accepted"] else "rejected for good" if judgement["for_good"] else "rejected"
    against = f", against: {_line(judgement['criterion'])}" if judgement["criterion"] else ", against no criterion"
    because = f"; because {_line(judgement['because'])}" if judgement["because"] else ""
    despite = f"; despite {', '.join(judgement['despite'])}" if judgement["despite"] else ""
    return f"report {judgement['report']} {word} by {judgement['by']} at {judgement['at']}{against}{because}{despite}"


def _reservation(reservation: Document) -> str:
    what = reservation["what"] + (f" ({reservation['lease']})" if reservation["lease"] else "")
    if not reservation["over_at"]:
        return f"{what}: held by {reservation['agent']} since {reservation['since']}, fence {reservation['fence']}"
    how = f"handed over to {reservation['handed_to']}" if reservation["handed_to"] else _line(reservation["how"])
    return f"{what}: {reservation['since']} to {reservation['over_at']}, fence {reservation['fence']}, {how}"


def _launch(launch: Document) -> str:
    if launch["code"] is not None:
        ended = f"ended with {launch['code']}"
    else:
        ended = "it has ended, and nobody knows how" if launch["over_at"] else "runs"
    at = f" at {launch['over_at']}" if launch["over_at"] else ""
    other = f", run for {launch['for']}" if launch.get("for") else ""
    return f"{_line(launch['command'])} (its arguments are not kept), {launch['launch']}: {ended}{at}{other}"


def _next(task: Document) -> str:
    name = task["task"]
    return {
        "assigned": f"bus task begin {name}",
        "read": f"bus task begin {name}",
        "working": f"bus task report {name} --file FILE --launch LAUNCH --gap WHAT",
        "reported": f"bus task accept {name}, or bus task reject {name} --because WHY",
    }.get(task["state"], "")


def _now(file: Document) -> str:
    return {"same": "the same now", "gone": "GONE now"}.get(file["now"], f"CHANGED, now {file['sha256_now'][:12]}")


def _outside(row: Document) -> str:
    return ", outside of what it lets you change" if row["outside"] else ""


def _when(at: str | None) -> str:
    return at or "not yet"


def _line(text: str) -> str:
    return unhidden(" ".join(text.split()))


def _escaped(text: str) -> str:
    """As Markdown shows it, and without what must not leave this machine."""
    return "".join(f"\\{each}" if each in "\\`*_[]<>#|" else each for each in scrub(text))
