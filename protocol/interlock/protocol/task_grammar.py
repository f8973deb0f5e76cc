"""What is said about tasks, as one line of text, and back.

    ASSIGN <task> <agent> [changes=a,b] [resources=r] [constraint=…] [acceptance=…] [deliverable=…] - <objective>

A word that holds white space is quoted as a POSIX shell would: `constraint="no restarts"`.
"""

from interlock.protocol.limits import (
    CHANGES_REPORTED_MAX,
    CLAIMS_MAX,
    FILES_REPORTED_MAX,
    TASK_LIST_MAX,
    TASK_TEXT_CHARACTERS_MAX,
)
from interlock.protocol.names import why_not_task
from interlock.protocol.task_messages import (
    AcceptTask,
    AssignTask,
    BeginTask,
    RejectTask,
    ReportTask,
    ToTask,
    WithdrawTask,
)
from interlock.protocol.visible import quoted
from interlock.protocol.words import BadText, Options, nothing_more, quote, read_options, read_word

TASK_VERBS = {
    "ASSIGN": (
        "ASSIGN <task> <agent> [changes=a,b] [resources=r,s] [constraint=C] [acceptance=A] [deliverable=D] "
        "[acceptor=<agent>] [in=<worktree>] [base=<commit>] - <objective>"
    ),
    "BEGIN": "BEGIN <task>",
    "REPORT": (
        "REPORT <task> [file=F] [launch=L] [gap=G] [released] [handed-over-to=<agent>] [in=<worktree>] "
        "[head=<commit>] [- <what was done>]"
    ),
    "ACCEPT": "ACCEPT <task> [report=N] [despite] [- <because>]",
    "REJECT": "REJECT <task> [report=N] [for-good] - <because>",
    "WITHDRAW": "WITHDRAW <task> - <because>",
}
_OF_ASSIGN = ("changes", "resources", "constraint", "acceptance", "deliverable", "acceptor", "in", "base")
_OF_REPORT = ("file", "launch", "gap", "handed-over-to", "in", "head")


def parse_about_task(verb: str, text: str, at: int) -> ToTask:
    """Read what follows one of `TASK_VERBS`.

    Args: at: where the verb ends. Raises BadText.
    """
    form = TASK_VERBS[verb]
    task, at = read_word(text, at, form)
    match verb:
        case "ASSIGN":
            agent, at = read_word(text, at, form)
            said = _only(read_options(text, at, form, _OF_ASSIGN), form)
            for name in ("changes", "resources"):
                if said.all(name) and not split_list(said.all(name)):  # such as "$PATHS" that nobody set
                    raise BadText(f"{name} names nothing: name what may be changed and reserved, or leave it out")
            return AssignTask(
                task, agent, said.rest, split_list(said.all("changes")), split_list(said.all("resources")),
                said.all("constraint"), said.one("acceptance"), said.one("deliverable"), said.one("acceptor"),
                said.one("in") or "-", said.one("base"),
            )  # fmt: skip
        case "REPORT":
            said = _only(read_options(text, at, form, _OF_REPORT, ("released",)), form)
            return ReportTask(
                task, said.all("file"), said.all("launch"), said.all("gap"), said.rest,
                "released" in said.flags, said.one("handed-over-to"), said.one("in") or "-", head=said.one("head"),
            )  # fmt: skip
        case "ACCEPT":
            said = _only(read_options(text, at, form, ("report",), ("despite",)), form)
            return AcceptTask(task, said.rest, "despite" in said.flags, _number(said.one("report"), form))
        case "REJECT":
            said = _only(read_options(text, at, form, ("report",), ("for-good",)), form)
            return RejectTask(task, said.rest, "for-good" in said.flags, _number(said.one("report"), form))
        case "WITHDRAW":
            return WithdrawTask(task, _only(read_options(text, at, form), form).rest)
        case _:
            nothing_more(text, at, form)
            return BeginTask(task)


