"""`bus up`: start the supervisor, or say that one runs."""

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_out
from interlock.adapters.paths import find_home


def command(
    foreground: bool = typer.Option(False, "--foreground", help="Serve in this terminal until Ctrl-C."),
) -> int:
    """Start the supervisor (exit 0 too where one runs)."""
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.connection import SocketRefused
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.cli.starting import start

    home = find_home(Given.options.home)
    try:
        home.down.unlink(missing_ok=True)
    except OSError as error:
        raise Failure(
            73, f"{home.root} cannot be used ({error.strerror}): set BUS_HOME to a directory of yours"
        ) from None
    if foreground:
        return _serve()
    try:
        started = start(home)
    except SocketRefused:  # one that runs can be asked all the same; none is started from in here
        started = False
    pong = ask_bus("PING", notices=False)
    if Given.options.json:
        say_json({"pid": pong["pid"], "home": pong["home"], "version": pong["version"], "started": started})
    else:
        say_out(f"{'up' if started else 'already running'}: pid {pong['pid']}, home {pong['home']}")
    return 0


def _serve() -> int:
    from interlock.adapters.service import AlreadyRunning, CannotServe, holder_sentence, serve

    home = find_home(Given.options.home)
    try:
        serve(home, ready=lambda: say_out(f"up: home {home.root}; Ctrl-C ends it"), pretty=True)
    except AlreadyRunning:
        say_out(f"already running: {holder_sentence(home)}, home {home.root}")
    except CannotServe as error:
        raise Failure(int(error.code), str(error)) from None
    return 0
