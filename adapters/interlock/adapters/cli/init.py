"""`bus init`: a first `bus.toml` for this repository, from what is found in it. No file is overwritten or run."""

import os

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out


def command(
    print_only: bool = typer.Option(False, "--print", help="Show the file instead of writing it."),
) -> int:
    """Write a bus.toml into the main worktree, show what it would run, and say how to trust it."""
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.configuration import by_short_name, declared_in, lines_of
    from interlock.adapters.git import place_of
    from interlock.adapters.paths import find_home
    from interlock.adapters.project.draft import draft
    from interlock.coordinator.config import Config
    from interlock.protocol.visible import visible

    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        raise Failure(64, "the current directory is gone: cd into one that exists") from None
    place = place_of(here)
    if place is None:
        where = visible(str(find_home(Given.options.home).config))
        raise Failure(64, f"no git repository here: go into one; what the whole machine shares stands in {where}")
    if not place.file:
        raise Failure(64, f"{visible(place.common)} has no main worktree: declare its resources in the home's bus.toml")
    made = draft(place.worktree, here)
    if not print_only:
        _write(place.file, made.text)
    resources = by_short_name(declared_in(place.file, place, made.text.encode(), Config()))
    if Given.options.json:
        say_json({
            "file": place.file, "written": not print_only, "text": made.text, "notes": made.notes,
            "resources": list(resources), "next": f"bus config trust {place.file}",
        })  # fmt: skip
        return 0
    if print_only:
        say_out(made.text.removesuffix("\n"))
        say_err("\n".join(f"note: {note}" for note in made.notes)) if made.notes else None
        return 0
    source = f", from {made.chosen.source}" if made.chosen is not None else ""
    say_out(f"wrote {visible(place.file)}{source}")
    for name, each in resources.items():
        say_out("\n".join(f"  {line}" for line in lines_of(name, each)))
    for note in made.notes:
        say_out(f"note: {note}")
    say_out(f"next: read it, commit it, then at a terminal: bus config trust {visible(place.file)}")
    say_out("then, for your agents' prompts: bus brief")
    return 0


def _write(file: str, text: str) -> None:
    """Make the file; one that is there stays as it is. Raises Failure 73."""
    from interlock.protocol.visible import visible

    try:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(fd, "w", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        why = "is there already and stays as it is: bus config check looks at it, bus init --print shows a fresh one"
        raise Failure(73, f"{visible(file)} {why}") from None
    except OSError as error:
        raise Failure(73, f"{visible(file)} cannot be written ({error.strerror}): bus init --print shows it") from None
