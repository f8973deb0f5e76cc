"""Traces: what can be seen of a launch whose end nobody has proved. For a person: no proof, and nothing is signalled.

Programs are named without their arguments, which may hold secrets: what the keeper was told stands in its own report.
"""

from pathlib import Path

from interlock.adapters.launch_result import LaunchResult, read_result
from interlock.adapters.process import fact, marked, probe
from interlock.adapters.process_table import program
from interlock.coordinator.effects import Traces
from interlock.protocol.identity import Identity, Presence

MARKED_MAX = 10  # processes named to a person


def traces(launch: str, keeper: Identity, report: Path) -> Traces:
    """Look for what is left of a launch.

    Args: report: the file that its keeper wrote.
    """
    found = marked(launch)
    named = [f"pid {each.pid} ({program(each.command, each.name)})" for each in found[:MARKED_MAX]]
    more = [f"and {len(found) - MARKED_MAX} more"] if len(found) > MARKED_MAX else []
    return Traces(_keeper_now(keeper), _said(read_result(report), report), (*named, *more))


def _keeper_now(keeper: Identity) -> str:
    """What has the keeper's pid now."""
    match probe(keeper):
        case Presence.ALIVE:
            return f"its keeper (pid {keeper.pid}) still lives"
        case Presence.UNKNOWN:
            return f"its keeper (pid {keeper.pid}) cannot be seen from here"
    now = fact(keeper.pid)
    if now is None:
        return f"its keeper (pid {keeper.pid}) is gone, and nobody has that pid now"
    return (
        f"its keeper (pid {keeper.pid}) is gone; that pid is another process's now ({program(now.command, now.name)})"
    )


def _said(left: LaunchResult, report: Path) -> str:
    """How far the command came, as its keeper's report has it."""
    if left.gone:
        return "its keeper's report says that it was let go, and that its whole tree has ended"
    if left.ended:
        return "its keeper's report says that it was let go, and that its first process has ended"
    if left.went:
        return "its keeper's report says that it was let go, and nothing of its end"
    if left.not_started or left.keeper is not None:
        return "its keeper's report does not say that it was let go: it was not executed"
    return f"its keeper's report ({report.name}) is gone or cannot be read"
