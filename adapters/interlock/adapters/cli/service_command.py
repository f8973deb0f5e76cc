"""`bus up --install-service`, `--uninstall-service`, and what the service manager itself calls."""

import os

from interlock.adapters.activation import BadActivation, activated_socket, notify, turn_away
from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out
from interlock.adapters.login_service import LoginService, ServiceError
from interlock.adapters.paths import BadHome, Home, find_home
from interlock.protocol.codes import Exit


def install() -> int:
    """Write the files, and hand a running supervisor over to the service manager. Raises Failure."""
    from interlock.adapters.cli.asking import ask_bus

    home = find_home(Given.options.home)
    service = LoginService(home)
    try:
        home.create()
        home.socket_directory()
        changed = service.write()
        try:
            ran = service.runs()
            if not ran:
                _leave(home)  # else two would listen at one path
            service.enable()
            if ran and changed:
                service.restart()
        except ServiceError as error:
            files = ", ".join(map(str, service.files()))
            raise Failure(69, f"written, but not enabled: {files}: {error}") from None
    except ServiceError as error:
        raise Failure(73, str(error)) from None
    except BadHome as error:
        raise Failure(73, str(error)) from None
    pong = ask_bus("PING", notices=False)
    for path in service.files():
        say_out(f"{'wrote' if changed else 'as it was'}: {path}")
    say_out(f"up: pid {pong['pid']}, home {pong['home']}, as the service {service.name} of this login")
    say_out("to undo it: bus up --uninstall-service")
    return 0


def uninstall() -> int:
    """Undo `install`; the bus and its servers go on as without a service. Raises Failure."""
    home = find_home(Given.options.home)
    said = remove_service(home)
    for line in said or ["no service of this home is installed"]:
        say_out(line)
    return 0


def remove_service(home: Home) -> list[str]:
    """Have the manager forget the service, and remove its files; what was done, as lines."""
    service, problem = LoginService(home), ""
    if service.installed():
        try:
            service.disable()
        except ServiceError as error:  # a manager that is not there runs nothing
            problem = str(error).partition(":")[0]
    removed = [f"removed: {path}" for path in service.remove()]
    if removed:
        service.reload()
    return [*removed, *([f"{problem}: a manager that still knows it forgets it at the next login"] if problem else [])]


def listen(home: Home, *, on: bool) -> str:
    """Where this home has a service: have its manager listen, or not. Returns a sentence where that failed, else ""."""
    try:
        LoginService(home).listen(on)
    except ServiceError as error:
        return str(error)
    return ""


def serve_activated() -> int:
    """Serve as the manager's child, at its socket where it has one. Raises Failure, never to be retried in vain."""
    from interlock.adapters.service import AlreadyRunning, CannotServe, holder_sentence, serve

    home = find_home(Given.options.home)
    try:
        listening = activated_socket(home.socket())
    except BadActivation as error:
        raise Failure(78, str(error)) from None
    try:
        if home.down.exists():
            raise CannotServe(Exit.UNAVAILABLE, "the bus was taken down with bus down: bus up starts it again")
        umask = os.umask(0o077)  # ours; servers get the user's
        serve(home, ready=lambda: notify("READY=1\nSTATUS=serving"), pretty=False, umask=umask, inherited=listening)
    except AlreadyRunning:
        if listening is None:
            say_err(f"bus: already running: {holder_sentence(home)}")
            return 0
        turn_away(listening)
        raise Failure(75, f"{holder_sentence(home)} holds {home.lock}: end that supervisor with bus down") from None
    except CannotServe as error:
        if listening is None and home.down.exists():
            return 0  # a manager without activation starts us at login: then there is nothing to do
        if listening is not None:
            turn_away(listening)
        raise Failure(int(error.code), str(error)) from None
    return 0


def _leave(home: Home) -> None:
    """A supervisor that runs on its own leaves in order, losing nothing."""
    from interlock.adapters.cli.down import go_down

    go_down(home, stop_servers=False)
