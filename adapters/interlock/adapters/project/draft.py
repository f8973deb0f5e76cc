"""A first `bus.toml`, made of what a folder says of itself. It always is one that `bus config check` takes.

The first candidate in this order becomes the resource, the others stand below it as comments:
    Procfile.dev, package.json (dev, start, serve, preview), manage.py, pyproject.toml (tasks, scripts), Python
    applications, Procfile, Makefile and justfile (dev, run, serve, start, server, up), Rails and the like, compose.
"""

import os
import shlex

import msgspec

from interlock.adapters.project.found import Candidate, Folder
from interlock.adapters.project.javascript import javascript
from interlock.adapters.project.others import compose, frameworks, makefile, procfile
from interlock.adapters.project.python import python
from interlock.coordinator.config import Config
from interlock.coordinator.repositories import declared
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.visible import unhidden, visible

NAME = "dev-server"
OTHERS_SHOWN = 8
BELOW = ("web", "frontend", "client", "app", "apps/web", "packages/web", "server", "backend", "api")


class Draft(msgspec.Struct):
    """A file to be. Args: chosen: None where nothing was found. notes: sentences about what could not be taken."""

    text: str
    chosen: Candidate | None
    notes: list[str]


def draft(top: str, directory: str) -> Draft:
    """Look at a worktree and write a `bus.toml` for its repository.

    Args:
        top: real path of the worktree. directory: where the person stands, in it; looked at first.
    """
    candidates, notes = _candidates(top, directory)
    usable = [each for each in candidates if _passes(_text(each, []))]
    chosen = usable[0] if usable else None
    text = _text(chosen, usable[1 : OTHERS_SHOWN + 1])
    if not _passes(text):  # comments cannot make it wrong; should they all the same, it goes without them
        text = _text(chosen, [])
    if chosen is None:
        notes.append("nothing was found that starts a server: the file holds an example, to be filled in")
    elif not chosen.port:
        notes.append(f"the port of {visible(chosen.start)} could not be told: fill in url and ports")
    elif not chosen.own_port and not chosen.health:
        notes.append("nothing says when the containers are ready: give health or ready_line")
    return Draft(text, chosen, notes)


def _candidates(top: str, directory: str) -> tuple[list[Candidate], list[str]]:
    """Here, then at the top, then in the folders where a repository of several parts keeps its server."""
    relative = os.path.relpath(directory, top)
    below = [each for each in BELOW if not os.path.islink(os.path.join(top, each))]
    places = [relative, "."] if relative != "." and not relative.startswith("..") else ["."]
    notes: list[str] = []
    for place in [*places, *below]:
        folder = Folder(os.path.join(top, place))
        early, late = procfile(folder), []
        if early and not early[0].source.startswith(("Procfile.dev", "bin/dev")):
            early, late = [], early
        found = [*early, *javascript(folder), *python(folder), *late]
        found += [*makefile(folder), *frameworks(folder), *compose(folder)]
        notes += [f"{place}/{note}" if place != "." else note for note in folder.notes]
        if found:
            return [_in(place, each) for each in found], notes
    return [], notes


def _in(place: str, candidate: Candidate) -> Candidate:
    """The command as it is given at the top of a worktree."""
    if place == ".":
        return candidate
    into = f"cd {shlex.quote(place)} && "
    prepare = into + candidate.prepare if candidate.prepare else ""
    source = f"{visible(place)}/{candidate.source}"
    return msgspec.structs.replace(candidate, start=into + candidate.start, source=source, prepare=prepare)


def _text(chosen: Candidate | None, others: list[Candidate]) -> str:
    lines = [
        "# What the agents of this repository share. The bus reads this file in the main worktree, and only with a",
        "# person's word for its present content: bus config trust",
        "",
    ]
    if chosen is None:
        return "\n".join([*lines, *_example()]) + "\n"
    known = bool(chosen.port)
    port, mark = chosen.port or 3000, "" if known else "# "
    lines += [
        f"# From {unhidden(chosen.source)}",
        f"[resources.{NAME}]",
        'kind = "server"',
        f"start = {toml_string(chosen.start)}  # in your login shell, in the worktree of whoever is granted it",
    ]
    if chosen.prepare:
        lines.append(f"# prepare = {unhidden(toml_string(chosen.prepare))}  # before the start, for a fresh worktree")
    lines.append(f"# The port: {unhidden(chosen.why_port)}." if known else "# The port could not be told: fill it in.")
    lines.append(f'{mark}url = "http://localhost:{port}/"  # what GRANTED tells its owner')
    if chosen.own_port:
        lines.append(f"{mark}ports = [{port}]  # free before the start, the server's own after it")
    else:
        lines.append("# ports are left out: containers publish them, not the command's own processes.")
    if chosen.health:
        lines.append("# The project names this path itself. With it nobody is told GRANTED before it answers 200.")
        counts = known and not chosen.own_port  # nothing else would say when the containers are ready
        lines.append(f'{"" if counts else "# "}health = "http://localhost:{port}{chosen.health}"')
    lines.append('# ready_line = "ready in"  # what it prints when it is ready, where that says more')
    lines.append('# start_timeout = "5m"')
    if others:
        lines += ["", "# Also found:"]
        lines += [f"#   start = {unhidden(toml_string(each.start))}  ({unhidden(each.source)})" for each in others]
    lines += ["", "# A thing that only one may use at a time needs no command:", "# [resources.test-db]"]
    return "\n".join(lines) + "\n"


def _example() -> list[str]:
    return [
        f"# [resources.{NAME}]",
        '# kind = "server"',
        '# start = "npm run dev"',
        '# url = "http://localhost:3000/"',
        "# ports = [3000]",
        "",
        "# A thing that only one may use at a time needs no command:",
        "# [resources.test-db]",
    ]


def toml_string(text: str) -> str:
    """A basic string of TOML, on one line. Lone surrogates, which TOML cannot hold, become U+FFFD."""
    named = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(named.get(c) or _character(c) for c in text) + '"'


def _character(character: str) -> str:
    number = ord(character)
    if 0xD800 <= number <= 0xDFFF:
        return "\N{REPLACEMENT CHARACTER}"
    return character if character.isprintable() else f"\\U{number:08x}"


def _passes(text: str) -> bool:
    try:
        declared(text.encode(), "bus.toml", "0" * 32, Config())
    except (ConfigError, UnicodeEncodeError):
        return False
    return True
