"""Replaying: the log read from its beginning once more, into a world of its own, to compare with what is believed.

    record 1 … N ──▶ a fresh world ──▶ the same as the snapshot of N?   … ──▶ the same as the living one?
    older ones pruned: the snapshot whose hash is in the chain ──▶ …

It changes nothing, and holds one world and one piece of the log.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interlock.coordinator import records
from interlock.coordinator.store import Row, Snapshot
from interlock.coordinator.world import World

NAMED_MAX = 3  # of what differs; the rest is counted


class Replaying:
    """One replay, from the first record there is. `differs` says what was not as it should be; empty: nothing.

    Args:
        snapshot: the one that is kept; None where there is none.
    """

    def __init__(self, snapshot: Snapshot | None) -> None:
        self.world: World | None = None
        self.differs = ""
        self.begins_with = 0  # the record whose snapshot it began with; 0: it began with nothing
        self.agrees_at = 0  # the record at which the snapshot was compared and agreed
        self._snapshot = snapshot

    def follow(self, row: Row, is_first: bool) -> None:
        """Take the next record, which is in its place in the chain."""
        if self.differs:
            return
        if is_first:
            self._begin(row)
        if self.world is not None and not self.differs:
            try:
                record = records.decode(row.body)
                self.world.apply(record)
            except Exception as error:  # whatever the fold of a record that was never written raises
                self.differs = f"record {row.index} cannot be replayed ({type(error).__name__}: {error})"
                return
            self.world.hash = row.hash.hex()
            if (row.first_seq, row.last_seq, row.at_ms) != (record.first_seq, self.world.seq, record.at_ms):
                self.differs = f"record {row.index} is filed under other numbers than it holds"
        self._meet_snapshot(row)

    def compare(self, lived: World) -> None:
        """Is this what was lived, at the same record?"""
        assert self.world is not None
        different = difference(lived, self.world)
        if different and not self.differs:
            self.differs = f"what the bus holds is not what its log says: {different}"

    def states(self) -> int:
        """How many states there are now: resources, inboxes, and who is here."""
        return len(self.world.resources) + len(self.world.inboxes) + 1 if self.world is not None else 0

    def _begin(self, first: Row) -> None:
        kept = self._snapshot
        if first.index == 1:
            self.world = World()
        elif kept is None or kept.index < first.index - 1:
            self.differs = f"records before {first.index} are gone, and no snapshot says what they came to"
        elif kept.index == first.index - 1:
            link = records.decode(first.body).prev
            if link == kept.hash.hex():
                self._begin_with(kept)
            else:
                self.differs = f"the snapshot of record {kept.index} belongs to another log"

    def _meet_snapshot(self, row: Row) -> None:
        kept = self._snapshot
        if kept is None or kept.index != row.index or self.differs:
            return
        if kept.hash != row.hash:
            self.differs = f"the snapshot of record {row.index} belongs to another log"
        elif self.world is None:
            self._begin_with(kept)
        else:
            believed = self._read(kept)
            different = difference(believed, self.world) if believed is not None else ""
            if different:
                self.differs = f"the snapshot of record {row.index} is not what the records before it make: {different}"
            self.agrees_at = row.index

    def _begin_with(self, kept: Snapshot) -> None:
        self.world = self._read(kept)
        self.begins_with = kept.index

    def _read(self, kept: Snapshot) -> World | None:
        try:
            world = World.decode(kept.body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self.differs = f"the snapshot of record {kept.index} cannot be read ({error})"
            return None
        world.index, world.hash = kept.index, kept.hash.hex()
        return world


def difference(one: World, other: World) -> str:
    """What is not the same in two worlds, by name; "" where all is."""
    found = [
        *_named("agent ", _by_name(one), _by_name(other)),
        *_named("", one.resources, other.resources),
        *_named("the inbox of ", one.inboxes, other.inboxes),
        *_named("", one.tasks, other.tasks),
    ]
    for field in msgspec.structs.fields(World):
        if field.name in {"resources", "inboxes", "tasks"}:
            continue
        left, right = getattr(one, field.name), getattr(other, field.name)
        same = left == right and (not isinstance(left, dict) or list(left) == list(right))  # what goes first, too
        if not same and not (field.name == "registry" and found):
            found.append(_field(field.name, left, right))
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    return ", ".join(found[:NAMED_MAX]) + more


def _by_name(world: World) -> Mapping[str, Any]:
    return {agent.name: agent for agent in world.registry.agents.values()}


def _named(what: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    if one == other:
        return
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            yield f"{what}{name}"


def _field(name: str, left: Any, right: Any) -> str:
    return f"{name} ({left} and {right})" if isinstance(left, int | str) else name
