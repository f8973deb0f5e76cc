"""The rows of the map: a document as a tree of paths, in words. Pure: the same document gives the same rows.

src/                                          a directory that holds some: nobody's itself
├── auth/**        ann  since 4m, 6m left     a lease, at its place; of several paths it is at each
│   ├── auth/a.py  bob  part of L3            what it was split into
│   └── auth/b.py  cyd  waits 2m, place 1     who waits for it
└── ui/**          dan  shared, since 9s
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from interlock.protocol.answers import one_line
from interlock.protocol.claim import BadClaim, Claim, claim_covers, claims_overlap, parse_claim
from interlock.protocol.durations import format_age
from interlock.protocol.envelope import read_wire_time
from interlock.protocol.visible import unhidden

Document = dict[str, Any]
Cells = tuple[str, str, str, str]
CLAIMS_COMPARED = 8  # of a lease, to find the place of what belongs to it
BEHIND_SHOWN = 3
_WILD = re.compile(r"[*?\[{\\]")
_NUMBER = re.compile(r"(\d+)")


class Row(NamedTuple):
    """One line. Args: guide: the tree's lines before it. kind: branch, held, part, draining or waiting."""

    guide: str
    path: str
    kind: str
    agent: str = ""
    state: str = ""
    lease: str = ""
    purpose: str = ""


class _Item:
    """A row, and what hangs on it."""

    def __init__(self, path: str, kind: str = "branch", cells: Cells = ("", "", "", "")) -> None:
        self.path, self.kind, self.cells = path, kind, cells
        self.below: list[_Item] = []


Leaves = list[tuple[str, _Item]]  # the places of one lease: (claim, item)


class _Place:
    """A directory or a path of the tree, and the leases that are there."""

    def __init__(self) -> None:
        self.items: list[_Item] = []
        self.inside: dict[str, _Place] = {}


def rows_of(document: Document, elapsed_ms: int = 0) -> list[Row]:
    """Every row, in the order of their paths. Args: elapsed_ms: since the document was made."""
    now_ms = read_wire_time(document["at"]) + elapsed_ms
    root, leaves = _Place(), dict[str, Leaves]()
    within = list(filter(None, map(_claim, document.get("within", ()))))
    shown = {each["lease"] for each in document["leases"]}
    for lease in document["leases"]:
        if lease["parent"] not in shown:
            leaves[lease["lease"]] = _plant(root, lease, *_held_cells(lease, now_ms, elapsed_ms), within)
    _hang_parts(document, leaves, now_ms, elapsed_ms)
    for waiter in document["waiting"]:
        cells = _waiting_cells(waiter, elapsed_ms)
        blocker = next((each for each in waiter["behind"] if each["lease"] in leaves), None)
        if blocker is None:
            _plant(root, waiter, "waiting", cells, within)
        else:
            leaf = _nearest(leaves[blocker["lease"]], waiter["claims"], claims_overlap)
            leaf.below.append(_Item(_paths(waiter["claims"]), "waiting", cells))
    return list(_rows(_items(root), ""))


def headline(document: Document) -> str:
    """What the map is of, and how much there is."""
    leases, waits = len(document["leases"]) + document.get("more", 0), document["depth"]
    where = unhidden(document["repository"])
    if is_narrowed := "within" in document:
        where, waits = f"{_paths(document['within'])} in {where}", len(document["waiting"])
    if not leases and not waits:
        return f"nobody has a lease {'on' if is_narrowed else 'in'} {where}: bus lease acquire PATH"
    return f"{where}: {leases} {'lease' if leases == 1 else 'leases'}, {waits} waiting"


def footlines(document: Document) -> list[str]:
    """What was waited for most, and what is not shown."""
    found = []
    if document["hot"]:
        hot = ", ".join(_hot(each) for each in document["hot"][:5])
        found.append(f"waited for most in the last hour: {hot}")
    more = document.get("more", 0)
    if more:
        found.append(f"and {more} more leases: name a path to see its part, or see bus leases")
    unseen = 0 if "within" in document else document["depth"] - len(document["waiting"])
    if unseen > 0:
        found.append(f"and {unseen} more waiting")
    return found


# --- the places -----------------------------------------------------------------------------
def _plant(root: _Place, lease: Document, kind: str, cells: Cells, within: list[Claim]) -> Leaves:
    """Put a lease at the place of each of its claims, or of those that overlap what the map was narrowed to."""
    planted = []
    wanted = [each for each in lease["claims"] if _is_within(each, within)] or lease["claims"]
    for claim in wanted:
        *directories, leaf = _split(claim)
        place = root
        for name in (*directories, leaf):
            place = place.inside.setdefault(name, _Place())
        item = _Item(unhidden(leaf), kind, cells)
        place.items.append(item)
        planted.append((claim, item))
    return planted


