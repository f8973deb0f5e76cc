"""`bus config`: which files count, whether they are right, and a person's word for what a repository may run."""

import os
from typing import TYPE_CHECKING, Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out

if TYPE_CHECKING:
    from interlock.adapters.configuration import Here
    from interlock.coordinator.repositories import Trusted

ACTIONS = ("check", "trust", "untrust")


def command(
    action: str = typer.Argument("", help="check, trust or untrust; nothing: show which files count."),
    path: str = typer.Argument("", help="A bus.toml, or a directory of its repository; default: here."),
) -> int:
    """Show which bus.toml files count; `check` one; `trust` what a repository's may run, or `untrust` it."""
    from interlock.coordinator.toml_values import ConfigError

    if action not in {"", *ACTIONS}:
        raise Failure(64, f"no action {action!r}: bus config check, bus config trust or bus config untrust")
    try:
        return {"": _show, "check": _check, "trust": _trust, "untrust": _untrust}[action](path)
    except ConfigError as error:
        raise Failure(78, str(error)) from None
    except OSError as error:
        raise Failure(74, f"{error.filename or 'the trust store'}: {error.strerror}: mend that, then again") from None


def _here(path: str = "") -> "Here":
    from interlock.adapters.configuration import look_here
    from interlock.adapters.paths import find_home

    try:
        here = path or os.getcwd()
    except OSError:
        raise Failure(64, "the current directory is gone: cd into one that exists") from None
    directory = here if os.path.isdir(here) else os.path.dirname(os.path.abspath(here))
    return look_here(find_home(Given.options.home), os.path.realpath(directory))


# --- bus config -----------------------------------------------------------------------------
def _show(path: str) -> int:
    from interlock.adapters.cli.output import say_json

    here = _here(path)
    rows = [_row(here, each) for each in here.trusted]
    own = {"file": str(here.home.config), "state": "counts" if here.home.config.exists() else "none"}
    mine = here.trusted_here()
    if mine is None and here.place is not None and here.place.file and os.path.lexists(here.place.file):
        rows.append({"file": here.place.file, "state": "untrusted", "trusted_at": "", "id": here.place.id})
    if Given.options.json:
        say_json({"home": own, "repositories": rows, "problem": here.problem})
        return 0
    from interlock.protocol.visible import visible

    exists = "counts" if own["state"] == "counts" else "is not there: every default holds"
    say_out(f"{own['file']} {exists}")
    for row in rows:
        say_out(f"{visible(row['file'])} {_words(row)}")
    if here.problem:
        say_out(here.problem)
    if here.place is not None and here.place.file and not os.path.lexists(here.place.file):
        say_out(f"{visible(here.place.file)} is not there: bus init writes a first one")
    return 0


def _row(here: "Here", trusted: "Trusted") -> dict[str, str]:
    return {
        "file": trusted.file, "state": here.state(trusted), "trusted_at": trusted.at, "id": trusted.id,
    }  # fmt: skip


def _words(row: dict[str, str]) -> str:
    from shlex import quote

    from interlock.protocol.visible import visible

    at, again = visible(row["trusted_at"]), f"bus config trust {quote(row['file'])}"
    match row["state"]:
        case "trusted":
            return f"counts (trusted {at})"
        case "changed":
            return f"has changed since it was trusted ({at}) and does not count: {again}"
        case "gone":
            return f"is gone (trusted {at}) and does not count: put it back, or bus forget"
        case "unreadable":
            return f"cannot be read and does not count: bus config check {quote(row['file'])}"
    return f"is not trusted and does not count: {again}"


# --- bus config check -----------------------------------------------------------------------
def _check(path: str) -> int:
    import msgspec

    from interlock.adapters.cli.output import say_json
    from interlock.adapters.configuration import as_json, lines_of, lines_of_territory
    from interlock.protocol.visible import visible

    checked = _checked(path)
    if Given.options.json:
        for row in checked:
            row["resources"] = {name: as_json(each) for name, each in row["resources"].items()}
            row["territory"] = msgspec.to_builtins(row["territory"])
        say_json({"files": checked})
        return 0
    for row in checked:
        number = len(row["resources"])
        what = "1 resource" if number == 1 else f"{number} resources"
        say_out(f"{visible(row['file'])}: {f'right, {what}' if row['exists'] else 'not there: every default holds'}")
        for name, definition in row["resources"].items():
            say_out("\n".join(f"  {line}" for line in lines_of(name, definition)))
        for line in lines_of_territory(row["territory"]):
            say_out(f"  {line}")
        for note in row["notes"]:
            say_out(note)
    return 0


def _checked(path: str) -> list[dict[str, Any]]:
    """The home's file and this repository's, or the one that was named."""
    from interlock.adapters.configuration import by_short_name, clashes, declared_in, file_of
    from interlock.protocol.visible import visible

    here, problem = _here_or_its_problem(path)
    rows: list[dict[str, Any]] = [
        {
            "file": str(here.home.config), "exists": here.home.config.exists(), "resources": by_short_name(here.own),
            "territory": here.own.territory, "notes": [],
        }
    ]  # fmt: skip
    file, place = file_of(path or os.getcwd())
    if path and os.path.realpath(file) == os.path.realpath(here.home.config):
        return rows
    if not path and (place is None or not os.path.lexists(file)):
        return rows
    try:
        found = declared_in(file, place, here.files.read(file), here.own)
    except FileNotFoundError:
        raise Failure(78, f"{visible(file)} is not there: bus init writes a first one") from None
    notes = clashes(by_short_name(found), here, place.id if place is not None else "")
    if place is not None and place.main and file != place.file and os.path.dirname(file) == place.worktree:
        notes.append(f"note: only the one in the main worktree counts: {visible(place.file)}")
    notes += [f"note: nothing counts before the home's own file is mended: {problem}"] if problem else []
    resources = by_short_name(found)
    rows.append({"file": file, "exists": True, "resources": resources, "territory": found.territory, "notes": notes})
    return rows[1:] if path else rows


