"""Naming: which resource is meant by what an agent wrote, and which one where it wrote none. Source: contract §1."""

import msgspec

from interlock.coordinator.supervisor import Supervisor
from interlock.protocol.codes import Code
from interlock.protocol.grammar import split_resource
from interlock.protocol.messages import Cancel, Extend, Refused, ToCoordinator
from interlock.protocol.names import is_key, nearest, why_not_resource
from interlock.protocol.resource_state import queued_of, unit_of


class No(Exception):
    """An expected no on the way to a mailbox."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.refusal = Refused(code, why)


class Names:
    """One per bus."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def resolve(self, called: str) -> str:
        """The full key of what an agent calls a resource. Source: contract §1."""
        if "," in called:
            why = "several resources in one REQUEST come with a later version: ask for one at a time"
            raise No(Code.CAPABILITY_DENIED, why)
        why_not = why_not_resource(called)
        if why_not is not None:
            raise No(Code.BAD_MESSAGE, why_not)
        if is_key(called):
            return called
        declared = {key.rpartition("/")[2]: key for key in self._supervisor.config.resources}
        if called in declared:
            return declared[called]
        close = nearest(called, declared)
        if close:
            hint = f"did you mean {' or '.join(close)}?"
        elif declared:
            hint = f"declared are {', '.join(sorted(declared)[:8])}"
        else:
            hint = "nothing is declared in bus.toml"
        raise No(Code.UNKNOWN_RESOURCE, f"no resource {called!r} is declared: {hint} (or use machine/{called})")

    def extended(self, message: Extend, sender: str) -> Extend:
        """The first word of an EXTEND is a resource only if the sender holds it."""
        word, rest = split_resource(message.purpose)
        for called, key in self._held(sender):
            if word in {called, key}:
                return msgspec.structs.replace(message, resource=word, purpose=rest)
        return message

    def the_only_one(self, message: ToCoordinator, sender: str) -> str:
        """Where no resource is named: the one that the sender holds, or waits for to cancel."""
        mine = self._held(sender)
        if isinstance(message, Cancel) or not mine:
            mine = self._waiting(sender) or mine
        if len(mine) == 1:
            return mine[0][0]
        if not mine:
            raise No(Code.NOT_HOLDER, f"{sender} holds nothing and waits for nothing: bus request RESOURCE")
        raise No(Code.AMBIGUOUS_TARGET, f"say which: {', '.join(called for called, _ in mine)}")

    def _held(self, sender: str) -> list[tuple[str, str]]:
        """(as called, key) of what the sender holds or has prepared, `bus run` left out."""
        world, found = self._supervisor.world, []
        for key in self._supervisor.resources_of(sender):
            unit = unit_of(world.resources[key], sender)
            if unit is not None and unit.ticket is not None:
                found.append((unit.ticket.called, key))
        return found

    def _waiting(self, sender: str) -> list[tuple[str, str]]:
        world = self._supervisor.world
        tickets = [(queued_of(world.resources[key], sender), key) for key in self._supervisor.resources_of(sender)]
        return [(ticket.called, key) for ticket, key in tickets if ticket is not None]
