"""`bus check`: exit 0 only if it is mine now."""

import typer

from interlock.adapters.cli.app import Given


def command(resource: str = typer.Argument(...)) -> int:
    """Exit 0 only if the resource is yours now, and ready; else 77, with when and why it was lost."""
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.short import show

    with Connection(Given.options) as connection:
        connection.agent()
        frame = connection.ask("supervisor", body={"type": "CHECK", "resource": resource})
        show(frame, Given.options)
        return int(frame.get("exit", 0))
