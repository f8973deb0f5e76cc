"""`bus doctor`: what is wrong here, and the one command that mends it."""

import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from interlock.adapters.cli.app import Given


def command(
    quick: bool = typer.Option(False, "--quick", help="Do not have the whole log checked."),
    verify: bool = typer.Option(False, "--verify", help="Replay the whole log too, however long that takes."),
) -> int:
    """Look at everything and change nothing: exit 0 if nothing is wrong, else 1. It starts no supervisor."""
    import sqlite3
    from importlib.metadata import version

    import msgspec

    from interlock.adapters.cli.options import Failure, say_err, say_out
    from interlock.adapters.cli.output import one_line, say_json
    from interlock.adapters.doctor.checks import CHECKS, examine
    from interlock.adapters.doctor.scene import look
    from interlock.adapters.paths import find_home

    if quick and verify:
        raise Failure(64, "--quick leaves out what --verify does: say one of them")
    home = find_home(Given.options.home)
    scene = look(home, os.environ, whole_log=not quick, say=(_say_progress(say_err) if verify else None))
    findings = examine(scene)
    asked, verified = scene.asked, scene.verified
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
    replayed = verified.get("replayed") if verified is not None else None
    if verified is not None and replayed is not None:
        say_out(_replayed(verified, replayed))
    elif verified is not None and not verified.get("broken"):
        say_out(f"the log is whole: {verified['records']} records, to event {verified['seq']}")
        if verify:
            say_out("it was not replayed: this bus is of an older version, or has written nothing yet")
    elif verify and verified is None and not scene.unread:
        say_out("the log was not replayed: there is none, or the bus is replaying it already, or does not answer")
    elif asked is not None and verified is None and not quick:
        say_out("the log is long: not all of it was checked")
    for each in findings:
        say_out(f"{each.about}: {one_line(each.what)}")
        say_out(f"    {one_line(each.mend)}")
    if not findings:
        say_out(f"nothing is wrong ({len(CHECKS)} checks)")
    return 1 if findings else 0


def _replayed(verified: dict[str, Any], replayed: dict[str, Any]) -> str:
    """What was read, and what it agrees with, as one line."""
    line = (
        f"the log is whole: {verified['records']} records ({replayed['first']} to {replayed['last']}), events "
        f"{replayed['first_seq']} to {verified['seq']}, head {replayed['hash']}"
    )
    if replayed.get("differs"):
        return f"{line}; but its replay differs, see below"
    begun = replayed.get("begun_with", 0)
    agrees = [
        *(["what the bus holds"] if replayed.get("live") else []),
        *([f"the snapshot of record {replayed['snapshot']}"] if replayed.get("snapshot") else []),
    ]
    since = f"older records are gone, so from the snapshot of record {begun}" if begun else "from the first record"
    end = f"equals {' and '.join(agrees)}" if agrees else "is sound"
    return f"{line}; its replay ({since}, {replayed['states']} states) {end}"


def _say_progress(say: Callable[[str], None]) -> Callable[[int, int], None]:
    """Says how far it is to a person who waits."""

    def progress(through: int, last: int) -> None:
        if sys.stderr.isatty():
            say(f"read {through} of {max(through, last)} records")

    return progress
