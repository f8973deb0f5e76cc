"""The comparison: where each row began, how high it came, where it ended, and whether that is where it belongs.

A row comes back to where it began, unless what it keeps is kept by design: then it stays below a bound, said here.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.soak.sampler import Sample

from interlock.protocol.limits import AGENTS_MAX, IDS_REMEMBERED, IDS_SLACK, RESOURCES_LIVE_MAX


class Kept(NamedTuple):
    """What may be there at the end. Args: more: than at the start; or below: in all. why: for the table.
    each_kill: more than that for every process that was killed.
    """

    more: float
    below: float
    why: str
    each_kill: float = 0


NOTHING = Kept(0, 0, "")
ENOUGH = float("inf")
BY_DESIGN: Mapping[str, Kept] = {
    "memory MB": Kept(24, 0, "message ids, read messages and idle resources are remembered"),
    "database MB": Kept(16, 0, "records are kept for `keep` and behind a snapshot; SQLite reuses its pages"),
    "database log MB": Kept(0, 8, "emptied by a checkpoint every 4 MiB, its file stays"),
    "log MB": Kept(0, 32, "four files of 8 MiB, and a started server's own"),
    "threads": Kept(2, 0, "a worker thread waits a while for its next use"),
    "files: launches": Kept(0, 1, "of the server that runs; the result of who was killed is evidence for a day", 1),
    "files: log": Kept(ENOUGH, 0, "a log each started server, for `keep`, swept daily and at a start"),
    "files: shared-resources": Kept(0, RESOURCES_LIVE_MAX, "a state file each resource"),
    "files: inboxes/…/cur": Kept(0, 16_384, "what was read stays until 16,384 are there"),
    "files: inboxes/…/new": Kept(0, 16_384, "answers and news that no living agent has read"),
    "bus: message ids": Kept(0, IDS_REMEMBERED + IDS_SLACK, "the newest are never done again"),
    "bus: read messages": Kept(0, 256 * 64, "256 an agent, for receipts"),
    "bus: unread messages": Kept(256, 0, "news for agents that never look"),
    "bus: agents": Kept(0, AGENTS_MAX, "a name is known, gone or not, until there are 65,536"),
    "bus: agents with resources": Kept(
        64, 0, "who lives and has nothing any more is struck off when looked up, or gone"
    ),
    "bus: resources": Kept(0, RESOURCES_LIVE_MAX, "an idle one is remembered until there are 65,536"),
    "bus: deadlines": Kept(0, 256 + 64, "those armed anew go once they are more than 256"),
}


class Row(NamedTuple):
    """One line of the table. `ok`: it came back, or is kept by design."""

    name: str
    start: float
    peak: float
    end: float
    ok: bool
    why: str


def compare(start: Sample, seen: Sequence[Sample], end: Sample, kills: int = 0) -> list[Row]:
    """Args: start: at rest, once warm. seen: all between. end: at rest again. kills: of processes, meanwhile."""
    names = sorted({*start, *end}.union(*seen))
    rows = list[Row]()
    for name in names:
        first, last = start.get(name, 0), end.get(name, 0)
        peak = max([first, last, *(each.get(name, 0) for each in seen)])
        kept = BY_DESIGN.get(name, NOTHING)
        ok = last <= max(first + kept.more, kept.below) + kept.each_kill * kills
        rows.append(Row(name, first, peak, last, ok, kept.why if last > first else ""))
    return rows


def table(rows: Sequence[Row]) -> str:
    """For people. What did not come back is marked."""
    width = max(len(row.name) for row in rows)
    lines = [f"{'':{width}}  {'start':>9} {'peak':>9} {'end':>9}"]
    for row in rows:
        verdict = "back" if row.ok and not row.why else row.why if row.ok else "NOT BACK"
        lines.append(f"{row.name:{width}}  {_number(row.start)} {_number(row.peak)} {_number(row.end)}  {verdict}")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:9.1f}" if value % 1 else f"{value:9.0f}"
