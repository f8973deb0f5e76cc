"""`bus request`: ask for a resource. Exit 0 means yours, 75 that you have a place in the queue."""

import signal

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure


def command(
    resources: list[str] = typer.Argument(..., metavar="RESOURCE"),
    purpose: str = typer.Option("", "--for", help="What for; others read it."),
    time: str = typer.Option("", "--time", help="How long you expect to need it, such as 20m."),
    worktree: str = typer.Option("", "--worktree", help="Default: the git top here."),
    wait: str = typer.Option(None, "--wait", help="Wait so long for it; the place stays when time is up."),
    task: str = typer.Option("", "--task", metavar="ID", help="For that task of yours, within its bounds."),
    no_wait: bool = typer.Option(False, "--no-wait", help="Do not even queue."),
    request_id: str = typer.Option(
        "", "--request-id", help="Name the ticket yourself; the same id is the same request."
    ),
) -> int:
    """Ask for a resource, or several together: GRANTED (all) and exit 0, or QUEUED (none) and exit 75."""
    import os

    from interlock.adapters.cli.asking import here
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.options import milliseconds
    from interlock.adapters.cli.short import show
    from interlock.adapters.cli.waiting import cancel_on_interrupt, deadline, wait_for

    if wait is not None and no_wait:
        raise Failure(64, "--wait and --no-wait exclude each other")
    if wait is not None:
        deadline(wait)
    body = {
        "type": "REQUEST",
        "resource": ",".join(resources),
        "worktree": os.path.abspath(worktree) if worktree and worktree != "-" else worktree or here(),
        "purpose": purpose,
        "time_ms": milliseconds(time, "--time"),
        "queue": not no_wait,
        "task": task,
    }
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with Connection(Given.options, quiet_about=",".join(resources)) as connection:
        connection.agent()
        frame = connection.ask("coordinator", message_id=request_id, body=body)
        queued = frame["body"].get("type") == "QUEUED"
        if not queued or wait is None or not Given.options.json:
            show(frame, Given.options)
        if not queued or wait is None:
            return int(frame.get("exit", 0))
        resource = frame["body"]["resource"]
        return cancel_on_interrupt(connection, resource, lambda: wait_for(connection, resource, wait, Given.options))
