"""`bus doctor`: what is wrong here, and the one command that mends it."""

import os
import sys

import typer

from interlock.adapters.cli.app import Given


def command(
    quick: bool = typer.Option(False, "--quick", help="Do not have the whole log checked."),
) -> int:
    """Look at everything and change nothing: exit 0 if nothing is wrong, else 1. It starts no supervisor."""
    import sqlite3
    from importlib.metadata import version

    import msgspec

    from interlock.adapters.cli.options import say_out
    from interlock.adapters.cli.output import one_line, say_json
    from interlock.adapters.doctor.checks import CHECKS, examine
    from interlock.adapters.doctor.scene import look
    from interlock.adapters.paths import find_home

    home = find_home(Given.options.home)
    scene = look(home, os.environ, whole_log=not quick)
    findings = examine(scene)
    asked = scene.asked
    verified = asked.verified if asked is not None else None
    facts = {
        "interlock": version("interlock"),
        "python": sys.version.split()[0],
        "sqlite": sqlite3.sqlite_version,
        "home": str(home.root),
        "supervisor": asked.health["pid"] if asked is not None else None,
        "log": verified,
    }
    if Given.options.json:
        say_json({"ok": not findings, "facts": facts, "findings": [msgspec.to_builtins(each) for each in findings]})
        return 1 if findings else 0
    running = f"supervisor pid {facts['supervisor']}" if asked is not None else "no supervisor answers"
    say_out(
        f"interlock {facts['interlock']}, Python {facts['python']}, SQLite {facts['sqlite']}; {home.root}: {running}"
    )
    if verified is not None and not verified.get("broken"):
        say_out(f"the log is whole: {verified['records']} records, to event {verified['seq']}")
    elif asked is not None and verified is None and not quick:
        say_out("the log is long: not all of it was checked")
    for each in findings:
        say_out(f"{each.about}: {one_line(each.what)}")
        say_out(f"    {one_line(each.mend)}")
    if not findings:
        say_out(f"nothing is wrong ({len(CHECKS)} checks)")
    return 1 if findings else 0
