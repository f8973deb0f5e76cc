"""Holdings: what a program has and waits for, kept true by what the bus says. `Bus`, holds and grants ask here."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from interlock.adapters.client.debts import Debts
from interlock.adapters.client.errors import BusError, Lost, Refused
from interlock.adapters.client.grants import Grant
from interlock.adapters.client.link import PATIENCE_S, Link
from interlock.adapters.client.wire import Body, Frame
from interlock.protocol import control, messages
from interlock.protocol.codes import Code
from interlock.protocol.messages import Granted, Queued, Revoked

log = logging.getLogger("interlock.client")
LOOK_S = 10.0  # a ticket is looked at again so often, whatever was heard
RECONNECT_S = 30.0  # who waits in a queue waits so long for a supervisor, too
Spawn = Callable[..., None]


class Holdings:
    """One per Bus. Args: link: to the bus. spawn: runs something beside."""

    def __init__(self, link: Link) -> None:
        self.debts = Debts()
        self.waiting: set[str] = set()  # request ids
        self._link = link
        self._grants: dict[int, list[Grant]] = {}  # fence → who has it in this program
        self._releasing: set[int] = set()  # fences
        self._revoked: dict[str, Revoked] = {}  # request id → how it ended, as only its letter says
        self._stirred: dict[str, anyio.Event] = {}
        self._spawn: Spawn = lambda work, *about: None
        link.on_news, link.on_return, link.on_end = self._heard, self._returned, self._ended

    def begin(self, spawn: Spawn) -> None:
        """From now on polls are answered. Args: spawn: runs something beside."""
        self._spawn = spawn

    async def say(self, body: object, message_id: str = "", *, sent: list[bool] | None = None) -> Body:
        """One message to the coordinator. Raises Refused, BusUnavailable."""
        return await self._link.ask("coordinator", {"body": body}, message_id, sent=sent)

    async def supervisor(self, body: object, *, patience_s: float = PATIENCE_S) -> Body:
        """One question to the bus itself. Raises Refused, BusUnavailable."""
        return await self._link.ask("supervisor", {"body": body}, patience_s=patience_s)

    # --- waiting --------------------------------------------------------------------------------
    def news_about(self, key: str) -> anyio.Event:
        """Set at the next news about that resource; "": about anything."""
        return self._stirred.setdefault(key, anyio.Event())

    async def next_truth(self, queued: Queued) -> Body:
        """Wait for news of a ticket, or a while; then what is true of it. Raises Refused where it is over."""
        self.waiting.add(queued.request_id)
        try:
            stirred = self.news_about(queued.key if "," not in queued.key else "")  # of several: about anything
            truth = await self.supervisor(control.Wait(queued.key), patience_s=RECONNECT_S)
            if isinstance(truth, Queued):
                with anyio.move_on_after(LOOK_S):
                    await stirred.wait()
                if queued.request_id in self._revoked:
                    return self._revoked.pop(queued.request_id)
                truth = await self.supervisor(control.Wait(queued.key), patience_s=RECONNECT_S)
            return truth
        finally:
            self.waiting.discard(queued.request_id)

    async def until_granted(self, answer: Body, timeout_s: float | None) -> Granted | Queued:
        """Wait while a ticket stands in the queue. Raises Refused where it is over, or its server is down."""
        with anyio.move_on_after(timeout_s if timeout_s is not None else float("inf")):
            while isinstance(answer, Queued):
                answer = await self.next_truth(answer)
        if isinstance(answer, Granted | Queued):
            return answer
        raise refusal(answer)

    async def restart(self, resource: str, timeout_s: float | None) -> Granted:
        """Start the server that is held again, and wait until it is ready. Raises Refused, BusUnavailable."""
        answer = await self.until_granted(await self.say(messages.Restart(resource)), timeout_s)
        if isinstance(answer, Queued):
            raise Refused(
                Code.RESOURCE_WAIT_TIMEOUT, f"{answer.resource} is still being started: bus wait {answer.resource}"
            )
        for grant in self._grants.get(answer.fence, ()):
            grant.down = ""
        return answer

    # --- grants -----------------------------------------------------------------------------------
    def granted(self, granted: Granted, *, shared: bool = False, answer_polls: bool = False) -> Grant:
        """Make a grant, and hear from now on what becomes of it."""
        grant = Grant(self, granted, shared=shared, answer_polls=answer_polls)
        self._grants.setdefault(grant.fence, []).append(grant)
        return grant

    def ended(self, fence: int, why: str) -> None:
        """A hold is over: whoever still has a grant of it hears so."""
        for grant in self._grants.pop(fence, ()):
            grant.lost.set(why)

    def let_go(self, grant: Grant) -> None:
        """Its user is done with it: nothing of it is news any more."""
        mates = [each for each in self._grants.pop(grant.fence, ()) if each is not grant]
        if mates:
            self._grants[grant.fence] = mates

    def has(self, fence: int, request_id: str = "") -> bool:
        """This program has that hold, or waits for that ticket."""
        return fence in self._grants or request_id in self.waiting

    async def release(self, grant: Grant) -> None:
        """As Grant.release."""
        if not self._is_live(grant):
            return
        self._releasing.add(grant.fence)
        try:
            several = "," in grant.key  # asked for as one, without hold_all: a fence is of one hold
            await self.say(messages.Release(grant.key, 0 if several else grant.fence))
        except Refused as refused:
            if refused.code not in {Code.NOT_HOLDER, Code.STALE_FENCE}:
                raise
        finally:
            self._releasing.discard(grant.fence)
        self.let_go(grant)
        self.ended(grant.fence, "released by the hold that it went under")

    async def withdraw(self, resource: str, request_id: str) -> None:
        """Make sure that nothing is left of a ticket, whatever has become of it meanwhile."""
        while True:
            try:
                await self.say(messages.Cancel(resource, request_id))
                return
            except Refused as refused:
                if refused.code != Code.NOT_QUEUED:
                    raise
            me = await self.supervisor(control.AskMe())
            tickets = me.tickets if isinstance(me, control.MeReply) else ()
            mine = [each for each in tickets if each.request_id == request_id]
            for each in mine:
                if each.state in {"held", "down"}:
                    await self.say(messages.Release(each.key, each.fence))
            if not any(each.state in {"queued", "preparing"} for each in mine):
                return

    async def check(self, grant: Grant) -> None:
        """As Grant.check. What it finds out is said to all that have that hold."""
        grant.raise_if_lost()
        try:
            truth = await self.supervisor(control.Wait(grant.key))
        except Refused as refused:
            truth = messages.Refused(refused.code, refused.why)
        if (
            isinstance(truth, messages.Refused) and grant.shared
        ):  # perhaps under a bus run, which has no ticket to wait for
            try:
                truth = await self.supervisor(control.Check(grant.key))
            except Refused as refused:
                truth = messages.Refused(refused.code, refused.why)
        match truth:
            case Granted(fence=grant.fence):
                grant.down = ""
            case messages.Down(fence=grant.fence, why=why):
                grant.down = why
                raise refusal(truth)
            case Queued(request_id=grant.request_id):
                raise Refused(
                    Code.NOT_HOLDER, f"{grant.resource} is yours, and its server is being started: wait for it"
                )
            case Revoked(fence=grant.fence, why=why) | messages.Refused(why=why):
                self.ended(grant.fence, why)
            case _:
                self.ended(grant.fence, "it ended, and the bus remembers no more how: see bus tail")
        grant.raise_if_lost()

    # --- news -------------------------------------------------------------------------------------
    def _is_live(self, grant: Grant) -> bool:
        return grant in self._grants.get(grant.fence, ())

    def _heard(self, frame: Frame, body: Body) -> None:
        fence, request_id = getattr(body, "fence", 0), getattr(body, "request_id", "")
        grants = list(self._grants.get(fence, ()))
        if request_id in self.waiting and isinstance(body, Revoked):
            self._revoked[request_id] = body
        letter = not isinstance(body, messages.StillUsing | messages.Released)
        if letter and (grants or request_id in self.waiting):
            self._spawn(self._ack, frame.id)
        match body:
            case Revoked(why=why):
                self.ended(fence, why)
            case messages.Down(why=why):
                for grant in grants:
                    grant.down = why
            case Granted():
                for grant in grants:
                    grant.down = ""
            case messages.Released() if grants and fence not in self._releasing:  # not by this program: how, it asks
                self._spawn(self._look_at, grants[0])
            case messages.StillUsing():
                for grant in [each for each in grants if each.answers_polls][:1]:
                    self._spawn(self._look_at, grant)
        for key in {"", getattr(body, "key", "")}:
            self._stirred.pop(key, anyio.Event()).set()

    def _returned(self) -> None:
        """A new connection: whatever was ours is looked at, and who waits looks again."""
        stirred, self._stirred = self._stirred, {}
        for event in stirred.values():
            event.set()
        for fence, grants in list(self._grants.items()):
            if fence not in self._releasing:
                self._spawn(self._look_at, grants[0])

    def _ended(self, why: str) -> None:
        """This program is not that agent any more, or is done with the bus: nothing of it is ours."""
        for fence in list(self._grants):
            self.ended(fence, why)

    async def _look_at(self, grant: Grant) -> None:
        """The question is a sign of life too: it answers a poll, and only a loop that runs can ask it."""
        try:
            await self.check(grant)
        except (Lost, BusError) as error:
            log.debug("%s", error)

    async def _ack(self, message_id: str) -> None:
        """This program has read it: no command need show it."""
        try:
            await self.supervisor(control.AckMessages((message_id,)))
        except BusError as error:
            log.debug("not acked: %s", error)


def refusal(answer: Body) -> Refused:
    """An answer that is no grant, as what is raised."""
    match answer:
        case Revoked(code=code, why=why, tail=tail, log=path):
            lines = "".join(f"\n  | {line}" for line in tail) + (f"\n  log: {path}" if path else "")
            return Refused(code or Code.TARGET_ENDED, why + lines)
        case messages.Down(resource=resource, why=why):
            return Refused(Code.NOT_HOLDER, f"{resource} is yours, but its server is down ({why}): restart it")
        case _:
            return Refused(Code.INTERNAL, f"the bus answers {type(answer).__name__}, which nobody asked for")
