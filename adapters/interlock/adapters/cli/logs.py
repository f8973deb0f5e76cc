"""`bus logs`: what the server prints."""

import time

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, write_out

FOLLOW_S = 0.2


def command(
    resource: str = typer.Argument("", help="May be left out where you hold one."),
    follow: bool = typer.Option(False, "-f", "--follow", help="Go on as it grows."),
    lines: int = typer.Option(200, "-n", min=0, help="How many lines to begin with."),
    unit: str = typer.Option("", "--unit", help="Of a pool; yours may be left out."),
) -> int:
    """Show the log of a resource's server, or of its last command."""
    from interlock.adapters.cli.output import say_json

    path = log_of(resource, unit)
    if Given.options.json:
        say_json({"path": path})
        return 0
    try:
        with open(path, "rb") as file:
            begun = file.read().splitlines(keepends=True)
            write_out(b"".join(begun[-lines:] if lines else []))
            while follow:
                chunk = file.read()
                if chunk:
                    write_out(chunk)
                else:
                    time.sleep(FOLLOW_S)
    except OSError as error:
        raise Failure(74, f"{path} cannot be read ({error.strerror}): bus tail names every log") from None
    return 0


def log_of(resource: str, unit: str = "") -> str:
    """The path of the log of a resource's server, or of the one I hold. Raises Failure."""
    from interlock.adapters.cli.asking import body_of
    from interlock.adapters.cli.connection import Connection

    with Connection(Given.options) as connection:
        if not resource:
            connection.agent()
        asked = {"type": "LOGS", "resource": resource, "unit": unit}
        path: str = body_of(connection.ask("supervisor", body=asked))["path"]
        return path
