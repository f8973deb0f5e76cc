"""A long journal: what one agent's REQUEST and RELEASE make, decided by the real machine, chained as the bus chains it.

    a bus that was up and down ──▶ its journal ──▶ rows and rows ──▶ the snapshot, so many rows before the end

Every row is a record of its own, as a single client makes them. The end is as bad as it can be: the bus was killed one
record before the next snapshot was due. SQLite is told not to wait for the disk here; what is written is the same.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from interlock.coordinator import records
from interlock.coordinator.ids import new_id
from interlock.coordinator.records import Entry, Record
from interlock.coordinator.world import World
from interlock.protocol.limits import SNAPSHOT_EVERY_RECORDS
from interlock.protocol.messages import Release, Request
from interlock.protocol.outcome import Now
from interlock.protocol.resource import decide
from interlock.protocol.resource_commands import Mail

APPEND = "INSERT INTO record (idx, first_seq, last_seq, at_ms, hash, body) VALUES (?, ?, ?, ?, ?, ?)"
SAVE = "INSERT OR REPLACE INTO snapshot (one, idx, hash, body) VALUES (1, ?, ?, ?)"
ROWS_AT_ONCE = 4_096
RESOURCES = 64  # that are taken in turn
Line = tuple[int, int, int, int, bytes, bytes]


def lengthen(database: Path, rows: int, agent: str) -> None:
    """Make the journal of a bus that is down so long. Args: rows: that there are to be. agent: has joined it once."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        world = _world(connection)
        snapshot_at = rows - SNAPSHOT_EVERY_RECORDS + 1
        saved = (0, b"", b"")

        def lines() -> Iterator[Line]:
            nonlocal saved
            for line in _rows(world, rows, agent):
                yield line
                if line[0] == max(snapshot_at, 1) or (line[0] == rows and not saved[0]):
                    saved = (line[0], line[4], world.encode())

        every = lines()
        while some := list(islice(every, ROWS_AT_ONCE)):  # the log beside the file stays short
            connection.execute("BEGIN")
            connection.executemany(APPEND, some)
            connection.execute("COMMIT")
        connection.execute(SAVE, saved)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _world(connection: sqlite3.Connection) -> World:
    """As the bus left it: it keeps a snapshot when it goes down in order."""
    index, digest, body = connection.execute("SELECT idx, hash, body FROM snapshot").fetchone()
    world = World.decode(body)
    world.index, world.hash = index, digest.hex()
    return world


def _rows(world: World, rows: int, agent: str) -> Iterator[Line]:
    """Rows from the world's end on, folded into it as replay would."""
    incarnation = world.registry.agents[agent].incarnation
    at_ms, number = world.registry.agents[agent].joined_ms, 0
    while world.index < rows:
        key = f"machine/long{number // 2 % RESOURCES}"
        body: Request | Release = Release(key) if number % 2 else Request(key, purpose="bench")
        number, at_ms, id_ = number + 1, at_ms + 1, new_id()
        outcome = decide(
            world.resource(key), Mail(agent, incarnation, id_, body, key), Now(at_ms, "bench", at_ms, world.seq + 1)
        )
        kept = tuple(send for send in outcome.outbox if not send.reply_to)
        entry = Entry(key, outcome.events, kept, outcome.withdraw, {id_: f"{number:016x}"})
        first = world.seq + 1
        record = Record(world.index + 1, world.term, world.hash, at_ms, first, (entry,))
        encoded = records.encode(record)
        digest = records.digest(encoded)
        world.take(entry, outcome.state)
        world.project(at_ms, record.index, 0, entry)
        world.index, world.hash = record.index, digest.hex()
        yield record.index, first, world.seq, at_ms, digest, encoded
