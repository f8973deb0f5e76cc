"""Several: messages about several resources at once: REQUEST a,b · RELEASE a,b · CANCEL of a place that is for several.

Which resources are meant is established here, one by one, as for a message about one; what becomes of them is one step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from interlock.coordinator.actor import Item
from interlock.coordinator.naming import Names, No
from interlock.coordinator.session import Session
from interlock.coordinator.store import NotWritten
from interlock.coordinator.tickets import Tickets
from interlock.protocol.codes import Code
from interlock.protocol.limits import RESOURCES_LIVE_MAX, TOGETHER_MAX
from interlock.protocol.messages import (
    Cancel,
    Cancelled,
    Extend,
    FromBus,
    Granted,
    Handover,
    Queued,
    Refused,
    Release,
    Released,
    Request,
    Restart,
)
from interlock.protocol.resource_commands import AskTogether, GiveTogether, Mail, MailBody
from interlock.protocol.resource_state import find_ticket, queued_of, unit_of
from interlock.protocol.visible import quoted

if TYPE_CHECKING:
    from interlock.coordinator.supervisor import Supervisor

MakeMail = Callable[[Session, MailBody, str, str, str, int], Mail]
MakeRequest = Callable[[Request, str, Session, str, str], Request]
IsNew = Callable[..., bool]
OfSeveral = Request | Release | Cancel
AboutResource = Request | Release | Extend | Cancel | Restart | Handover


class Several:
    """One per bus. Args: make_mail, make_request, is_new: as the router makes a message about one resource."""

    def __init__(
        self, supervisor: Supervisor, names: Names, tickets: Tickets, make_mail: MakeMail, make_request: MakeRequest,
        is_new: IsNew,
    ) -> None:  # fmt: skip
        self._supervisor = supervisor
        self._names = names
        self._tickets = tickets
        self._make_mail = make_mail
        self._make_request = make_request
        self._is_new = is_new

    def divide(self, message: AboutResource, session: Session, sender: str) -> tuple[AboutResource, dict[str, str]]:
        """All resources that a message is about, where they are several, by key with how each is called. Raises No."""
        if isinstance(message, Request) and message.resources and message.resource:
            raise No(Code.BAD_MESSAGE, "resource and resources are both named: say all of them in one of the two")
        if isinstance(message, Request) and message.resources:
            message = msgspec.structs.replace(message, resource=",".join(message.resources), resources=())
        if not isinstance(message, OfSeveral):
            return message, {}
        if "," in message.resource:
            keys = self._keys_of(message, session, sender)
            only = next(iter(keys.values()))
            return (message, keys) if len(keys) > 1 else (msgspec.structs.replace(message, resource=only), {})
        if isinstance(message, Request) or not self._names.waits_for_several(sender):
            return message, {}
        return message, self._place_of(message, session, sender)

    def hear(
        self, session: Session, message: AboutResource, keys: dict[str, str], item: Item, sent_ms: int
    ) -> Awaitable[None] | None:
        """Put a message about several to them. Args: item: the message, for who has it answered. Raises No."""
        assert isinstance(message, OfSeveral)
        supervisor, sender, called = self._supervisor, item.sender, ",".join(keys.values())
        mail = self._make_mail(session, message, sender, item.id, called, sent_ms)
        mails = {key: _to(mail, key, name) for key, name in keys.items()}
        if isinstance(message, Request):
            self._may_ask(message, keys)
            for key, each in mails.items():
                assert isinstance(each.body, Request)
                body = self._make_request(each.body, each.called, session, sender, item.id)
                mails[key] = msgspec.structs.replace(each, body=body)
        answer = self._what_became(item.id, sender, keys, message) if item.id in supervisor.world.ids else None
        if answer is not None:
            supervisor.say(session, item.id, answer)
        elif isinstance(message, Request):
            return self._ask(session, mails, item)
        elif self._is_new(session, item):
            supervisor.together.put(keys, GiveTogether(mails, called), item)
        return None

    async def _ask(self, session: Session, mails: dict[str, Mail], item: Item) -> None:
        states = self._supervisor.states
        try:
            for key in mails:  # nobody is queued for what has no state file
                if not states.covers(key):
                    await states.cover(key)
        except NotWritten as error:
            raise No(Code.JOURNAL_UNAVAILABLE, f"the bus cannot write ({error}): nothing was changed") from None
        deadlocks, sender = self._supervisor.deadlocks, item.sender
        if self._supervisor.is_under_way(item.id):
            self._is_new(session, item)
            return
        if not deadlocks.is_compound(sender, mails):
            answered = await deadlocks.shared()
        else:
            answered = await deadlocks.alone(sender)
            if why := deadlocks.why_not(sender, mails):
                answered()
                raise No(Code.DEADLOCK, why)
        begun = deadlocks.under_way(sender, tuple(mails))

        def over() -> None:
            begun()
            answered()

        if self._is_new(session, item, over):
            self._supervisor.together.askers.add(sender)
            self._supervisor.together.put(mails, AskTogether(mails), item)

    # --- straight helpers -----------------------------------------------------------------------
    def _keys_of(self, message: OfSeveral, session: Session, sender: str) -> dict[str, str]:
        """The resources that a list names; one that is named twice is meant once. Raises No."""
        names = [each.strip() for each in message.resource.split(",")]
        if not all(names):
            why = f"{quoted(message.resource)} has an empty name in it: write RESOURCE,RESOURCE without spaces"
            raise No(Code.BAD_MESSAGE, why)
        found: dict[str, str] = {}
        worktree = message.worktree if isinstance(message, Request) else ""
        for name in names:
            found.setdefault(self._names.resolve(name, session, sender=sender, worktree=worktree), name)
        if len(found) > TOGETHER_MAX:
            why = f"{len(found)} resources are too many at once, at most {TOGETHER_MAX}: ask for fewer"
            raise No(Code.BAD_MESSAGE, why)
        if isinstance(message, Release) and message.fence and len(found) > 1:
            raise No(Code.BAD_MESSAGE, "a fence is of one hold: release each with its own, or all of them without")
        return found

    def _place_of(self, message: Release | Cancel, session: Session, sender: str) -> dict[str, str]:
        """All that a place in the queue stands for, where a RELEASE or CANCEL means one of them; else nothing."""
        if isinstance(message, Cancel) and message.request_id:
            return {}
        called, world = message.resource, self._supervisor.world
        if called:
            key = self._names.resolve(called, session, sender=sender)
        else:
            waiting = self._names.waiting_together(sender)
            if not waiting or (isinstance(message, Release) and self._names.holds_any(sender)):
                return {}
            key = waiting[0]
        resource = world.resource(key)
        unit = unit_of(resource, sender)
        ticket = queued_of(resource, sender) if unit is None else unit.ticket if not unit.fence else None
        found = {}
        for each in ticket.together if ticket is not None else ():
            part, _ = find_ticket(world.resource(each), ticket.request_id) if ticket is not None else (None, None)
            if part is not None:
                found[each] = part.called
        return found if len(found) > 1 else {}

    def _may_ask(self, request: Request, keys: dict[str, str]) -> None:
        if request.run or request.ticket or request.under:
            raise No(Code.BAD_MESSAGE, "a bus run takes its resources one by one: --resource A --resource B")
        if not all(self._supervisor.world.has_room_for(key) for key in keys):
            raise No(Code.QUEUE_FULL, f"{RESOURCES_LIVE_MAX} resources are in use, no more can be: release some")

    def _what_became(self, message_id: str, sender: str, keys: dict[str, str], message: OfSeveral) -> FromBus | None:
        """The same message again: what is true now; None where that is still under way."""
        called, whole = ",".join(keys.values()), ",".join(keys)
        if isinstance(message, Release):
            return Released(called, whole)
        if isinstance(message, Cancel):
            return Cancelled(called, whole)
        resources = [self._supervisor.world.resource(key) for key in keys]
        if any(find_ticket(each, message_id) != (None, None) or message_id in each.ended for each in resources):
            return None
        answer = self._tickets.truth_of_several(sender, keys)
        if isinstance(answer, Granted | Queued):
            return answer
        return Refused(Code.TARGET_ENDED, "that request ended a while ago: ask anew", called)


def _to(mail: Mail, key: str, called: str) -> Mail:
    return msgspec.structs.replace(mail, body=msgspec.structs.replace(mail.body, resource=key), called=called)
