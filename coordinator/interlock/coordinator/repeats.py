"""Repeats: a message that comes again is done once. It is known by its id, and by what it says."""

import hashlib

from interlock.coordinator.naming import No
from interlock.coordinator.records import DEAD
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.tickets import Tickets
from interlock.protocol.codes import Code
from interlock.protocol.messages import (
    Cancel,
    Cancelled,
    Extend,
    Extended,
    FromBus,
    Granted,
    Handover,
    Queued,
    Refused,
    Release,
    Released,
    Request,
    Restart,
    ToCoordinator,
)
from interlock.protocol.resource_state import UnitState, find_ticket, unit_of


class Repeats:
    """One per bus."""

    def __init__(self, supervisor: Supervisor, tickets: Tickets) -> None:
        self._supervisor = supervisor
        self._tickets = tickets

    def digest(self, message_id: str, way: str, content: bytes) -> str:
        """The digest of a message; the same id with other content is refused."""
        digest = hashlib.blake2b(b"%b\0%b" % (way.encode(), content), digest_size=8).hexdigest()
        known = self._supervisor.digest_of(message_id)
        if known == DEAD + digest:
            raise No(Code.INTERNAL, "that message met a fault of the bus itself, and is not tried again: read the log")
        if known not in {None, digest}:
            raise No(Code.ID_CONFLICT, f"another message with the id {message_id} was taken in before: use a new one")
        return digest

    def what_became(self, message_id: str, sender: str, called: str, body: ToCoordinator) -> FromBus | None:
        """The same message again: it is never done again, and is answered with what is true now.

        Returns:
            The answer; None where what it asked for is still under way, and will be answered by its actor.
        """
        resource = self._supervisor.world.resource(getattr(body, "resource", called))
        answer: FromBus | None = None
        match body:
            case Request():
                if find_ticket(resource, message_id) == (None, None) and message_id not in resource.ended:
                    # It may have joined a ticket that its agent had: then that is what became of it.
                    answer = self._tickets.truth(sender, resource.key, called)
                    if not isinstance(answer, Granted | Queued):
                        answer = Refused(Code.TARGET_ENDED, "that request ended a while ago: ask anew", called)
            case Release() | Handover():
                answer = Released(called, resource.key, getattr(body, "fence", 0))
            case Cancel():
                answer = Cancelled(called, resource.key, body.request_id)
            case Extend() if (unit := unit_of(resource, sender)) is not None and unit.state is UnitState.HELD:
                left_ms = max(0, unit.until_ms - self._supervisor.clock.wall_ms()) if unit.until_ms else 0
                answer = Extended(called, resource.key, unit.fence, left_ms)
            case Restart() | Extend():
                answer = self._tickets.truth(sender, resource.key, called)
        return answer
