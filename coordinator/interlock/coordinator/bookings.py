"""Bookings: what is reserved and run for tasks, told to the tasks as it begins and ends.

    a unit or lease with a task is granted ──▶ `task/<id>`: reserved      its fence is over ──▶ given back, handed over
    a command with a task is admitted ──▶ `task/<id>`: begun              struck off ──▶ its exit code

It decides nothing and keeps nothing that the world does not say: after a restart it is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from interlock.coordinator.world import TASK
from interlock.protocol.claim import claim_text
from interlock.protocol.inbox import Inbox
from interlock.protocol.lease import Lease
from interlock.protocol.resource_events import HoldReleased, HoldRevoked, PassedOver
from interlock.protocol.resource_giving import HANDED_OVER
from interlock.protocol.resource_state import Resource
from interlock.protocol.task_commands import GiveBack, LaunchFor, Read, Reserve
from interlock.protocol.task_messages import Assigned
from interlock.protocol.task_state import Reservation, TaskLaunch
from interlock.protocol.territory_events import LeaseBegan, LeaseMoved, LeaseOver

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor


class Bookings:
    """One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._open: dict[str, dict[int, str]] = {}  # actor → fence → task, of what is reserved for one

    def of_resource(self, resource: Resource, events: Iterable[Any] = ()) -> None:
        """Tell of what is held for a task and was not before, and of what is no longer.

        Args: events: that made the state; they say how a hold has ended.
        """
        mine = self._open.get(resource.key, {})
        held = {}
        for unit in resource.units:
            ticket = unit.ticket
            if ticket is not None and ticket.task and unit.fence:
                what = ticket.called + (f" unit {unit.name}" if unit.name else "")
                held[unit.fence] = Reservation(unit.fence, resource.key, ticket.agent, what, 0)
                if unit.fence not in mine:
                    self._begin(ticket.task, held[unit.fence])
        for fence in [fence for fence in mine if fence not in held]:
            self._end(resource.key, fence, *_how(fence, events))

    def of_territory(self, key: str, event: Any) -> None:
        """The same of one event of a territory."""
        match event:
            case LeaseBegan(_, lease) if lease.task:
                self.of_lease(key, lease)
            case LeaseOver(fence=fence, how=how, why=why):
                self._end(key, fence, f"{how.replace('_', ' ')}: {why}" if why else str(how))
            case LeaseMoved(agent, lease, old_agent):
                for fence in [each for each, _ in self._of_lease(key, lease.id)]:
                    self._end(key, fence, f"handed over by {old_agent}", agent)

    def of_lease(self, key: str, lease: Lease) -> None:
        """A lease that is in force for a task."""
        what = " ".join(map(claim_text, lease.claims))
        self._begin(lease.task, Reservation(lease.fence, key, lease.agent, what, 0, lease.id))

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

    # --- straight helpers -------------------------------------------------------------------
    def _begin(self, task: str, reservation: Reservation) -> None:
        self._open.setdefault(reservation.key, {})[reservation.fence] = task
        known = self._supervisor.world.task(TASK + task).reserved
        if str(reservation.fence) not in known:
            self._tell(task, Reserve(reservation))

    def _end(self, key: str, fence: int, how: str, handed_to: str = "") -> None:
        task = self._open.get(key, {}).pop(fence, "")
        if not self._open.get(key, True):
            del self._open[key]
        if task:
            self._tell(task, GiveBack(fence, how, handed_to))

    def _of_lease(self, key: str, lease: str) -> list[tuple[int, str]]:
        """(fence, task) of what is on record of a lease."""
        found = []
        for fence, task in self._open.get(key, {}).items():
            reservation = self._supervisor.world.task(TASK + task).reserved.get(str(fence))
            if reservation is not None and reservation.lease == lease:
                found.append((fence, task))
        return found

    def _tell(self, task: str, command: Any) -> None:
        self._supervisor.tell(TASK + task, command)

    def take_up(self) -> None:
        """After a start: what holds for which task, what has ended meanwhile, what was read and what was run."""
        world = self._supervisor.world
        for task in world.tasks.values():
            for reservation in task.held():
                self._open.setdefault(reservation.key, {})[reservation.fence] = task.id
            if task.assignment is not None and not task.read_ms:
                inbox = world.inbox(task.assignment.assignee)
                self.acked(inbox, [each.id for each in inbox.acked.values() if isinstance(each.body, Assigned)])
        for resource in world.resources.values():
            self.of_resource(resource)
        for key, territory in world.territories.items():
            held = {lease.fence: lease for lease in territory.held.values() if lease.task}
            for lease in held.values():
                self.of_lease(key, lease)
            for fence in [each for each in self._open.get(key, {}) if each not in held]:
                self._end(key, fence, "it ended while the bus was going down")
        for launch in [each for each, command in world.gate.commands.items() if command.task]:
            self.command(launch)
        for launch, over in world.gate.over.items():
            known = world.task(TASK + over.task).launches.get(launch) if over.task else None
            if over.task and (known is None or not known.over_ms):
                self.command(launch)


def _how(fence: int, events: Iterable[Any]) -> tuple[str, str]:
    """How a hold has ended, and to whom it was handed over."""
    for event in events:
        if isinstance(event, HoldReleased | HoldRevoked | PassedOver) and event.fence == fence:
            handed_to = event.why.removeprefix(HANDED_OVER) if event.why.startswith(HANDED_OVER) else ""
            return event.why, handed_to
    return "it has ended", ""
