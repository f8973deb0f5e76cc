"""`bus map`: who has which paths of this repository, as a tree."""

import sys

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import say_out


def command(
    path: str = typer.Argument("", metavar="[PATH]", help="Only what overlaps it: a file, a directory, a glob."),
    follow: bool = typer.Option(False, "-f", "--follow", help="Live, over restarts of the supervisor: bus watch."),
) -> int:
    """Who has which paths, since when and for how long, who waits behind whom, and what is waited for most."""
    if follow:
        return watch(path)
    from interlock.adapters.cli.asking import ask_bus, current_directory

    document = ask_bus("TERRITORY", directory=current_directory(), path=path)["map"]
    if Given.options.json:
        from interlock.adapters.cli.output import say_json

        say_json(document)
    elif _is_screen():
        from interlock.adapters.cli.map_screen import show

        show(document)
    else:
        _say(document)
    return 0


def watch(path: str) -> int:
    """The live map: on a terminal drawn anew, elsewhere said again at each change."""
    from interlock.adapters.cli.asking import current_directory
    from interlock.adapters.cli.map_feed import MapFeed

    feed = MapFeed(Given.options, current_directory(), path)
    if not Given.options.json and _is_screen():
        from interlock.adapters.cli.map_screen import follow

        return follow(feed)
    from interlock.adapters.cli.map_feed import changes
    from interlock.adapters.cli.output import say_json

    for number, document in enumerate(changes(feed)):
        if Given.options.json:
            say_json(document)
            continue
        if number:
            say_out("")
        _say(document)
    return 0


def _say(document: dict[str, object]) -> None:
    from interlock.adapters.cli.map_lines import lines_of, text_of

    for line in lines_of(document):
        say_out(text_of(line))


def _is_screen() -> bool:
    """Stdout is a terminal that can be drawn on."""
    import os

    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in {"", "dumb"}
