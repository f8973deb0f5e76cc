"""`bus cancel`: leave a queue."""

import typer


def command(resource: str = typer.Argument("", help="May be left out where you wait for one.")) -> int:
    """Take yourself out of a queue; of several asked for together, out of all of them."""
    from interlock.adapters.cli.asking import say_to_coordinator

    return say_to_coordinator("CANCEL", resource=resource)
