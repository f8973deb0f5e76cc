"""`bus logs`: what the server prints."""

import time

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, write_out

FOLLOW_S = 0.2
AGAIN_S = 0.3
BEGINS = {"launch_started", "step_done"}  # events after which there may be another log


def command(
    resource: str = typer.Argument("", help="May be left out where you hold one."),
    follow: bool = typer.Option(
        False, "-f", "--follow", help="Go on as it grows, and with the next log after a restart."
    ),
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
        at = _show(path, 0, lines)
        if follow:
            _follow(path, at, resource, unit)
    except OSError as error:
        raise Failure(74, f"{path} cannot be read ({error.strerror}): bus tail names every log") from None
    return 0


def _show(path: str, at: int, lines: int | None = None) -> int:
    """Show what a log has after so many bytes, or the last lines of that; where it ends now. Raises OSError."""
    with open(path, "rb") as file:
        file.seek(at)
        data = file.read()
    shown = data if lines is None else b"".join(data.splitlines(keepends=True)[-lines:] if lines else [])
    if shown:
        write_out(shown)
    return at + len(data)


def _follow(path: str, at: int, resource: str, unit: str) -> None:
    """Go on as it grows, and with the next log once the server was started anew, over restarts of the supervisor."""
    from interlock.adapters.cli.connection import Connection, Lost

    while True:
        try:
            with Connection(Given.options, notices=False) as connection:
                connection.tell("supervisor", body={"type": "TAIL", "last": 1, "follow": True, "resource": resource})
                is_new = True  # it may have been, before we heard of anything
                while True:
                    at = _show(path, at)
                    now = _log_now(resource, unit) if is_new else ""
                    if now and now != path:
                        _show(path, at)  # its end
                        say_err(f"bus: {resource or 'the server'} was started anew, its log is {now}")
                        path, at = now, 0
                    frame = connection.receive(FOLLOW_S)
                    body = frame.get("body", {})
                    is_new = any(each["type"] in BEGINS for each in body.get("events", ()))
                    if body.get("type") == "REFUSED":
                        raise Failure(int(frame.get("exit", 74)), body["why"], body["code"])
        except Lost:
            time.sleep(AGAIN_S)
        except Failure as failure:
            if failure.exit_code != 69:
                raise
            say_err(f"bus: {failure}")
            time.sleep(AGAIN_S)
        at = _show(path, at)


def _log_now(resource: str, unit: str) -> str:
    """The log of what runs now; "" where nothing does, or none is mine any more."""
    try:
        return log_of(resource, unit)
    except Failure as failure:
        if failure.exit_code == 69:
            raise
        return ""


def log_of(resource: str, unit: str = "") -> str:
    """The path of the log of a resource's server, or of the one I hold. Raises Failure."""
    from interlock.adapters.cli.asking import ask_supervisor
    from interlock.adapters.cli.connection import Connection

    with Connection(Given.options) as connection:
        if not resource:
            connection.agent()
        asked = {"type": "LOGS", "resource": resource, "unit": unit}
        path: str = ask_supervisor(connection, asked)["path"]
        return path
