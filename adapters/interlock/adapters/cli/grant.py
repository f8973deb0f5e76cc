"""`bus grant`: the controller of a resource says which ticket is next."""

import typer


def command(
    request_id: str = typer.Argument(..., metavar="REQUEST_ID", help="Of the ticket: see bus inbox, or bus status."),
    epoch: int = typer.Option(0, "--epoch", min=0, help="Only under this policy; default: whichever there is."),
) -> int:
    """Grant a ticket of a resource whose controller you are."""
    from interlock.adapters.cli.asking import say_to_coordinator

    return say_to_coordinator("GRANT", request_id=request_id, epoch=epoch)
