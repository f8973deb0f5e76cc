"""`bus restart`: the same server again, for its holder."""

import typer

from interlock.adapters.cli.app import Given


def command(
    resource: str = typer.Argument("", help="May be left out where you hold one."),
    timeout: str = typer.Option("5m", "--timeout", help="How long to wait until it is up again."),
) -> int:
    """Restart the server you hold, from the same worktree, and wait until it is up."""
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.short import show
    from interlock.adapters.cli.waiting import deadline, wait_for

    deadline(timeout)
    with Connection(Given.options, quiet_about=resource) as connection:
        connection.agent()
        frame = connection.ask("coordinator", body={"type": "RESTART", "resource": resource})
        if frame["body"].get("type") != "QUEUED":
            show(frame, Given.options)
            return int(frame.get("exit", 0))
        return wait_for(connection, frame["body"]["resource"], timeout, Given.options)
