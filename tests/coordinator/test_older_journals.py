"""A home of an earlier version still opens: its records, and its snapshot, as that version wrote them.

`journal_of_0.1.jsonl` is a conversation that a supervisor of version 0.1 had: its records, one a line, and on the last
line the world it made of them. A line of it is never changed: journals keep what they hold for ever.
"""

from pathlib import Path

import msgspec
import pytest
from tests.coordinator.bus import Bus, as_bytes, process, settled
from tests.coordinator.memory_store import MemoryStore

from interlock.coordinator import records
from interlock.coordinator.config import parse_config
from interlock.coordinator.store import Row
from interlock.coordinator.world import World
from interlock.protocol.letters import Letters
from interlock.protocol.resource_commands import RunStep, StepResult
from interlock.protocol.resource_state import Ended, StepKind, UnitState
from interlock.protocol.table import Table

LINES = (Path(__file__).parents[1] / "fixtures" / "journal_of_0.1.jsonl").read_bytes().splitlines()
CONFIG = '[resources.gpu]\nunits = ["0", "1"]\n[resources.web]\nstart = "npm run dev"\nurl = "http://localhost:7080"\n'


def rows() -> list[Row]:
    found = []
    for line in LINES[:-1]:
        record = records.decode(line)
        last = record.first_seq + sum(len(entry.events) for entry in record.entries) - 1
        found.append(Row(record.index, record.first_seq, last, record.at_ms, records.digest(line), line))
    return found


def without_numbers(world: World) -> World:
    """As 0.1 had it: it did not number letters."""
    inboxes = {}
    for name, inbox in world.inboxes.items():
        unread = Letters(msgspec.structs.replace(letter, seq=0) for letter in inbox.unread.values())
        inboxes[name] = msgspec.structs.replace(inbox, unread=unread)
    return msgspec.structs.replace(world, letters=0, inboxes=inboxes)


def without_ends(world: World) -> World:
    """As 0.1 had it: of a ticket that had ended it did not keep the fence."""
    resources = {}
    for key, resource in world.resources.items():
        ended = ((id_, Ended(each.agent, each.at_ms, each.why)) for id_, each in resource.ended.items())
        resources[key] = msgspec.structs.replace(resource, ended=Table(ended))
    return msgspec.structs.replace(world, resources=resources)


def test_its_records_make_the_world_that_it_had() -> None:
    world = World()
    for row in rows():
        world.apply(records.decode(row.body))
        world.hash = row.hash.hex()
    snapshot = World.decode(LINES[-1])
    assert as_bytes(without_ends(without_numbers(world))) == as_bytes(snapshot)
    assert [str(unit.state) for unit in world.resources["machine/gpu"].units] == ["draining", "held"]


@pytest.mark.anyio
async def test_a_supervisor_of_today_takes_up_what_was_under_way() -> None:
    # given
    store = MemoryStore()
    store.durable = rows()
    bus = Bus(store, parse_config(CONFIG, "bus.toml"))
    bus.effects.gone |= {process(50), process(52)}
    # when
    async with bus.running():
        await settled()
        web = bus.supervisor.world.resources["machine/web"]
        (stop,) = [order for key, order in bus.effects.begun if key == "machine/web"]
        assert isinstance(stop, RunStep)
        assert (stop.kind, stop.server and stop.server.worktree) == (StepKind.STOP, "/w3")
        bus.supervisor.tell("machine/web", StepResult("", stop.step, evidence="gone"))
        await settled()
        # then
        start = bus.effects.begun[-1][1]
        assert isinstance(start, RunStep)
        assert (start.kind, start.worktree, start.agent) == (StepKind.START, "/w2", "bob")
        web = bus.supervisor.world.resources["machine/web"]
        assert web.units[0].state is UnitState.PREPARING
