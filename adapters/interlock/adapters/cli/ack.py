"""`bus ack`, for --help: the work is done the short way (short.py)."""

import typer


def command(ids: list[str] = typer.Argument(..., metavar="ID…")) -> None:
    """Say that messages have been read."""
