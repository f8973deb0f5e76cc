"""`bus receipt`: how far a message has come."""

import typer

from interlock.adapters.cli.app import Given


def command(message_id: str = typer.Argument(..., metavar="ID")) -> int:
    """Say whether a message is queued, delivered or acked (read; that is not: begun, done or approved)."""
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.options import say_out
    from interlock.adapters.cli.output import say_json

    receipt = ask_bus("RECEIPT", id=message_id)
    if Given.options.json:
        say_json({key: value for key, value in receipt.items() if key != "type"})
    else:
        say_out(f"{receipt['id']} to {receipt['to']}: {receipt['state']}")
    return 0
