"""`bus leases`: who has which paths of this repository."""

from collections.abc import Iterator
from typing import Any

import typer

from interlock.adapters.cli.app import Given


def command(mine: bool = typer.Option(False, "--mine", help="Only yours.")) -> int:
    """Who has which paths of this repository, until when, and who waits. `--json`: one object a line."""
    from interlock.adapters.cli.output import say_json, say_table

    rows = list(leases_here(mine=mine))
    if Given.options.json:
        for row in rows:
            say_json(row)
        return 0
    if not rows:
        from interlock.adapters.cli.options import say_out

        say_out("you have no lease here" if mine else "nobody has a lease here")
        return 0
    say_table(["LEASE", "AGENT", "PATHS", "LEFT", "STATE", "FOR"], [_line(row) for row in rows])
    return 0


def leases_here(*, mine: bool = False, directory: str = "") -> Iterator[dict[str, Any]]:
    """Every lease of the repository that a directory is in, in force first. Args: directory: "" for the current one."""
    from functools import partial

    from interlock.adapters.cli.asking import ask_supervisor, current_directory
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.territory.lease_pages import lease_pages

    directory = directory or current_directory()
    with Connection(Given.options) as connection:
        if mine:
            connection.agent()
        for page in lease_pages(partial(ask_supervisor, connection), directory, mine=mine):
            yield from page["leases"]


def left(row: dict[str, Any]) -> str:
    """How long it lasts, for people."""
    if row["left_s"] is None:
        return f"while {row['bound_to']} lives" if row["bound_to"] else "-"
    from interlock.protocol.durations import format_age

    return format_age(row["left_s"] * 1000)


def _line(row: dict[str, Any]) -> list[str]:
    from interlock.protocol.answers import one_line

    paths = " ".join(row["claims"]) + (" (shared)" if row["shared"] else "")
    state = f"part of {row['parent']}" if row["parent"] and row["state"] == "held" else row["state"]
    return [row["lease"], row["agent"], one_line(paths), left(row), state, one_line(row["purpose"], 40)]
