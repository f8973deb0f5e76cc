"""`bus release`: give a resource back."""

import typer


def command(
    resource: str = typer.Argument("", help="May be left out where you hold one."),
    fence: int = typer.Option(0, "--fence", min=0, help="Only this hold, whatever has happened since."),
) -> int:
    """Give a resource back (or your place in its queue)."""
    from interlock.adapters.cli.asking import say_to_coordinator

    return say_to_coordinator("RELEASE", resource=resource, fence=fence)
