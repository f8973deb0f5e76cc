"""`bus revoke`: a person takes a resource back from whoever has it."""

import typer

from interlock.adapters.cli.app import Given


def command(
    resource: str = typer.Argument(...),
    because: str = typer.Option(..., "--because", metavar="WHY", help="Its owner reads it, and the log keeps it."),
    unit: str = typer.Option("", "--unit", help="Which unit, where several are held."),
    holder: str = typer.Option("", "--holder", metavar="AGENT", help="Whose hold, where there are several."),
) -> int:
    """Take a resource back. Its owner is told, with your words; a command that runs under it is let finish."""
    from interlock.adapters.cli.asking import body_of
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.person import must_be_a_person, user
    from interlock.adapters.cli.short import show

    must_be_a_person("revoking is for a person at a terminal: run it in one, or ask its owner to release it")
    with Connection(Given.options) as connection:
        asked = {"type": "REVOKE", "resource": resource, "because": because, "by": Given.options.name or user()}
        frame = connection.ask("supervisor", body={**asked, "unit": unit, "holder": holder})
        body_of(frame)
        show(frame, Given.options)
    return 0
