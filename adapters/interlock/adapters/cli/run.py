"""`bus run`, for --help: the work is done the short way (running.py)."""

import typer

SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def command(
    words: list[str] = typer.Argument(..., metavar="-- COMMAND…"),
    resource: list[str] = typer.Option(
        [], "--resource", "-r", metavar="R", help="What it needs; several: all or none."
    ),
    lease: list[str] = typer.Option(
        [], "--lease", metavar="PATH", help="Paths that it will change; several: all or none."
    ),
    shared: bool = typer.Option(False, "--shared", help="Others may share the lease, if all of them do."),
    task: str = typer.Option("", "--task", metavar="ID", help="For that task of yours: its end is on its record."),
    ticket: str = typer.Option("", "--ticket", metavar="ID", help="Run under this request of yours."),
    time_: str = typer.Option("", "--time", help="How long you expect it to take."),
    wait: str = typer.Option("", "--wait", help="How long to wait for the grant (default: [bus] wait, 5m)."),
    purpose: str = typer.Option("", "--for", help="What for; default: the program's name."),
    unavailable: str = typer.Option("fail", "--if-unavailable", metavar="fail|run", help="Where there is no bus."),
) -> None:
    """Run a command: under what it needs, and what policies say that it needs. It is given back, whatever happens."""
