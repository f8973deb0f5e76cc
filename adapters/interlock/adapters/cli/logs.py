"""`bus logs`: what the server prints."""

import time

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure

FOLLOW_S = 0.2


def command(
    resource: str = typer.Argument("", help="May be left out where you hold one."),
    follow: bool = typer.Option(False, "-f", "--follow", help="Go on as it grows."),
    lines: int = typer.Option(200, "-n", min=0, help="How many lines to begin with."),
) -> int:
    """Show the log of a resource's server."""
    import sys

    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.output import say_json

    path = ask_bus("LOGS", resource=resource)["path"]
    if Given.options.json:
        say_json({"path": path})
        return 0
    try:
        with open(path, "rb") as file:
            tail = file.read().splitlines(keepends=True)[-lines:] if lines else []
            file.seek(0, 2)
            sys.stdout.buffer.writelines(tail)
            sys.stdout.buffer.flush()
            while follow:
                chunk = file.read()
                if chunk:
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
                else:
                    time.sleep(FOLLOW_S)
    except OSError as error:
        raise Failure(74, f"{path} cannot be read: {error.strerror}") from None
    return 0
