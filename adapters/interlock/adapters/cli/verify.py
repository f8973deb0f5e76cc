"""`bus verify`: the gate at the pull request. Every commit and path of base...head, against the leases of its time."""

import os
from typing import TYPE_CHECKING, Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out

if TYPE_CHECKING:
    from interlock.adapters.territory.history import History
    from interlock.adapters.territory.verification import Report


def command(
    base: str = typer.Option("", "--base", metavar="REV", help="What it is to land on, such as origin/main."),
    head: str = typer.Option("HEAD", "--head", metavar="REV", help="What is to land."),
    leases: str = typer.Option(
        "", "--leases", metavar="FILE", help="From bus export; then no bus is needed. - is stdin."
    ),
    sarif: str = typer.Option("", "--sarif", metavar="FILE", help="Write the violations as SARIF 2.1.0 too."),
) -> int:
    """Check what head brings to base: each path of each commit was under a lease, and nobody else holds it now."""
    from interlock.adapters.cli.asking import here
    from interlock.adapters.cli.history_asked import ask_history
    from interlock.adapters.territory.git_call import Git
    from interlock.adapters.territory.given_file import read_given
    from interlock.adapters.territory.history import EXPORT_BYTES_MAX, check_history, read_history
    from interlock.adapters.territory.problem import Problem
    from interlock.adapters.territory.verification import verify

    if not base:
        raise Failure(64, "say what it is compared with: bus verify --base origin/main")
    directory = here()
    try:
        if leases:
            history, caller = read_history(read_given(leases, EXPORT_BYTES_MAX), leases), _name()
        else:
            document, caller = ask_history(directory)
            history = check_history(document, "the bus's answer")
        report = verify(Git(os.getcwd()), base, head, history, caller)
        if sarif:
            _write_sarif(sarif, report)
    except Problem as problem:
        raise Failure(problem.exit_code, str(problem)) from None
    if not leases:
        _tell(directory, report)
    _show(report, history)
    return 1 if report.violations else 0


def _name() -> str:
    """The name that was given, for commits that say nothing themselves; "" for none. Raises Failure 64."""
    from interlock.protocol.names import why_not_agent

    name = Given.options.name
    why = why_not_agent(name) if name else None
    if why:
        raise Failure(64, why)
    return name


def _tell(directory: str, report: "Report") -> None:
    """Have the bus count how it went; where it cannot, the verification is no less one."""
    from contextlib import suppress

    from interlock.adapters.cli.asking import ask_bus

    counted: dict[str, Any] = {"pairs": report.pairs, "violations": report.causes(), "unknown": len(report.unknown)}
    with suppress(Failure):
        ask_bus("RECORD_VERIFIED", notices=False, directory=directory, **counted)


def _write_sarif(path: str, report: "Report") -> None:
    import json
    from importlib.metadata import version

    from interlock.adapters.territory.given_file import write_given
    from interlock.adapters.territory.sarif import as_sarif

    write_given(path, json.dumps(as_sarif(report, version("interlock")), indent=1).encode() + b"\n")


def _show(report: "Report", history: "History") -> None:
    from interlock.adapters.cli.output import say_json, say_table
    from interlock.adapters.territory.report import COLUMNS, annotations, as_json, rows, summary

    say = say_err if Given.options.json else say_out  # GitHub reads both
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotations(report):
            say(line)
    if Given.options.json:
        say_json(as_json(report, history))
        return
    if report.violations:
        say_table(COLUMNS, rows(report.violations))
    for line in summary(report, history):
        say_out(line)
