"""A state file's text: Markdown for people, and in its last line the same for a program. Pure; written and read here.

What other people wrote (a purpose, a path) never makes a line, a table's cell or a comment of its own.
"""

from collections.abc import Iterator
from itertools import islice

import msgspec

from interlock.coordinator.states import StateFacts
from interlock.protocol.answers import one_line
from interlock.protocol.definition import Definition
from interlock.protocol.envelope import wire_time
from interlock.protocol.limits import STATE_FILE_BYTES_MAX, STATE_FILE_TICKETS_MAX
from interlock.protocol.names import short_name
from interlock.protocol.resource_state import Resource, Unit, UnitState

FIRST_LINE = "<!-- Written by the bus (Interlock), and written over by it: a change here changes nothing. -->"
_LAST_LINE = ("<!-- state: ", " -->")
_MARKS = str.maketrans({**{each: f"\\{each}" for each in "\\|`*_[]#"}, "<": "&lt;", ">": "&gt;", "&": "&amp;"})


def facts_of(resource: Resource, *, bus: str, seq: int, through: int, at_ms: int) -> StateFacts:
    """What a state file says of a resource. Args: as of StateFacts."""
    first = tuple(islice(resource.queue.values(), STATE_FILE_TICKETS_MAX))
    return StateFacts(bus, resource.key, seq, through, at_ms, resource.units, first, len(resource.queue))


def write(facts: StateFacts, definition: Definition, log_folder: str) -> bytes:
    """The file's content.

    Args:
        definition: of the resource. log_folder: where servers' logs lie.
    """
    lines = [FIRST_LINE, f"# {short_name(facts.key)}", "", *_for_people(facts, definition, log_folder), ""]
    state = "".join(map(_harmless, msgspec.json.encode(facts).decode()))
    return "\n".join([*lines, state.join(_LAST_LINE), ""]).encode("utf-8", "backslashreplace")


def read(data: bytes) -> StateFacts | None:
    """What a file says; None where it is torn, empty or anything else."""
    start, end = (part.encode() for part in _LAST_LINE)
    last = data.rstrip(b"\n").rpartition(b"\n")[2]
    if len(data) > STATE_FILE_BYTES_MAX or not (last.startswith(start) and last.endswith(end)):
        return None
    try:
        return msgspec.json.decode(last[len(start) : -len(end)], type=StateFacts)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def is_ours(data: bytes) -> bool:
    """A file that begins like this may be written over: it is empty, or the bus wrote it."""
    return not data or data.startswith(FIRST_LINE.encode())


def _harmless(character: str) -> str:
    """Of JSON: what could end a comment or a line is written as its number."""
    if character not in "<>" and (character.isprintable() or ord(character) > 0xFFFF):
        return character
    return f"\\u{ord(character):04x}"


def _for_people(facts: StateFacts, definition: Definition, log_folder: str) -> Iterator[str]:
    yield f"{facts.key}, written {wire_time(facts.at_ms)} after event {facts.seq}. What is true now: `bus status`."
    for unit in facts.units:
        yield ""
        yield f"| {f'unit {unit.name}' if unit.name else 'state'} | {_state(unit)} |"
        yield "|---|---|"
        for name, value in _rows(unit, definition, log_folder):
            if value:
                yield f"| {name} | {value} |"
    yield ""
    yield "## Waiting" if facts.waiting else "Nobody waits."
    for number, ticket in enumerate(facts.queue, start=1):
        what = f" for {_plain(ticket.purpose)}" if ticket.purpose else ""
        yield f"{number}. {ticket.agent}{what}, since {wire_time(ticket.asked_ms)}, from {_plain(ticket.worktree)}"
    if facts.waiting > len(facts.queue):
        yield f"\nand {facts.waiting - len(facts.queue)} more"


def _rows(unit: Unit, definition: Definition, log_folder: str) -> Iterator[tuple[str, str]]:
    ticket, server = unit.ticket, unit.server
    yield "why", _plain(unit.why, 1_000) if unit.state is UnitState.RECOVERY_REQUIRED else ""
    if ticket is not None:
        yield "owner" if unit.fence else "prepared for", ticket.agent
        yield "purpose", _plain(ticket.purpose)
        yield "worktree", _plain(ticket.worktree, 1_000)
        yield "since", wire_time(unit.since_ms) if unit.since_ms else ""
        yield "last confirmation", wire_time(unit.confirmed_ms) if unit.confirmed_ms else ""
        yield "declared until", wire_time(unit.until_ms) if unit.until_ms else ""
        yield "fence", str(unit.fence) if unit.fence else ""
    if server is not None:
        yield "URL", _plain(server.definition.url)
        yield (
            "server runs from",
            _plain(server.worktree, 1_000) + (f" at commit {server.commit}" if server.commit else ""),
        )
        yield "running since", wire_time(server.since_ms) if server.since_ms else ""
        yield (
            "keeper",
            f"pid {server.keeper.pid}, started at tick {server.keeper.start_ticks} of boot {server.keeper.boot}",
        )
        yield "log", _plain(f"{log_folder}/{server.launch}.log", 1_000)
    elif definition.server is not None:
        yield "URL", _plain(definition.server.url)
    for launch in unit.launches.values():
        yield "command", f"{_plain(launch.command)} (keeper pid {launch.keeper.pid})"


def _state(unit: Unit) -> str:
    step = f", {unit.step.kind} under way" if unit.step is not None else ""
    return f"{str(unit.state).replace('_', ' ')}{step}"


def _plain(text: str, characters: int = 120) -> str:
    """One line, of visible characters, without a meaning in Markdown."""
    return one_line(text, characters).translate(_MARKS)