def format_about_task(message: ToTask) -> str:
    """Write it as the text that `parse_about_task` reads; git's list of changes has no text."""
    match message:
        case AssignTask():
            words = [
                *_options("changes", message.changes), *_options("resources", message.resources),
                *_options("constraint", message.constraints), *_option("acceptance", message.acceptance),
                *_option("deliverable", message.deliverable), *_option("acceptor", message.acceptor),
                *_option("in", "" if message.worktree == "-" else message.worktree), *_option("base", message.base),
            ]  # fmt: skip
            return " ".join(["ASSIGN", quote(message.task), quote(message.agent), *words]) + _rest(message.objective)
        case ReportTask():
            words = [
                *_options("file", message.files), *_options("launch", message.launches), *_options("gap", message.gaps),
                *(["released"] if message.released else []), *_option("handed-over-to", message.handed_to),
                *_option("in", "" if message.worktree == "-" else message.worktree), *_option("head", message.head),
            ]  # fmt: skip
            return " ".join(["REPORT", quote(message.task), *words]) + _rest(message.summary)
        case AcceptTask(task, because, despite, report):
            words = [*([f"report={report}"] if report else []), *(["despite"] if despite else [])]
            return " ".join(["ACCEPT", quote(task), *words]) + _rest(because)
        case RejectTask(task, because, for_good, report):
            words = [*([f"report={report}"] if report else []), *(["for-good"] if for_good else [])]
            return " ".join(["REJECT", quote(task), *words]) + _rest(because)
        case WithdrawTask(task, because):
            return f"WITHDRAW {quote(task)}" + _rest(because)
        case BeginTask(task):
            return f"BEGIN {quote(task)}"


def checked_about_task(message: ToTask) -> ToTask:
    """A message is within its limits. Raises BadText."""
    why_not = why_not_task(message.task)
    if why_not is not None:
        raise BadText(why_not)
    match message:
        case AssignTask():
            if not message.objective.strip():
                raise BadText("the objective is empty: say what is to come of it")
            _texts(message.objective, *message.constraints, message.acceptance, message.deliverable)
            _many("paths", message.changes, CLAIMS_MAX)
            _many("resources", message.resources, TASK_LIST_MAX)
            _many("constraints", message.constraints, TASK_LIST_MAX)
        case ReportTask():
            _texts(message.summary, *message.gaps)
            _many("files", message.files, FILES_REPORTED_MAX)
            _many("launches", message.launches, TASK_LIST_MAX)
            _many("gaps", message.gaps, TASK_LIST_MAX)
            _many("changes", message.changes, CHANGES_REPORTED_MAX)
            if message.released and message.handed_to:
                raise BadText("given back and handed over exclude each other: say which")
        case AcceptTask(because=because) | RejectTask(because=because) | WithdrawTask(because=because):
            _texts(because)
    return message


def split_list(said: tuple[str, ...]) -> tuple[str, ...]:
    """What is separated by commas, each once; those between braces, as a glob has them, separate nothing."""
    found: list[str] = []
    for text in said:
        depth, begin = 0, 0
        for at, character in enumerate(text):
            depth += (character == "{") - (character == "}" and depth > 0)
            if character == "," and not depth:
                found.append(text[begin:at])
                begin = at + 1
        found.append(text[begin:])
    return tuple(dict.fromkeys(filter(None, found)))


# --- straight helpers ---------------------------------------------------------------------
def _only(said: Options, form: str) -> Options:
    """No word but options. Raises BadText."""
    if said.words:
        raise BadText(f"{quoted(said.words[0])} is too much: {form}")
    return said


def _number(said: str, form: str) -> int:
    """Raises BadText."""
    if said and not (said.isascii() and said.isdigit() and len(said) < 10):
        raise BadText(f"{quoted(said)} is no number of a report: {form}")
    return int(said or 0)


def _texts(*texts: str) -> None:
    long = max(map(len, texts))
    if long > TASK_TEXT_CHARACTERS_MAX:
        raise BadText(f"a text has {long} characters, at most {TASK_TEXT_CHARACTERS_MAX} are taken: name a file")


def _many(what: str, said: tuple[object, ...], most: int) -> None:
    if len(said) > most:
        raise BadText(f"{len(said)} {what} are named, at most {most} are taken: name directories, or fewer")


def _option(name: str, value: str) -> list[str]:
    return [quote(f"{name}={value}")] if value else []


def _options(name: str, values: tuple[str, ...]) -> list[str]:
    return [quote(f"{name}={value}") for value in values]


def _rest(text: str) -> str:
    return f" - {text}" if text else ""
