"""`bus hooks`: git's hooks, put in beside whatever is there, looked at, and taken away again."""

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_out

if TYPE_CHECKING:
    from interlock.adapters.territory.hook_place import HookPlace
    from interlock.adapters.territory.hook_record import Record

ACTIONS = ("install", "remove")


def command(
    action: str = typer.Argument("", help="install or remove; nothing: how they are."),
    mode: str = typer.Option("", "--mode", metavar="MODE", help="advisory: warn (default); hard_fail: refuse."),
) -> int:
    """Have commits and pushes checked against leases: `install` hooks for all worktrees, or `remove` them."""
    from interlock.adapters.territory.hook_files import CannotInstall
    from interlock.adapters.territory.hook_place import NoPlace, hook_place
    from interlock.adapters.territory.hook_record import Busy
    from interlock.adapters.territory.hook_text import MODES

    if action not in {"", *ACTIONS}:
        raise Failure(64, f"no action {action!r}: bus hooks, bus hooks install or bus hooks remove")
    if mode and (action != "install" or mode not in MODES):
        raise Failure(64, f"--mode goes with bus hooks install, and is {' or '.join(MODES)}")
    try:
        place = hook_place(os.path.realpath(os.getcwd()))
    except FileNotFoundError:
        raise Failure(64, "the current directory is gone: cd into one that exists") from None
    except NoPlace as error:
        raise Failure(64, str(error)) from None
    try:
        if action == "install":
            return _install(place, mode)
        return _remove(place) if action == "remove" else _show(place)
    except Busy:
        raise Failure(75, "another bus hooks is at work in this repository: say the same again") from None
    except CannotInstall as error:
        raise Failure(73, str(error)) from None
    except OSError as error:
        raise Failure(73, f"{error.filename or place.common}: {error.strerror}: mend that, then again") from None


def _configured_mode() -> str:
    """What the repository's bus.toml says, "" where it says nothing, or does not count."""
    from interlock.adapters.configuration import look_here
    from interlock.adapters.paths import find_home
    from interlock.coordinator.toml_values import ConfigError

    try:
        return look_here(find_home(Given.options.home), os.path.realpath(os.getcwd())).territory.mode
    except ConfigError as error:
        raise Failure(78, str(error)) from None


def _install(place: "HookPlace", mode: str) -> int:
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.territory.hook_files import install
    from interlock.protocol.visible import unhidden

    record, changed = install(place, mode=mode or _configured_mode(), bus=_this_bus())
    if Given.options.json:
        say_json({"installed": True, "changed": changed, **_facts(record)})
        return 0
    where = unhidden(record.directory)
    say_out(f"{'INSTALLED' if changed else 'installed already:'} {', '.join(record.hooks)} in {where}, {record.mode}")
    if record.own:
        say_out(
            f"core.hooksPath led to {unhidden(record.former)}: nothing there was touched, and its hooks are run first"
        )
    elif kept := [hook for hook in record.hooks if os.path.lexists(os.path.join(_kept(place), hook))]:
        say_out(f"{', '.join(kept)} was there before: it is kept in {unhidden(_kept(place))}, and run first")
    say_out("all worktrees of this repository have them; git commit --no-verify passes them by, bus verify does not")
    return 0


def _remove(place: "HookPlace") -> int:
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.territory.hook_files import NothingInstalled, remove
    from interlock.protocol.visible import unhidden

    try:
        record, notes = remove(place)
    except NothingInstalled as error:
        say_json({"installed": False, "notes": []}) if Given.options.json else say_out(str(error))
        return 0
    if Given.options.json:
        say_json({"installed": False, "notes": notes, **_facts(record)})
        return 0
    what = "core.hooksPath" if record.own else unhidden(record.directory)
    say_out(f"REMOVED {', '.join(record.hooks)}: {what} is as it was before" + (", but for this:" if notes else ""))
    for note in notes:
        say_out(f"note: {unhidden(note)}")
    return 0


def _show(place: "HookPlace") -> int:
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.territory.hook_files import look, why_off
    from interlock.protocol.visible import unhidden

    seen = look(place)
    if Given.options.json:
        more = _facts(seen.record) if seen.record is not None else {}
        say_json({"installed": seen.record is not None, "works": seen.works, "states": seen.hooks, **more})
        return 0
    if seen.record is None:
        say_out("no hooks of bus are installed here - next: bus hooks install")
        return 0
    say_out(f"{seen.record.mode}, since {seen.record.at}, in {unhidden(seen.record.directory)}")
    for hook, state in seen.hooks.items():
        say_out(f"  {hook}: {state}")
    if not seen.works:
        say_out(f"they are switched off: {unhidden(why_off(place, seen))} - next: bus hooks install")
    return 0


def _facts(record: "Record") -> dict[str, Any]:
    return {
        "mode": record.mode, "directory": record.directory, "hooks": list(record.hooks), "since": record.at,
        "core_hooks_path": record.former if record.own else None,
    }  # fmt: skip


def _kept(place: "HookPlace") -> str:
    from interlock.adapters.territory.hook_place import KEPT

    return os.path.join(place.common, KEPT)


def _this_bus() -> str:
    """The command that hooks call: the one beside this interpreter, else that of PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "bus")
    return beside if os.access(beside, os.X_OK) else shutil.which("bus") or ""
