"""`bus handover`: give a resource to the agent that is to have it next."""

import typer


def command(
    resource: str = typer.Argument(help="That you hold."),
    agent: str = typer.Argument(help="Who waits first for it, or who has not asked while nobody waits."),
) -> int:
    """Give a resource back, and name who is next. It overtakes nobody."""
    from interlock.adapters.cli.asking import say_to_coordinator

    return say_to_coordinator("HANDOVER", resource=resource, agent=agent)
