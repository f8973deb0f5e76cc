"""`bus join`: register under a name."""

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure


def command(
    name: str = typer.Argument("", help="Default: the worktree's folder name."),
    pid: int = typer.Option(0, "--pid", help="Bind to this process: when it is gone, so is the agent."),
    takeover: bool = typer.Option(False, "--takeover", help="The name is mine, whoever has it now."),
    files: bool = typer.Option(False, "--files", help="Use an inbox folder, and print its path."),
) -> int:
    """Register, bound to the agent client or terminal this runs under."""
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.short import show

    if name and Given.options.how == "--as" and name != Given.options.name:
        raise Failure(64, f"join as {name} or --as {Given.options.name}? say one name")
    with Connection(Given.options) as connection:
        body = {"type": "JOIN", "agent": name or Given.options.name, "pid": pid, "takeover": takeover}
        body |= {"files": True} if files else {}
        frame = connection.ask("supervisor", body=body)
        show(frame, Given.options)
        return int(frame.get("exit", 0))
