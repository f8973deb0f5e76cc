"""Feeds: what comes to a program as it happens, as async iterators: its messages, and the event log.

Both may be cancelled at any moment and asked for the next again: nothing is passed over.
"""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import anyio
import msgspec

from interlock.adapters.client.errors import BusUnavailable, Refused
from interlock.adapters.client.wire import Gone, Wire, body_of, open_wire
from interlock.protocol import control, messages

if TYPE_CHECKING:
    from interlock.adapters.client.holdings import Holdings

AGAIN_S = 0.3
LOOK_S = 10.0


class Message(msgspec.Struct, frozen=True):
    """One message to you.

    Args:
        sender: an agent, or "coordinator". type: "TEXT" from an agent, else as the protocol calls it: "REVOKED", ….
        text: as a person reads it. body: the same as fields. reply_to: id of the message that it answers, or "".
    """

    id: str
    sender: str
    type: str
    text: str
    at: datetime.datetime
    body: dict[str, Any]
    reply_to: str = ""


class Inbox:
    """See `Bus.inbox`, which makes it."""

    def __init__(self, holdings: Holdings, timeout_s: float | None, *, ack: bool) -> None:
        self._holdings = holdings
        self._timeout_s = timeout_s
        self._ack = ack
        self._ready: deque[Message] = deque()
        self._seen: set[str] = set()  # unread on the bus, and had already
        self._taken = ""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        if self._taken and self._ack:
            await self._holdings.supervisor(control.AckMessages((self._taken,)))
        self._taken = ""
        with anyio.move_on_after(self._timeout_s if self._timeout_s else float("inf")):
            while not self._ready:
                news = self._holdings.news_about("")
                await self._read()
                if not self._ready and self._timeout_s == 0:
                    break
                if not self._ready:
                    with anyio.move_on_after(LOOK_S):
                        await news.wait()
        if not self._ready:
            raise StopAsyncIteration
        message = self._ready.popleft()
        self._taken = message.id
        return message

    async def _read(self) -> None:
        reply = await self._holdings.supervisor(control.ReadInbox())
        assert isinstance(reply, control.InboxReply)
        unread = {each["id"] for each in reply.messages}
        for each in reply.messages:
            body = each["body"]
            own = self._holdings.has(body.get("fence", 0), body.get("request_id", ""))  # read by the program itself
            if each["id"] not in self._seen and not own:
                self._ready.append(_message(each))
        self._seen = unread


class Tail:
    """See `Bus.tail`, which makes it. `aclose` ends it; the end of its Bus does too."""

    def __init__(self, home: str, agent: str, question: control.Tail, token: Callable[[], str]) -> None:
        self.on_close: Callable[[Tail], None] = lambda tail: None
        self._home = home
        self._agent = agent
        self._question = question
        self._token = token
        self._events: deque[dict[str, Any]] = deque()
        self._wire: Wire | None = None
        self._is_over = False
        self._was_there = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        while not self._events:
            if self._is_over:
                await self.aclose()
                raise StopAsyncIteration
            try:
                await self._take(self._wire or await self._open())
            except (Gone, BusUnavailable) as error:
                self._drop()
                if not self._question.follow or not self._was_there:
                    raise BusUnavailable(str(error) or "the supervisor went away: ask again") from None
                await anyio.sleep(AGAIN_S)
        return self._events.popleft()

    async def aclose(self) -> None:
        """End it."""
        self._is_over = True
        self._drop()
        self.on_close(self)

    async def _open(self) -> Wire:
        wire = await open_wire(self._home, self._agent, start=True)
        try:
            await self._begin(wire)
        except BaseException:
            wire.close()
            raise
        self._wire = wire
        return wire

    async def _begin(self, wire: Wire) -> None:
        question, token = self._question, self._token()
        if token:
            await wire.send({"hello": {"agent": self._agent, "token": token}})
        if question.since < 0 and not question.last:  # from now on: and now is kept, over restarts too
            newest = msgspec.structs.replace(question, last=1, follow=False, resource="", event_type="")
            await wire.send({"id": "now", "to": "supervisor", "body": newest})
            while not self._is_over:
                await self._take(wire)
            self._events.clear()
            self._is_over = not question.follow
        await wire.send({"id": "tail", "to": "supervisor", "body": self._question})
        self._was_there = True

    async def _take(self, wire: Wire) -> None:
        match body_of(await wire.receive()):
            case control.EventsReply(events, through, end):
                self._events += events
                self._question = msgspec.structs.replace(self._question, since=through, last=0)
                self._is_over = end
            case messages.Refused(code, why):
                self._drop()
                raise Refused(code, why)

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


def _message(view: dict[str, Any]) -> Message:
    at = datetime.datetime.fromisoformat(view["at"])
    return Message(view["id"], view["from"], view["type"], view["text"], at, view["body"], view.get("reply_to", ""))