def _split(claim: str) -> list[str]:
    """Its directories as far as they are plain names, then the rest."""
    wild = _WILD.search(claim)
    at = claim.rfind("/", 0, wild.start() if wild is not None else len(claim.rstrip("/"))) + 1
    return [*filter(None, claim[:at].split("/")), claim[at:]]


def _hang_parts(document: Document, leaves: dict[str, Leaves], now_ms: int, elapsed_ms: int) -> None:
    """What was split from a lease is below it, however deep."""
    waits = [each for each in document["leases"] if each["lease"] not in leaves]
    while waits:
        left = []
        for part in waits:
            if part["parent"] not in leaves:
                left.append(part)
                continue
            _, cells = _held_cells(part, now_ms, elapsed_ms)
            leaf = _nearest(leaves[part["parent"]], part["claims"], claim_covers)
            item = _Item(_paths(part["claims"]), "part", cells)
            leaf.below.append(item)
            leaves[part["lease"]] = [(claim, item) for claim in part["claims"]]
        if len(left) == len(waits):
            return
        waits = left


def _nearest(leaves: Leaves, claims: list[str], belongs: Any) -> _Item:
    """The first place of a lease to which something belongs; its first one where nobody can say."""
    if len(leaves) > 1:
        wanted = list(filter(None, map(_claim, claims[:CLAIMS_COMPARED])))
        for text, item in leaves:
            claim = _claim(text)
            if claim is not None and any(belongs(claim, each) for each in wanted):
                return item
    return leaves[0][1]


def _is_within(text: str, within: list[Claim]) -> bool:
    claim = _claim(text) if within else None
    return claim is None or any(claims_overlap(claim, each) for each in within)


def _claim(text: str) -> Claim | None:
    try:
        return parse_claim(text)
    except BadClaim:
        return None


def _items(place: _Place) -> list[_Item]:
    """What is inside of a place, by name; a directory that holds one thing only is written before it."""
    found = []
    for name, inside in sorted(place.inside.items(), key=lambda each: _order(each[0])):
        below = _items(inside)
        if inside.items:
            inside.items[-1].below += below
            found += inside.items
        elif len(below) == 1:
            below[0].path = f"{unhidden(name)}/{below[0].path}"
            found += below
        else:
            branch = _Item(f"{unhidden(name)}/")
            branch.below = below
            found.append(branch)
    return found


def _order(name: str) -> list[tuple[int, str]]:
    """Numbers in names by their size."""
    parts = _NUMBER.split(name)
    return [(int(part[:18]) if at % 2 else -1, part) for at, part in enumerate(parts)]


def _rows(items: list[_Item], guide: str) -> Iterator[Row]:
    for at, item in enumerate(items, start=1):
        is_last = at == len(items)
        yield Row(f"{guide}{'└── ' if is_last else '├── '}", item.path, item.kind, *item.cells)
        yield from _rows(item.below, f"{guide}{'    ' if is_last else '│   '}")


# --- the words --------------------------------------------------------------------------------
def _held_cells(lease: Document, now_ms: int, elapsed_ms: int) -> tuple[str, Cells]:
    since_ms = now_ms - read_wire_time(lease["since"])
    words = [f"part of {lease['parent']}"] if lease["parent"] else []
    words += ["shared"] if lease["shared"] else []
    words.append(f"since {format_age(max(0, since_ms))}")
    if lease["state"] == "draining":
        words.append("until its commands end")
    elif lease["left_s"] is not None:
        words.append(f"{format_age(max(0, lease['left_s'] * 1000 - elapsed_ms))} left")
    else:
        words.append(f"while {lease.get('bound_to') or 'its process'} lives")
    if lease["waiting"]:
        words.append(f"{lease['waiting']} wait" if lease["waiting"] > 1 else "1 waits")
    kind = "draining" if lease["state"] == "draining" else "part" if lease["parent"] else "held"
    return kind, _cells(lease, ", ".join(words))


def _waiting_cells(waiter: Document, elapsed_ms: int) -> Cells:
    names = [f"{unhidden(each['agent'])} ({each['lease']})" for each in waiter["behind"]]
    are_more = len(names) > BEHIND_SHOWN or waiter.get("behind_more", False)
    behind = ", ".join(names[:BEHIND_SHOWN]) + (" and others" if are_more else "") if names else "others"
    age = format_age(waiter["waiting_s"] * 1000 + elapsed_ms)
    return _cells(waiter, f"waits {age}, place {waiter['position']}, behind {behind}")


def _cells(lease: Document, state: str) -> Cells:
    return unhidden(lease["agent"]), state, unhidden(lease["lease"]), one_line(lease["purpose"], 60)


def _paths(claims: list[str]) -> str:
    return " ".join(map(unhidden, claims))


def _hot(each: Document) -> str:
    now = f", {each['waiting_now']} now" if each["waiting_now"] else ""
    times = "once" if each["waits"] == 1 else f"{each['waits']} times"
    return f"{unhidden(each['pattern'])} ({times}{now})"
