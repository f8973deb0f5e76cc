"""`bus forget`: repositories that are gone, with what was trusted of them and what is on record of their resources."""

import os
from typing import TYPE_CHECKING

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, fail, say_out

if TYPE_CHECKING:
    from interlock.adapters.configuration import Here
    from interlock.coordinator.repositories import Trusted


def command(
    repository: str = typer.Argument("", help="Its directory, or its id."),
    gone: bool = typer.Option(False, "--gone", help="All that are not there any more."),
) -> int:
    """List trusted repositories; forget one, or all that are gone. What is in use is refused."""
    from interlock.adapters.configuration import look_here
    from interlock.adapters.paths import find_home
    from interlock.coordinator.toml_values import ConfigError

    if repository and gone:
        raise Failure(64, "a repository and --gone exclude each other: name one, or say --gone")
    try:
        here = look_here(find_home(Given.options.home), "/")
    except ConfigError as error:
        raise Failure(78, str(error)) from None
    if here.problem:
        raise Failure(78, here.problem.partition(" - ")[0])
    if not repository and not gone:
        return _list(here)
    chosen = [_named(here, repository)] if repository else [each for each in here.trusted if is_gone(each)]
    return _forget(here, chosen)


def _list(here: "Here") -> int:
    from interlock.adapters.cli.output import say_json, say_table

    rows = [[each.id, each.file, "gone" if is_gone(each) else "here"] for each in here.trusted]
    if Given.options.json:
        say_json({"repositories": [dict(zip(("id", "file", "state"), row, strict=True)) for row in rows]})
    elif rows:
        say_table(["REPOSITORY", "FILE", "STATE"], rows)
        if any(row[2] == "gone" for row in rows):
            say_out("next: bus forget --gone")
    else:
        say_out("no repository is trusted: bus config trust PATH")
    return 0


def _named(here: "Here", repository: str) -> "Trusted":
    from interlock.protocol.visible import visible

    path = os.path.realpath(repository)
    for each in here.trusted:
        if repository == each.id or path in {os.path.dirname(each.file), each.file, each.common}:
            return each
    raise Failure(64, f"{visible(repository)} is not among the trusted repositories: bus forget lists them")


def is_gone(trusted: "Trusted") -> bool:
    """Its repository is not there any more: a file alone that is gone may come back with the next checkout."""
    return not os.path.isdir(trusted.common)


def _forget(here: "Here", chosen: list["Trusted"]) -> int:
    """One after the other: first the bus says that nothing of it is in use, then the word of trust goes."""
    from interlock.adapters.cli.asking import ask_supervisor
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.output import say_json
    from interlock.protocol.visible import visible

    done: list[str] = []
    code = 0
    with Connection(Given.options) as connection:
        for each in chosen:
            try:
                ask_supervisor(connection, {"type": "FORGET", "repository": each.id})
            except Failure as failure:
                why = f"{visible(os.path.dirname(each.file))}: {failure}"
                code = fail(Failure(failure.exit_code, why, failure.code), Given.options.json)
                continue
            here.files.distrust([each.id])
            done.append(each.file)
    if done or not code:
        if Given.options.json:
            say_json({"forgotten": done})
        else:
            say_out(
                "\n".join(f"FORGOTTEN {visible(file)}" for file in done) or "nothing is gone: nothing was forgotten"
            )
    return code
