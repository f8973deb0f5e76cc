"""Bookings: what is reserved for tasks, as the log says it, until the tasks' own records say it too.

    granted for a task ──▶ booked ──▶ on the task's record      its end ──▶ booked ──▶ on the task's record: gone

They are folded from the same events as everything else: what a crash came between is still owed after it.
"""

import msgspec

from interlock.protocol.claim import claim_text
from interlock.protocol.resource_events import HoldGranted, HoldReleased, HoldRevoked, PassedOver, RecoveryRequired
from interlock.protocol.resource_giving import HANDED_OVER
from interlock.protocol.task_commands import TaskReserved, TaskUnreserved
from interlock.protocol.task_state import Reservation
from interlock.protocol.territory_events import LeaseBegan, LeaseMoved, LeaseOver

replace = msgspec.structs.replace
OF_RESERVATIONS = frozenset(
    (HoldGranted, HoldReleased, HoldRevoked, PassedOver, RecoveryRequired, LeaseBegan, LeaseMoved, LeaseOver)
)
BOOKED = OF_RESERVATIONS | {TaskReserved, TaskUnreserved}


class Booking(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reservation for a task.

    Args:
        reservation: as it is to stand on the task's record; its end, too.
        unit: of the resource. told: the task's record has it.
    """

    task: str
    reservation: Reservation
    unit: str = ""
    told: bool = False


def book(bookings: dict[str, Booking], actor: str, event: object) -> None:
    """Take one event in; `bookings` are by fence, as text, and change. Args: actor: whose event it is."""
    match event:
        case HoldGranted(agent, unit, _, fence, at_ms, task=task, called=called) if task:
            what = called + (f" unit {unit}" if unit else "")
            bookings[str(fence)] = Booking(task, Reservation(fence, actor, agent, what, at_ms), unit)
        case LeaseBegan(agent, lease) if lease.task:
            what = " ".join(map(claim_text, lease.claims))
            reservation = Reservation(lease.fence, actor, agent, what, lease.since_ms, lease.id)
            bookings[str(lease.fence)] = Booking(lease.task, reservation)
        case HoldReleased() | HoldRevoked() | PassedOver():
            handed_to = event.why.removeprefix(HANDED_OVER) if event.why.startswith(HANDED_OVER) else ""
            _over(bookings, str(event.fence), event.at_ms, event.why, handed_to)
        case RecoveryRequired(unit, why, at_ms):
            _over(bookings, _of(bookings, actor, unit=unit), at_ms, why)
        case LeaseOver(fence=fence, how=how, why=why, at_ms=at_ms):
            _over(bookings, str(fence), at_ms, f"{how.replace('_', ' ')}: {why}" if why else str(how))
        case LeaseMoved(agent, lease, old_agent, at_ms):
            _over(bookings, _of(bookings, actor, lease=lease.id), at_ms, f"handed over by {old_agent}", agent)
        case TaskReserved(reservation=reservation) if str(reservation.fence) in bookings:
            bookings[str(reservation.fence)] = replace(bookings[str(reservation.fence)], told=True)
        case TaskUnreserved(fence=fence):
            bookings.pop(str(fence), None)


def _over(bookings: dict[str, Booking], fence: str, at_ms: int, how: str, handed_to: str = "") -> None:
    known = bookings.get(fence)
    if known is not None and not known.reservation.over_ms:
        over = replace(known.reservation, over_ms=at_ms, how=how, handed_to=handed_to)
        bookings[fence] = replace(known, reservation=over)


def _of(bookings: dict[str, Booking], actor: str, *, unit: str = "", lease: str = "") -> str:
    """The fence of what is held of a unit, or under a lease; "" where nothing is."""
    for fence, booking in bookings.items():
        of_it = booking.reservation
        if of_it.key == actor and not of_it.over_ms and (of_it.lease, booking.unit) == (lease, unit):
            return fence
    return ""
