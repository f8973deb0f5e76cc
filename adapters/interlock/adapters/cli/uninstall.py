"""`bus uninstall`: show what bus has made for this user and home, ask, and take it away."""

import contextlib
import os
from typing import Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out
from interlock.adapters.homes import default_root
from interlock.adapters.login_service import LoginService
from interlock.adapters.paths import Home, find_home

PROGRAM = (
    "the program itself goes as it came: pip uninstall interlock, pipx uninstall interlock, uv tool uninstall interlock"
)


def command(
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    anyway: bool = typer.Option(False, "--anyway", help="Although resources are held or waited for."),
) -> int:
    """Remove all that bus has made here: home, service, completion, servers. Shows it and asks first."""
    from interlock.adapters.cli.output import say_json

    home = find_home(Given.options.home)
    plan = _plan(home)
    if not plan:
        say_json({"removed": []}) if Given.options.json else say_out(f"nothing of a bus is at {home.root}; {PROGRAM}")
        return 0
    _refuse_if_in_use(home, anyway)
    if not yes:
        _ask(home, plan)
    removed = _remove(home)
    if Given.options.json:
        say_json({"removed": removed})
        return 0
    for line in removed:
        say_out(f"removed: {line}")
    say_out(PROGRAM)
    return 0


def _plan(home: Home) -> list[str]:
    from interlock.adapters.cli.completion import installed
    from interlock.adapters.uninstalling import own_entries, short_sockets

    service = LoginService(home)
    found = [*own_entries(home), *short_sockets(home), *service.present()]
    if found and _is_the_users_only_one(home):
        found += installed()
    return [str(path) for path in found]


def _refuse_if_in_use(home: Home, anyway: bool) -> None:
    """Whoever holds or waits would lose it without a word. A bus that was down is down again then. Raises Failure."""
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.down import go_down
    from interlock.adapters.cli.starting import start

    if anyway or not home.database.exists():
        return
    was_down = home.down.exists()
    try:
        started = start(home)
        resources = ask_bus("STATUS", notices=False)["resources"]
    except Failure as failure:
        raise Failure(69, f"it cannot be seen who uses the bus ({failure}): if nobody does, --anyway") from None
    used = [each for each in resources if each["holders"] or each["queue"]]
    if used:
        if started:
            go_down(home, stop_servers=False, for_good=was_down)
        why = "; ".join(_use(each) for each in used[:3])
        raise Failure(75, f"the bus is in use: {why}: wait for them, or say --anyway")


def _use(resource: dict[str, Any]) -> str:
    holders = ", ".join(each["agent"] for each in resource["holders"]) or "nobody"
    return f"{resource['resource']} is held by {holders}, {len(resource['queue'])} waiting"


def _ask(home: Home, plan: list[str]) -> None:
    """Raises Failure unless a person says yes."""
    from interlock.adapters.cli.person import must_be_a_person
    from interlock.adapters.uninstalling import foreign_entries, living_keepers

    why = f"this would remove {len(plan)} things in {home.root} and beside it: say --yes, or ask at a terminal"
    must_be_a_person(why, exit_code=64)
    for line in plan:
        say_err(f"  {line}")
    for keeper in living_keepers(home):
        say_err(f"  a server or a command under keeper pid {keeper.pid}, which is stopped")
    for path in foreign_entries(home):
        say_err(f"  {path} is not of bus, and stays")
    if not typer.confirm("Stop the bus with its servers, and remove all that?", err=True):
        raise Failure(75, "nothing was removed")


def _remove(home: Home) -> list[str]:
    from interlock.adapters.cli import completion
    from interlock.adapters.cli.down import go_down
    from interlock.adapters.cli.service_command import remove_service
    from interlock.adapters.cli.starting import start
    from interlock.adapters.uninstalling import StillRunning, living_keepers, remove_home

    completions = _is_the_users_only_one(home)
    if living_keepers(home):  # servers may outlive a supervisor: one is needed to stop them
        with contextlib.suppress(Failure):
            start(home)
    go_down(home, stop_servers=True, for_good=True)
    removed = [line.removeprefix("removed: ") for line in remove_service(home)]
    try:
        removed += map(str, remove_home(home))
    except StillRunning as error:
        raise Failure(75, str(error)) from None
    except OSError as error:
        raise Failure(74, f"{error.filename} cannot be removed ({error.strerror}): mend that, then again") from None
    return [*removed, *map(str, completion.remove() if completions else ())]


def _is_the_users_only_one(home: Home) -> bool:
    """Completion is of the user, not of a home: that of a second one leaves it."""
    return str(home.root) == default_root() or not os.path.isdir(default_root())
