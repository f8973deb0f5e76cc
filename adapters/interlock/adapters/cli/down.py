"""`bus down`: stop the supervisor in order."""

import os
import time

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out
from interlock.adapters.paths import Home

DOWN_S = 30.0


def command(
    stop_servers: bool = typer.Option(
        False, "--stop-servers", help="Stop the servers too; otherwise they keep running."
    ),
) -> int:
    """Stop the supervisor, losing nothing: holds, queues and servers are there again after bus up."""
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.cli.service_command import listen
    from interlock.adapters.paths import find_home

    home = find_home(Given.options.home)
    pid = go_down(home, stop_servers=stop_servers, for_good=True)
    if pid is None:
        _forbid_autostart(home.down)
        if problem := listen(home, on=False):
            say_err(f"bus: {problem}; until then the next command starts the bus")
        say_json({"pid": None}) if Given.options.json else say_out("not running")
        return 0
    say_json({"pid": pid}) if Given.options.json else say_out(f"down: pid {pid}")
    return 0


def go_down(home: Home, *, stop_servers: bool, for_good: bool = False) -> int | None:
    """Have a running supervisor leave in order, and wait for its end.

    Args:
        home: whose.
        stop_servers: the servers too.
        for_good: no command starts another one before `bus up`.

    Returns:
        Its pid; None where none runs.

    Raises:
        Failure: it does not leave.
    """
    from interlock.adapters.cli.connection import Connection, Lost, SocketRefused, connect
    from interlock.adapters.cli.service_command import listen
    from interlock.adapters.process import identify

    try:
        connect(str(home.root)).close()
    except SocketRefused:
        pass  # asked through the folders
    except FileNotFoundError:
        return None
    connection = Connection(Given.options, notices=False)
    connection.open(start=False)
    if for_good:
        _forbid_autostart(home.down)
        if problem := listen(home, on=False):  # a service manager would start another one for the next command
            say_err(f"bus: {problem}; until then the next command starts the bus")
    pid: int = connection.ask("supervisor", again=False, body={"type": "DOWN", "stop_servers": stop_servers})["body"][
        "pid"
    ]
    until = time.monotonic() + DOWN_S + (600 if stop_servers else 0)
    try:
        while time.monotonic() < until:
            connection.receive(1.0)
    except Lost:
        pass
    while identify(pid) is not None and time.monotonic() < until:  # a zombie has ended, whenever it is reaped
        time.sleep(0.02)
    if time.monotonic() >= until:
        raise Failure(75, f"the supervisor (pid {pid}) is still going down: see its log in {home.logs}")
    return pid


def _forbid_autostart(marker: "os.PathLike[str]") -> None:
    """Until the next `bus up` no command starts a supervisor by itself."""
    try:
        with open(marker, "w"):
            pass
    except OSError:
        pass  # There is no home at all: then nothing can be started by mistake either.
