"""`bus down`: stop the supervisor in order."""

import os
import time

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_out

DOWN_S = 30.0


def command(
    stop_servers: bool = typer.Option(
        False, "--stop-servers", help="Stop the servers too; otherwise they keep running."
    ),
) -> int:
    """Stop the supervisor, losing nothing: holds, queues and servers are there again after bus up."""
    from interlock.adapters.cli.connection import Connection, Lost, SocketRefused, connect
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.paths import find_home
    from interlock.adapters.process import identify

    home = find_home(Given.options.home)
    try:
        connect(str(home.root)).close()
    except SocketRefused:
        pass  # asked through the folders
    except FileNotFoundError:
        _forbid_autostart(home.down)
        say_json({"pid": None}) if Given.options.json else say_out("not running")
        return 0
    connection = Connection(Given.options, notices=False)
    connection.open(start=False)
    _forbid_autostart(home.down)
    pid = connection.ask("supervisor", again=False, body={"type": "DOWN", "stop_servers": stop_servers})["body"]["pid"]
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
    say_json({"pid": pid}) if Given.options.json else say_out(f"down: pid {pid}")
    return 0


def _forbid_autostart(marker: "os.PathLike[str]") -> None:
    """Until the next `bus up` no command starts a supervisor by itself."""
    try:
        with open(marker, "w"):
            pass
    except OSError:
        pass  # There is no home at all: then nothing can be started by mistake either.
