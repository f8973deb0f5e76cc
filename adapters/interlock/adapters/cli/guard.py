"""`bus guard`, for --help: the work is done the short way (guarding.py)."""

import typer

SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def command(words: list[str] = typer.Argument(..., metavar="-- COMMAND…")) -> None:
    """Run a command, unless it would end processes that are not yours: by name, by port, or by a number.

    It looks through shells, env, sudo and xargs at pkill, killall, kill, fuser, lsof, taskkill and Stop-Process.
    """
