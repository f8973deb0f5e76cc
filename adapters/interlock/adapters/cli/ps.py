"""`bus ps`: every managed command, what it runs under, its processes, and what it left behind; `--stop` ends one."""

import os
from typing import TYPE_CHECKING, Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out

if TYPE_CHECKING:
    from interlock.protocol.identity import Identity

STOPPED_WITHIN_S = 45.0  # SIGTERM, 30 s, SIGKILL, and the last look of its keeper
SHOWN = 5  # processes of one command that are named to a person


def command(
    stop: str = typer.Option("", "--stop", metavar="LAUNCH", help="End this one: SIGTERM, after 30 s SIGKILL."),
) -> int:
    """Every command of `bus run` that is under way, its processes, and build daemons that such a command left."""
    from interlock.adapters.cli.asking import ask_supervisor
    from interlock.adapters.cli.connection import Connection

    with Connection(Given.options) as connection:
        commands = ask_supervisor(connection, {"type": "COMMANDS"})["commands"]
        if stop:
            return _stop(stop, commands, str(connection.welcome.get("agent", "")))
        return _show(commands, connection.root)


# --- bus ps ---------------------------------------------------------------------------------
def _show(commands: list[dict[str, Any]], root: str) -> int:
    from interlock.adapters.cli.output import one_line, say_json, say_table
    from interlock.adapters.launch_tree import Processes
    from interlock.protocol.durations import format_age

    look = Processes()
    for each in commands:
        each["processes"] = [member._asdict() for member in look.below(_keeper(each))]
    left = [each._asdict() for each in look.left_behind(root, {each["keeper_pid"] for each in commands})]
    on_record = {each["launch"]: each["processes"] for each in commands}
    for each in [each for each in left if each["launch"] in on_record]:  # its keeper was killed: it holds all the same
        on_record[each["launch"]].append({"pid": each["pid"], "program": each["program"]})
        left.remove(each)
    if Given.options.json:
        say_json({"commands": commands, "left": left})
        return 0
    rows = [
        [
            each["launch"], each["agent"], each["command"], each["state"], format_age(each["age_s"] * 1000),
            ", ".join([*each["holds"], *each.get("leases", ())]) or "-", _members(each["processes"]),
        ]
        for each in commands
    ]  # fmt: skip
    if rows:
        say_table(["LAUNCH", "AGENT", "COMMAND", "STATE", "SINCE", "UNDER", "PROCESSES"], rows)
    else:
        say_out("no command of bus run is under way")
    for each in commands:
        if each["blocks"]:
            say_out(f"{each['launch']} holds up {', '.join(each['blocks'])}: its policy came later, and covers it")
        if each.get("why"):
            say_out(f"{each['launch']}: {one_line(each['why'])} - look at it, then: bus recover {each['launch']}")
    for daemon in left:
        say_out(f"left by {daemon['launch']}, holding nothing: {daemon['program']} (pid {daemon['pid']})")
    return 0


def _members(processes: list[dict[str, Any]]) -> str:
    named = ", ".join(f"{each['program']} ({each['pid']})" for each in processes[:SHOWN])
    more = f" and {len(processes) - SHOWN} more" if len(processes) > SHOWN else ""
    return named + more or "-"


def _keeper(command: dict[str, Any]) -> "Identity":
    import msgspec

    from interlock.protocol.identity import Identity

    return msgspec.convert(command["keeper"], Identity)


# --- bus ps --stop --------------------------------------------------------------------------
def _stop(launch: str, commands: list[dict[str, Any]], me: str) -> int:
    """Ask its keeper, which alone knows the whole tree, to end it; 0 once it is gone."""
    import signal

    from interlock.adapters.process import gone_within, send_signal

    found = next((each for each in commands if each["launch"] == launch), None)
    if found is None:
        raise Failure(77, f"no command {launch!r} is under way: bus ps lists all", "TARGET_ENDED")
    if found["agent"] != me and not os.isatty(0):
        why = f"{launch} is {found['agent']}'s: its owner may stop it, or a person at a terminal"
        raise Failure(77, why, "NOT_HOLDER")
    keeper = _keeper(found)
    if not send_signal(keeper, signal.SIGTERM):
        how = f"end what bus ps still shows of it, then bus recover {launch}"
        why = f"the keeper of {launch} (pid {keeper.pid}) is gone: {how}"
        raise Failure(77, why, "TARGET_ENDED")
    said = f"{launch}, {found['command']} of {found['agent']} (keeper pid {keeper.pid})"
    say_err(f"SIGTERM to all of {said}; what lives on after 30 s is killed")
    if not gone_within(keeper, STOPPED_WITHIN_S):
        raise Failure(75, f"{launch} still has living processes {STOPPED_WITHIN_S:.0f} s after SIGTERM: bus ps")
    if Given.options.json:
        from interlock.adapters.cli.output import say_json

        say_json({"stopped": launch})
    else:
        say_out(f"STOPPED {said}: its whole tree is gone")
    return 0
