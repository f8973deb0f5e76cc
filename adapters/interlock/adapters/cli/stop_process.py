"""`bus stop-process`: end one process that is shown to be yours, and leave any other running."""

import signal

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, milliseconds, say_out

WAIT = "10s"


def command(
    pid: int = typer.Argument(..., help="Its number."),
    wait: str = typer.Option(WAIT, "--wait", help="How long it may take to end."),
    task: str = typer.Option("", "--task", metavar="ID", help="Only if it is shown to run for that task of yours."),
    kill: bool = typer.Option(False, "--kill", help="SIGKILL where it has not ended by then."),
) -> int:
    """End one process by its number: looked at in that very moment, and only if it is shown to be yours.

    It is below a command of yours, below the program that you are bound to, or a child of the shell that asks.
    """
    from interlock.adapters.aimed import Look
    from interlock.adapters.cli.guarding import owners_known
    from interlock.adapters.process import fact, gone_within, send_signal
    from interlock.adapters.process_table import age_s, program
    from interlock.protocol.durations import format_age

    wait_ms = milliseconds(wait, "--wait") or 0
    owners, agent = owners_known(Given.options)
    seen = fact(pid) if pid > 0 else None
    if seen is None:
        raise Failure(77, f"no process {pid} is here: it has ended, or it is in another container", "TARGET_ENDED")
    age = format_age(int(age_s(seen.identity.start_ticks) * 1_000))
    shown = f"{pid} ({program(seen.command, seen.name)}, started {age} ago)"
    tie = Look(owners, agent).tie(seen)
    if not tie.is_mine:
        raise Failure(77, f"{shown} is left running, for it is {tie.how}: see bus ps, bus status", "SCOPE_DENIED")
    if task and tie.task != task:
        runs = f"it runs for {tie.task}, and not for {task}" if tie.task else f"nothing connects it with {task}"
        why = f"{shown} is left running: it is {tie.how}, but {runs}: see bus task show {task}"
        raise Failure(77, why, "SCOPE_DENIED")
    how = f"{tie.how}, for {task}" if task else tie.how
    for signum, within_s in ((signal.SIGTERM, wait_ms / 1000), *([(signal.SIGKILL, 5.0)] if kill else [])):
        if not send_signal(seen.identity, signum) and fact(pid) is not None:
            raise Failure(77, f"{shown} is left running, for this user may not signal it", "CAPABILITY_DENIED")
        if gone_within(seen.identity, within_s):
            return _stopped(pid, shown, how, signum)
    raise Failure(75, f"{shown} has not ended within {wait}: wait longer, or say --kill", "RESOURCE_WAIT_TIMEOUT")


def _stopped(pid: int, shown: str, how: str, signum: int) -> int:
    name = signal.Signals(signum).name
    if Given.options.json:
        from interlock.adapters.cli.output import say_json

        say_json({"stopped": pid, "signal": name, "connection": how})
    else:
        say_out(f"STOPPED {shown} by {name}: {how}")
    return 0
