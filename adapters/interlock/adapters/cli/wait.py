"""`bus wait`: resume my ticket; it never makes one."""

import typer

from interlock.adapters.cli.app import Given


def command(
    resources: list[str] = typer.Argument(
        None, metavar="[RESOURCE]...", help="May be left out where you wait for one, or one set."
    ),
    timeout: str = typer.Option("", "--timeout", help="Default: 100s without a terminal, no limit on one."),
) -> int:
    """Wait for your turn: the last line is GRANTED, QUEUED or REVOKED."""
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.waiting import cancel_on_interrupt, deadline, wait_for

    deadline(timeout)
    resource = ",".join(resources or [])
    with Connection(Given.options, quiet_about=resource) as connection:
        connection.agent()
        return cancel_on_interrupt(connection, resource, lambda: wait_for(connection, resource, timeout, Given.options))
