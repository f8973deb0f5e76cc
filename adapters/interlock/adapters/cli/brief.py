"""`bus brief`: at most twelve lines for the prompt of every agent, made from what is declared here."""

import os

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_err, say_out

LINES_MAX = 12
BEFORE = (
    "Shared things on this machine go through `bus`. Once, in your worktree: bus join YOUR-NAME",
    'Before using one of these: bus request NAME --for "WHY" --time 20m',
)
UNDECLARED = 'Before using anything that others use too: bus request machine/NAME --for "WHY" --time 20m'
AFTER = (
    "Exit 0: it is yours, at the URL printed, running from this worktree. Exit 75: do something else, then `bus wait`.",
    "Do not start, stop or restart a server yourself. When you are done, also when you failed: bus release",
    "If a command prints STILL USING?, answer with bus extend or bus release. If it prints REVOKED, stop at once.",
    "If you forget where you stand: bus me",
)


def command() -> int:
    """Print what to put into every agent's prompt: at most 12 lines, with the names and URLs declared here."""
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.configuration import look_here
    from interlock.adapters.paths import find_home
    from interlock.coordinator.toml_values import ConfigError
    from interlock.protocol.visible import visible

    try:
        here = look_here(find_home(Given.options.home), os.path.realpath(os.getcwd()))
    except ConfigError as error:
        raise Failure(78, str(error)) from None
    except OSError:
        raise Failure(64, "the current directory is gone: cd into one that exists") from None
    lines = brief({name: describe(each) for name, each in here.resources().items()})
    known, place = here.trusted_here(), here.place
    if place is not None and place.file and os.path.lexists(place.file) and here.state(known) != "trusted":
        say_err(f"note: {visible(place.file)} does not count now, and is left out: see bus config")
    if Given.options.json:
        say_json({"lines": lines})
    else:
        say_out("\n".join(lines))
    return 0


def brief(resources: dict[str, str]) -> list[str]:
    """The lines, never more than twelve. Args: resources: what each is, by its name."""
    if not resources:
        return [BEFORE[0], UNDECLARED, *AFTER]
    room = LINES_MAX - len(BEFORE) - len(AFTER)
    shown = list(resources.items())
    if len(shown) > room:
        shown = shown[: room - 1]
    lines = [f"- {name}: {what}" for name, what in shown]
    if len(shown) < len(resources):
        lines.append(f"- and {len(resources) - len(shown)} more: bus status")
    return [*BEFORE, *lines, *AFTER]


def describe(definition: object) -> str:
    """What an agent needs to know of a resource, in a few words."""
    from interlock.protocol.definition import Definition, server_of
    from interlock.protocol.visible import visible

    assert isinstance(definition, Definition)
    units = len(definition.units)
    several = f", one of {units}" if units > 1 else ""
    if definition.server is not None:
        urls = [server.url for unit in definition.units[:2] if (server := server_of(definition, unit)) is not None]
        url = visible(" or ".join(dict.fromkeys(urls))) + (" or others" if units > 2 else "")
        return f"a server{f' at {url}' if url else ''}, started from your worktree when it is yours{several}"
    return f"one agent at a time{several}" if units == 1 else f"one of {units} units, BUS_UNIT says which"
