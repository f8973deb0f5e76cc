"""`bus watch`: the live map, `bus map -f`."""

import typer


def command(
    path: str = typer.Argument("", metavar="[PATH]", help="Only what overlaps it: a file, a directory, a glob."),
) -> int:
    """The map of this repository, live: `bus map -f`. Ctrl-C ends it."""
    from interlock.adapters.cli.map import watch

    return watch(path)
