"""`bus task`: who is to do what, what came of it, and who accepted that."""

from typing import Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_out

ACTIONS = {
    "assign": "bus task assign ID --to AGENT --objective TEXT [--changes PATH,…] [--resources R,…] [--acceptance TEXT]",
    "begin": "bus task begin ID",
    "report": "bus task report ID [--file F]… [--launch L]… [--gap TEXT]… [--released | --handed-over-to AGENT]",
    "accept": "bus task accept ID [--report N] [--by AGENT] [--because WHY] [--despite]",
    "reject": "bus task reject ID [--report N] [--by AGENT] --because WHY [--for-good]",
    "withdraw": "bus task withdraw ID --because WHY",
    "show": "bus task show ID [--markdown]",
    "list": "bus task list [--mine] [--all]",
    "export": "bus task export ID",
}

_ASSIGN = "--to --objective --changes --resources --constraint --acceptance --deliverable --acceptor"
TAKES = {
    "assign": _ASSIGN.split(),
    "begin": [],
    "report": ["--file", "--launch", "--gap", "--summary", "--released", "--handed-over-to"],
    "accept": ["--by", "--because", "--despite", "--report"],
    "reject": ["--by", "--because", "--for-good", "--report"],
    "withdraw": ["--because"],
    "show": ["--markdown"],
    "list": ["--mine", "--all"],
    "export": [],
}


def command(
    action: str = typer.Argument(..., metavar="ACTION", help=", ".join(ACTIONS) + "."),
    task: str = typer.Argument("", metavar="ID", help="The task's id, such as DEMO-17."),
    to: str = typer.Option("", "--to", metavar="AGENT", help="assign: whose it is to be."),
    objective: str = typer.Option("", "--objective", help="assign: what is to come of it."),
    changes: list[str] = typer.Option([], "--changes", metavar="PATH,…", help="assign: all that it may change."),
    resources: list[str] = typer.Option([], "--resources", metavar="R,…", help="assign: all that it may reserve."),
    constraint: list[str] = typer.Option([], "--constraint", help="assign: what must not be done."),
    acceptance: str = typer.Option("", "--acceptance", help="assign: what it is judged by."),
    deliverable: str = typer.Option("", "--deliverable", help="assign: what is to be handed in."),
    acceptor: str = typer.Option("", "--acceptor", metavar="AGENT", help="assign: who alone may accept it."),
    file: list[str] = typer.Option([], "--file", help="report: a result; the bus keeps its SHA-256."),
    launch: list[str] = typer.Option([], "--launch", help="report: a command of yours, as bus run named it."),
    gap: list[str] = typer.Option([], "--gap", help="report: what is known to be missing."),
    summary: str = typer.Option("", "--summary", help="report: what was done."),
    released: bool = typer.Option(False, "--released", help="report: all that was reserved is given back."),
    handed_to: str = typer.Option("", "--handed-over-to", metavar="AGENT", help="report: it is that one's now."),
    by: str = typer.Option("", "--by", metavar="AGENT", help="accept, reject: who does; the same as --as."),
    because: str = typer.Option("", "--because", metavar="WHY", help="accept, reject, withdraw."),
    despite: bool = typer.Option(False, "--despite", help="accept: although files have changed since."),
    report: int = typer.Option(0, "--report", metavar="N", help="accept, reject: the number of the one you looked at."),
    for_good: bool = typer.Option(False, "--for-good", help="reject: the task is over."),
    markdown: bool = typer.Option(False, "--markdown", help="show: a record that leaves this machine."),
    mine: bool = typer.Option(False, "--mine", help="list: that you assigned, work on or accept."),
    all_: bool = typer.Option(False, "--all", help="list: those that are over, too."),
) -> int:
    """Assign work within bounds; say what came of it, with evidence; accept it, or not. Each stays on record."""
    from interlock.protocol.task_grammar import split_list

    if action not in ACTIONS:
        raise Failure(64, f"bus task has no action {action!r}: {', '.join(ACTIONS)}")
    if not task and action != "list":
        raise Failure(64, f"say which task: {ACTIONS[action]}")
    given = {
        "--to": to, "--objective": objective, "--changes": changes, "--resources": resources,
        "--constraint": constraint, "--acceptance": acceptance, "--deliverable": deliverable, "--acceptor": acceptor,
        "--file": file, "--launch": launch, "--gap": gap, "--summary": summary, "--released": released,
        "--handed-over-to": handed_to, "--by": by, "--because": because, "--despite": despite, "--report": report,
        "--for-good": for_good, "--markdown": markdown, "--mine": mine, "--all": all_,
    }  # fmt: skip
    foreign = [name for name, value in given.items() if value and name not in TAKES[action]]
    if foreign or (action == "list" and task):
        raise Failure(64, f"bus task {action} takes no {' '.join(foreign) or task}: {ACTIONS[action]}")
    for name, values in (("--changes", changes), ("--resources", resources)):
        if values and not split_list(tuple(values)):  # such as "$PATHS" that nobody set: it is not everything
            raise Failure(64, f"{name} names nothing: name what may be changed and reserved, or leave it out")
    if by:
        _speak_as(by)
    match action:
        case "assign":
            return _assign(
                task, agent=to, objective=objective, changes=split_list(tuple(changes)),
                resources=split_list(tuple(resources)), constraints=constraint, acceptance=acceptance,
                deliverable=deliverable, acceptor=acceptor,
            )  # fmt: skip
        case "begin":
            return _say("BEGIN", task)
        case "report":
            return _report(
                task, files=file, launches=launch, gaps=gap, summary=summary, released=released, handed_to=handed_to
            )
        case "accept":
            return _say("ACCEPT", task, because=because, despite=despite, report=report)
        case "reject":
            return _say("REJECT", task, because=_reason(because, action), for_good=for_good, report=report)
        case "withdraw":
            return _say("WITHDRAW", task, because=_reason(because, action))
        case "list":
            return _list(mine, all_)
        case _:
            return _show(task, "json" if action == "export" else "markdown" if markdown else "")


