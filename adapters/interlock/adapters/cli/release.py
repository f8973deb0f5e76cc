"""`bus release`: give a resource back."""

import typer


def command(
    resources: list[str] = typer.Argument(None, metavar="[RESOURCE]...", help="May be left out where you hold one."),
    fence: int = typer.Option(0, "--fence", min=0, help="Only this hold, whatever has happened since."),
) -> int:
    """Give resources back (or your place in their queues): all that you name, or none."""
    from interlock.adapters.cli.asking import say_to_coordinator

    return say_to_coordinator("RELEASE", resource=",".join(resources or []), fence=fence)
