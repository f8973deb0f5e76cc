"""`bus extend`: I still need it."""

import typer


def command(
    resource: str = typer.Argument("", help="May be left out where you hold one."),
    purpose: str = typer.Option("", "--for", help="What for."),
    time: str = typer.Option("", "--time", help="How much longer, such as 20m."),
) -> int:
    """Say that you still need what you hold: it answers a poll."""
    from interlock.adapters.cli.asking import say_to_coordinator
    from interlock.adapters.cli.options import milliseconds

    return say_to_coordinator("EXTEND", resource=resource, purpose=purpose, time_ms=milliseconds(time, "--time"))
