"""`bus up`: start the supervisor, or say that one runs."""

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_out
from interlock.adapters.paths import Home, find_home


def command(
    foreground: bool = typer.Option(False, "--foreground", help="Serve in this terminal until Ctrl-C."),
    recover: bool = typer.Option(
        False, "--recover", help="First set a database aside that cannot be used, and go on from the state files."
    ),
) -> int:
    """Start the supervisor (exit 0 too where one runs)."""
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.cli.starting import start

    home = find_home(Given.options.home)
    try:
        home.down.unlink(missing_ok=True)
    except OSError as error:
        raise Failure(
            73, f"{home.root} cannot be used ({error.strerror}): set BUS_HOME to a directory of yours"
        ) from None
    aside = _set_aside(home) if recover else ""
    if aside and not Given.options.json:
        say_out(f"set aside: {aside}")
    if foreground:
        return _serve()
    started = start(home)
    pong = ask_bus("PING", notices=False)
    if Given.options.json:
        facts = {"pid": pong["pid"], "home": pong["home"], "version": pong["version"], "started": started}
        say_json({**facts, "recovery": pong.get("recovery", ""), **({"set_aside": aside} if recover else {})})
    else:
        say_out(f"{'up' if started else 'already running'}: pid {pong['pid']}, home {pong['home']}")
    return 0


def _set_aside(home: Home) -> str:
    """Where the old database is now. Raises Failure."""
    from interlock.adapters.flock import holder
    from interlock.adapters.set_aside import InUse, set_aside

    try:
        return set_aside(home) if home.root.is_dir() else ""
    except InUse:
        pid = holder(home.lock).get("pid", "unknown")
        why = f"a supervisor runs here (pid {pid}) and uses its database: bus down, then bus up --recover"
        raise Failure(75, why) from None
    except OSError as error:
        raise Failure(73, f"{home.database} cannot be set aside ({error.strerror}): move it away yourself") from None


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