def _assign(task: str, **fields: Any) -> int:
    from interlock.adapters.cli.asking import current_directory
    from interlock.adapters.git_head import head_of

    if not fields["agent"] or not fields["objective"]:
        raise Failure(64, f"say to whom, and what is to come of it: {ACTIONS['assign']}")
    directory = current_directory()
    return _say("ASSIGN", task, worktree=directory, base=head_of(directory), **fields)


def _report(task: str, **fields: Any) -> int:
    """With git's list of what has changed since the assignment, as git here shows it."""
    from interlock.adapters.changed_paths import changed_since
    from interlock.adapters.cli.asking import ask_bus, current_directory, here
    from interlock.adapters.git_head import head_of
    from interlock.adapters.territory.git_calls import GitFailed

    top, git = here(), {}
    if top != "-":
        base = ask_bus("TASK_RECORD", notices=False, task=task)["task"]["base"]
        try:
            rows, more = changed_since(top, base)
        except GitFailed as error:
            raise Failure(74, f"what has changed cannot be listed: {error}") from None
        git = {"changes": rows, "more": more, "head": head_of(top)}
    return _say("REPORT", task, worktree=current_directory(), **fields, **git)


def _list(mine: bool, all_: bool) -> int:
    from interlock.adapters.cli.asking import ask_supervisor
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.output import say_json, say_table

    rows: list[dict[str, Any]] = []
    with Connection(Given.options) as connection:
        if mine:
            connection.agent()
        more = True
        while more:
            after = rows[-1]["task"] if rows else ""
            page = ask_supervisor(connection, {"type": "TASKS", "mine": mine, "all": all_, "after": after})
            rows += page["tasks"]
            more = bool(page.get("more") and page["tasks"])
    if Given.options.json:
        for row in rows:
            say_json(row)
    elif rows:
        say_table(["TASK", "STATE", "FROM", "TO", "AGE", "HELD", "OBJECTIVE"], [_row(row) for row in rows])
    else:
        say_out("no task is under way" + ("" if all_ else ": bus task list --all shows those that are over"))
    return 0


def _row(row: dict[str, Any]) -> list[str]:
    from interlock.protocol.durations import format_age

    state = row["state"] + (" (not independent)" if row["not_independent"] else "")
    held = str(row["held"]) if row["held"] else "-"
    return [
        row["task"], state, row["assigner"], row["assignee"], format_age(row["age_s"] * 1000), held, row["objective"],
    ]  # fmt: skip


def _show(task: str, form: str) -> int:
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.scrubbing import scrubbed
    from interlock.adapters.task_record import as_markdown, for_terminal

    document = ask_bus("TASK_RECORD", task=task)["task"]
    if form == "json":
        document.pop("assignee_presence")
        if document["report"]:
            document["report"].pop("root")
        say_json(scrubbed(document))
    elif form == "markdown":
        say_out(as_markdown(document).rstrip("\n"))
    elif Given.options.json:
        say_json(document)
    else:
        say_out(for_terminal(document))
    return 0


def _speak_as(name: str) -> None:
    given = Given.options
    if given.name not in {"", name} and given.how == "--as":
        raise Failure(64, f"--as {given.name} and --by {name} are two: whoever accepts says so in its own name")
    given.name, given.how = name, "--by"


def _reason(because: str, action: str) -> str:
    if not because.strip():
        raise Failure(64, f"say why, whoever did the work reads it: {ACTIONS[action]}")
    return because


def _say(kind: str, task: str, **fields: Any) -> int:
    from interlock.adapters.cli.asking import say_to_coordinator

    return say_to_coordinator(kind, task=task, **fields)