def _here_or_its_problem(path: str) -> tuple["Here", str]:
    """A file that is named is looked at on its own where the home's is wrong. Raises ConfigError for the home's."""
    from interlock.adapters.configuration import Here, file_of
    from interlock.adapters.paths import find_home
    from interlock.adapters.trust import LocalRepositories
    from interlock.coordinator.config import Config
    from interlock.coordinator.toml_values import ConfigError

    try:
        return _here(path), ""
    except ConfigError as error:
        home = find_home(Given.options.home)
        if not path or os.path.realpath(file_of(path)[0]) == os.path.realpath(home.config):
            raise
        return Here(home, LocalRepositories(home), Config(), Config(), (), file_of(path)[1]), str(error)


# --- bus config trust -----------------------------------------------------------------------
def _trust(path: str) -> int:
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.configuration import by_short_name, clashes, file_of, lines_of, lines_of_territory
    from interlock.adapters.kept_list import now
    from interlock.adapters.paths import BadHome, find_home
    from interlock.adapters.trust import LocalRepositories
    from interlock.coordinator.repositories import FILE, Trusted, digest, read
    from interlock.protocol.names import short_name
    from interlock.protocol.visible import visible

    file, place = file_of(path or os.getcwd())
    if place is None:
        raise Failure(64, f"{visible(file)} is in no git repository: only a repository's {FILE} needs trust")
    if file != place.file:
        which = visible(place.file) if place.file else "the one in the main worktree"
        raise Failure(64, f"{visible(file)} never counts, only the main worktree's does: bus config trust {which}")
    here = _here(place.main)
    if here.problem:
        raise Failure(78, here.problem.partition(" - ")[0])
    if here.place is None or here.place.id != place.id:
        why = (
            f"{visible(place.common)} names {visible(place.main)} as its worktree, which belongs to another repository"
        )
        raise Failure(77, f"{why}: declare its resources in the home's bus.toml", "SCOPE_DENIED")
    try:
        data = here.files.read(file)  # these very bytes are shown, and their hash is what is trusted
    except FileNotFoundError:
        raise Failure(78, f"{visible(file)} is not there: bus init writes a first one") from None
    found = read(data, file, place.id, here.own)
    resources = by_short_name(found)
    territory = lines_of_territory(found.territory)
    states = {short_name(key): path for key, path in found.state_files.items()}
    known = here.trusted_here()
    if known is None or known.sha256 != digest(data) or known.file != file:
        say = say_err if Given.options.json else say_out
        shown = [f"  {line}" for name, each in resources.items() for line in lines_of(name, each, states.get(name, ""))]
        shown += [f"  builds, as the gate sees it: {visible(' '.join(words))}" for words in found.builds]
        shown += [f"  {line}" for line in territory]
        _show_and_ask(
            [
                f"{visible(file)} declares for the repository {visible(place.common)}:",
                *shown,
                *clashes(resources, here, place.id),
            ],
            say,
        )
        home = find_home(Given.options.home)
        try:
            home.create()
        except BadHome as error:
            raise Failure(73, str(error)) from None
        LocalRepositories(home).trust(Trusted(place.id, place.common, file, digest(data), now()))
        _tell_supervisor()
    if Given.options.json:
        say_json({"trusted": file, "sha256": digest(data), "id": place.id, "resources": list(resources)})
    else:
        declared = [*resources, *(["its territory"] if territory else [])]
        say_out(f"TRUSTED {visible(file)}: {', '.join(declared) or 'it declares nothing'}")
    return 0


def _show_and_ask(lines: list[str], say: Any) -> None:
    """Show all of it and take a person's word. Raises Failure 77 where there is none."""
    from interlock.adapters.cli.person import must_be_a_person

    why = "trusting is for a person at a terminal, who has read what would run: run it in one"
    must_be_a_person(why, shown_on=2 if say is say_err else 1)
    say("\n".join(lines))
    say("These commands would run as you, in the worktree of whoever is granted the resource. Trust them? [y/N]")
    try:
        answer = os.read(0, 1024).decode("utf-8", "replace").strip().lower()
    except OSError:
        answer = ""
    if answer not in {"y", "yes"}:
        raise Failure(77, "nothing was trusted: read the file, then run the same again", "CAPABILITY_DENIED")


def _untrust(path: str) -> int:
    from interlock.adapters.cli.output import say_json
    from interlock.protocol.visible import visible

    here = _here(path)
    if here.problem:
        raise Failure(78, here.problem.partition(" - ")[0])
    real = os.path.realpath(path) if path else ""
    known = here.trusted_here() or next((e for e in here.trusted if real and (real == e.file or path == e.id)), None)
    if known is None:
        raise Failure(64, f"{visible(path or 'this repository')} is not trusted: bus config shows what is")
    here.files.distrust([known.id])
    _tell_supervisor()
    if Given.options.json:
        say_json({"untrusted": known.file, "id": known.id})
    else:
        say_out(f"UNTRUSTED {visible(known.file)}: nothing that it declares counts any more")
    return 0


def _tell_supervisor() -> None:
    """One that runs looks at the trust store whenever somebody connects."""
    import contextlib

    from interlock.adapters.cli.connection import Connection, Lost

    with contextlib.suppress(Failure, Lost):
        connection = Connection(Given.options, notices=False)
        connection.open(start=False)
        connection.close()
