"""Claiming the journal: a supervisor's first record, and the recovery that it begins where the journal was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from interlock.coordinator.dispatcher import RETRY_SECONDS
from interlock.coordinator.ids import new_id
from interlock.coordinator.records import CameUp
from interlock.coordinator.recovery import judge, number_floor, rebuild

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


async def claim(supervisor: Supervisor) -> str:
    """Have it on record that this supervisor is the one.

    Returns:
        What every agent is to be told of a recovery; "" where there was none.

    Raises:
        Unusable: the journal is an old copy, see recovery.py.
        NotWritten: the high-water mark cannot be written, in a recovery.
    """
    world, found = supervisor.world, supervisor.found
    lost = judge(world, found)
    if lost:
        supervisor.journal.number_after(number_floor(world, found))
    world.term += 1
    came_up = CameUp(world.term, supervisor.pid, world.bus or new_id(), lost)
    if lost:
        await _until_recorded(supervisor, came_up)  # before anything else: a recovery cut short is taken up again
        await supervisor.states.reserve_numbers(world.seq)  # from now on the mark belongs to this journal
        return await rebuild(supervisor, found)
    if not await supervisor.record(came_up):
        supervisor.spawn(_until_recorded, supervisor, came_up)
    return ""


async def _until_recorded(supervisor: Supervisor, came_up: CameUp) -> None:
    """Where the disk is full, what this supervisor is has its record as soon as there is room."""
    while not await supervisor.record(came_up):
        if supervisor.stopping.is_set():
            return
        await anyio.sleep(RETRY_SECONDS)
