"""Bookings: what is reserved and run for tasks, told to the tasks as it begins and ends.

    the world's bookings, its ledger, its inboxes ──▶ `task/<id>`: reserved, given back · begun, its exit code · read

It decides nothing and keeps nothing: what is owed to a task is told again after a restart, from what stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.coordinator.world import TASK
from interlock.protocol.inbox import Inbox
from interlock.protocol.task_bookings import Booking
from interlock.protocol.task_commands import GiveBack, LaunchFor, Read, Reserve
from interlock.protocol.task_messages import Assigned
from interlock.protocol.task_state import TaskLaunch

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


class Bookings:
    """One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def tell_owed(self, key: str) -> None:
        """Something of that resource or territory was granted or has ended: tell the tasks that it was for."""
        for booking in list(self._supervisor.world.bookings.values()):
            if booking.reservation.key == key:
                self._tell_owed(booking)

    def command(self, launch: str) -> None:
        """A command has been admitted, or has ended."""
        gate = self._supervisor.world.gate
        running, over = gate.commands.get(launch), gate.over.get(launch)
        if running is not None and running.task:
            self._tell(running.task, LaunchFor(TaskLaunch(launch, running.command)))
        elif running is None and over is not None and over.task:
            self._tell(over.task, LaunchFor(TaskLaunch(launch, over.command, over.code, over.over_ms)))

    def acked(self, inbox: Inbox, ids: Iterable[str]) -> None:
        """An agent has read messages: an assignment among them is on record as read, and nothing more."""
        for id_ in ids:
            letter = inbox.acked.get(id_)
            if letter is not None and isinstance(letter.body, Assigned):
                self._tell(letter.body.task, Read(inbox.agent))

    def take_up(self) -> None:
        """After a start: whatever a crash came between."""
        world = self._supervisor.world
        for booking in list(world.bookings.values()):
            self._tell_owed(booking)
        for task in world.tasks.values():
            if task.assignment is not None and not task.read_ms:
                inbox = world.inbox(task.assignment.assignee)
                self.acked(inbox, [each.id for each in inbox.acked.values() if isinstance(each.body, Assigned)])
        for launch in [each for each, command in world.gate.commands.items() if command.task]:
            self.command(launch)
        for launch, over in world.gate.over.items():
            known = world.task(TASK + over.task).launches.get(launch) if over.task else None
            if over.task and (known is None or not known.over_ms):
                self.command(launch)

    # --- straight helpers -------------------------------------------------------------------
    def _tell_owed(self, booking: Booking) -> None:
        of_it = booking.reservation
        if not booking.told:
            self._tell(booking.task, Reserve(msgspec.structs.replace(of_it, over_ms=0, how="", handed_to="")))
        if of_it.over_ms:
            self._tell(booking.task, GiveBack(of_it.fence, of_it.how, of_it.handed_to, of_it.over_ms))

    def _tell(self, task: str, command: Any) -> None:
        self._supervisor.tell(TASK + task, command)
