"""Claiming the journal: a supervisor's first record, and the recovery that it begins where the journal was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from interlock.coordinator.dispatcher import RETRY_SECONDS
from interlock.coordinator.ids import new_id
from interlock.coordinator.records import CameUp
from interlock.coordinator.recovery import judge, number_floor, rebuild
from interlock.coordinator.store import Unusable

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


async def claim(supervisor: Supervisor) -> str:
    """Have it on record that this supervisor is the one.

    Returns:
        What every agent is to be told of a recovery; "" where there was none.

    Raises:
        Unusable: the journal is an old copy, see recovery.py; or there is no room for what it must begin with.
        NotWritten: the high-water mark cannot be written, in a recovery.
    """
    world, found = supervisor.world, supervisor.found
    lost = judge(world, found)
    if lost:
        supervisor.journal.number_after(number_floor(world, found))
    world.term += 1
    came_up = CameUp(world.term, supervisor.pid, world.bus or new_id(), lost)
    recorded = await supervisor.record(came_up)
    if not recorded and (lost or not world.index):
        # Whoever served all the same would leave state files beside a journal without a record: to the next start that
        # is one that was lost. And a recovery is begun by a record, so that one cut short is taken up again.
        raise Unusable("no room for the first record in bus.db: make room on its disk, then start again")
    if lost:
        await supervisor.states.reserve_numbers(world.seq)  # from now on the mark belongs to this journal
        return await rebuild(supervisor, found)
    if not recorded:
        supervisor.spawn(_until_recorded, supervisor, came_up)
    return ""


async def _until_recorded(supervisor: Supervisor, came_up: CameUp) -> None:
    """Where the disk is full, what this supervisor is has its record as soon as there is room."""
    while not await supervisor.record(came_up):
        if supervisor.stopping.is_set():
            return
        await anyio.sleep(RETRY_SECONDS)
