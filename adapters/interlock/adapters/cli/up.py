"""`bus up`: start the supervisor, or say that one runs; make it a service of this login, or undo that."""

import os

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out
from interlock.adapters.paths import Home, find_home


def command(
    foreground: bool = typer.Option(False, "--foreground", help="Serve in this terminal until Ctrl-C."),
    install: bool = typer.Option(False, "--install-service", help="Have systemd or launchd start it by itself."),
    uninstall: bool = typer.Option(False, "--uninstall-service", help="Undo that."),
    as_service: bool = typer.Option(False, "--as-service", hidden=True, help="What the service manager calls."),
    recover: bool = typer.Option(
        False, "--recover", help="First set a database aside that cannot be used, and go on from the state files."
    ),
) -> int:
    """Start the supervisor (exit 0 too where one runs)."""
    from interlock.adapters.cli import service_command
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.connection import SocketRefused
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.cli.starting import start

    if foreground + install + uninstall + as_service > 1:
        raise Failure(64, "one of --foreground, --install-service and --uninstall-service: see bus up --help")
    if as_service:
        return service_command.serve_activated()
    if uninstall:
        return service_command.uninstall()
    home = find_home(Given.options.home)
    try:
        home.down.unlink(missing_ok=True)
    except OSError as error:
        where = home.down if home.root.is_dir() else home.root
        raise Failure(73, f"{where} cannot be used ({error.strerror}): set BUS_HOME to a directory of yours") from None
    if install:
        return service_command.install()
    aside = _set_aside(home) if recover else ""
    if aside and not Given.options.json:
        say_out(f"set aside: {aside}")
    if foreground:
        return _serve()
    if problem := service_command.listen(home, on=True):
        say_err(f"bus: {problem}")
    try:
        started = start(home)
    except SocketRefused:  # one that runs can be asked all the same; none is started from in here
        started = False
    pong = ask_bus("PING", notices=False)
    if Given.options.json:
        facts = {"pid": pong["pid"], "home": pong["home"], "version": pong["version"], "started": started}
        say_json({**facts, "recovery": pong.get("recovery", ""), **({"set_aside": aside} if recover else {})})
    else:
        say_out(f"{'up' if started else 'already running'}: pid {pong['pid']}, home {pong['home']}")
    _compare(str(pong["version"]))
    return 0


def _compare(running: str) -> None:
    """After an upgrade the supervisor is the old one until it is started anew."""
    from importlib.metadata import version

    if running != (mine := version("interlock")):
        say_err(f"bus: it is version {running}, and this command {mine}: bus down, then bus up; servers keep running")


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
    umask = os.umask(0o077)  # ours; servers get the user's
    try:
        serve(home, ready=lambda: say_out(f"up: home {home.root}; Ctrl-C ends it"), pretty=True, umask=umask)
    except AlreadyRunning:
        say_out(f"already running: {holder_sentence(home)}, home {home.root}")
    except CannotServe as error:
        raise Failure(int(error.code), str(error)) from None
    return 0
