"""A hold: a resource for the length of a block. Whatever happens to the block, nothing of it stays behind.

waiting ──▶ in ──▶ out                cancelled anywhere: the ticket is withdrawn, or the hold given back, by a debt
   └─ another task of this program is in: its turn first; a block inside that block goes under the same hold
"""

from __future__ import annotations

import contextlib
import logging
import os
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

import anyio

from interlock.adapters.client.debts import Debt
from interlock.adapters.client.errors import Refused
from interlock.adapters.client.grants import Grant
from interlock.coordinator.ids import new_id
from interlock.protocol import messages
from interlock.protocol.codes import Code
from interlock.protocol.durations import format_duration

if TYPE_CHECKING:
    from interlock.adapters.client.holdings import Holdings

log = logging.getLogger("interlock.client")
USED = "a hold is used once: call bus.hold(…) again"
_inside: ContextVar[tuple[Hold, ...]] = ContextVar("interlock_holds", default=())


class Turns:
    """Which hold of this program is in, by resource as called; and tickets that cancelled waits have left."""

    def __init__(self) -> None:
        self.holds: dict[str, Hold] = {}
        self.kept: dict[str, tuple[str, messages.Request]] = {}

    def mate_of(self, hold: Hold, grant: Grant) -> Hold | None:
        """Another hold of the same resource, whatever that calls it: which one a name means, the bus answers."""
        for each in self.holds.values():
            if each is not hold and (each.ticket == grant.request_id or each.key() == grant.key):
                return each
        return None


class _Ended(Exception):
    """The ticket of that id is over."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(str(refused))
        self.refused = refused


class Hold:
    """One use of a resource; see `Bus.hold`, which makes it."""

    def __init__(
        self, holdings: Holdings, turns: Turns, request: messages.Request, *, timeout_s: float | None, keep_place: bool,
        answer_polls: bool, cancel_on_lost: bool, anywhere: bool,
    ) -> None:  # fmt: skip
        self.resource = request.resource
        self._holdings = holdings
        self._turns = turns
        self._request = request
        self._timeout_s = timeout_s
        self._keep_place = keep_place
        self._answer_polls = answer_polls
        self._cancel_on_lost = cancel_on_lost
        self._anywhere = anywhere  # no worktree was given
        self.ticket = ""  # the id of its own request
        self._granted: messages.Granted | None = None
        self._grant: Grant | None = None
        self.is_used = False
        self._owes = False
        self._lost: Grant | None = None  # before it was given back
        self._over: anyio.Event  # it and the next are made on the loop that they are for, when the hold is entered
        self._behind: Hold | None = None  # another task's hold of the same resource under another name
        self._stirred: anyio.Event  # it is over, or stands behind another one
        self._scope: anyio.CancelScope | None = None

    def key(self) -> str:
        """Which resource that is, as the bus calls it; "" before it has said."""
        return self._granted.key if self._granted is not None else ""

    # --- in -----------------------------------------------------------------------------------
    async def __aenter__(self) -> Grant:
        grant = await self.enter()
        self.mark()
        if self._cancel_on_lost:
            self._scope = anyio.CancelScope()
            self._scope.__enter__()
            for each in self._grants():
                each.lost.then(self._scope.cancel)
        return grant

    async def enter(self) -> Grant:
        """Wait for the resource; cancelled at any point it leaves nothing behind, or its place where that is kept."""
        if self.is_used:
            raise RuntimeError(USED)
        self.is_used = True
        self._over, self._stirred = anyio.Event(), anyio.Event()
        with anyio.move_on_after(self._timeout_s if self._timeout_s is not None else float("inf")):
            outer = await self._turn()
            if outer is not None and self._goes_under(outer):
                assert outer._granted is not None
                self._granted = outer._granted
                self._grant = self.made(self._granted, shared=True, answer_polls=False)
                return self._grant
            return await self._obtain(outer)
        raise self._too_late()

    async def _turn(self) -> Hold | None:
        """Wait until no other task of this program is in; returns the hold that this one is inside of, if it is."""
        while (other := self._turns.holds.get(self.resource)) is not None:
            if other in _inside.get():
                return other
            if other._behind is not None and other._behind in _inside.get():
                return other._behind  # it waits for us: waiting for it would be for ever
            await self._until(other._stirred)
        return None

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = anyio.Event()

    async def _until(self, event: anyio.Event) -> None:
        if not self._request.queue:
            raise Refused(Code.RESOURCE_BUSY, f"another task of this program has {self.resource}: give it a timeout")
        await event.wait()

    def _goes_under(self, outer: Hold) -> bool:
        same = self._anywhere or self._request.worktree == outer._request.worktree
        return same and outer._grant is not None and not outer._grant.lost.is_set()

    async def _obtain(self, outer: Hold | None) -> Grant:
        if outer is None:
            self._turns.holds[self.resource] = self
        try:
            kept = self._turns.kept.pop(self.resource, None)
            if kept is not None:
                with contextlib.suppress(_Ended):
                    return await self._attempt(*kept)
            grant = await self._attempt(new_id(), self._request)
            while grant.shared and (other := self._of_another_name(grant)) is not None:
                self._holdings.let_go(grant)
                self._granted = self._grant = None
                self._behind = other
                self._stir()
                await self._until(other._over)
                self._behind = None
                grant = await self._attempt(new_id(), self._request)
            return grant
        except BaseException as error:
            if not self._owes:
                self._leave_turn()
            if isinstance(error, _Ended):
                raise error.refused from None
            raise

    def _of_another_name(self, grant: Grant) -> Hold | None:
        """Another task's hold of the same resource under another of its names: that one's turn is first."""
        other = self._turns.mate_of(self, grant)
        return None if other is None or other in _inside.get() else other

    async def _attempt(self, request_id: str, request: messages.Request) -> Grant:
        sent: list[bool] = []
        self.ticket = request_id
        self._holdings.waiting.add(request_id)
        try:
            granted = await self._until_granted(request_id, request, sent)
        except BaseException as error:
            if isinstance(error, Refused) and error.code == Code.TARGET_ENDED:
                raise _Ended(error) from None
            if sent and self._keep_place and not isinstance(error, Refused):
                self._turns.kept[self.resource] = (request_id, request)
            elif sent:
                debt = self._owe(partial(self._holdings.withdraw, self.resource, request_id), "leaving the queue for")
                await self._holdings.debts.settle(debt)
            raise
        finally:
            self._holdings.waiting.discard(request_id)
        self._granted = granted
        shared = granted.request_id != request_id or granted.shared
        self._grant = self.made(granted, shared=shared, answer_polls=self._answer_polls)
        return self._grant

    def made(self, granted: messages.Granted, *, shared: bool, answer_polls: bool) -> Grant:
        """The grant that the bus has said."""
        return self._holdings.granted(granted, shared=shared, answer_polls=answer_polls)

    async def _until_granted(self, request_id: str, request: messages.Request, sent: list[bool]) -> messages.Granted:
        holdings = self._holdings
        try:
            answer = await holdings.say(request, request_id, sent=sent)
        except Refused:
            sent.clear()  # nothing is on record
            raise
        if isinstance(answer, messages.Down):  # ours already, by another command of this agent
            answer = await holdings.say(messages.Restart(answer.key))
        try:
            granted = await holdings.until_granted(answer, None)
        except Refused as refused:
            if refused.code == Code.NOT_QUEUED:  # its id knows how it ended
                await holdings.say(request, request_id)
            raise
        assert isinstance(granted, messages.Granted)
        return granted

    def _too_late(self) -> Refused:
        within = format_duration(round((self._timeout_s or 0) * 1000))
        place = "your place stays: hold it again" if self._keep_place else "try again, or give it a longer timeout"
        return Refused(Code.RESOURCE_WAIT_TIMEOUT, f"{self.resource} did not become yours within {within}: {place}")

    # --- out ----------------------------------------------------------------------------------
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.unmark()
        stopped = False
        if self._scope is not None:
            stopped = bool(self._scope.__exit__(kind, error, trace))
        await self.leave()
        if kind is None or stopped:
            self.raise_if_lost()
        return stopped

    def raise_if_lost(self) -> None:
        """Say, at the end of a block, that it went on without its hold."""
        if self._lost is not None:
            self._lost.raise_if_lost()

    def _lost_one(self) -> Grant | None:
        """The first of its grants that is lost."""
        return next((grant for grant in self._grants() if grant.lost.is_set()), None)

    def _grants(self) -> list[Grant]:
        """What it has, once it is in."""
        return [] if self._grant is None else [self._grant]

    async def leave(self) -> None:
        """Give it back, whoever cancels meanwhile; waits a bounded time where the bus is away."""
        self._scope = None
        self._lost = self._lost_one()  # what follows is our own doing
        await self._holdings.debts.settle(*self.abandon())

    def abandon(self) -> list[anyio.Event]:
        """Begin to give it back; returns what is to be waited for, which may be nothing."""
        grant = self._grant
        if grant is None or self._owes:
            return []
        grant.lost.then(None)
        if grant.shared or grant.lost.is_set():
            self._holdings.let_go(grant)
            self._leave_turn()
            return []
        return [self._owe(partial(self._holdings.release, grant), "giving back")]

    def mark(self) -> None:
        """From now on what this task begins is inside of it."""
        _inside.set((*(each for each in _inside.get() if not each._over.is_set()), self))

    def unmark(self) -> None:
        """Not any more."""
        _inside.set(tuple(each for each in _inside.get() if each is not self))

    def _owe(self, debt: Debt, what: str) -> anyio.Event:
        """Until it is paid no other task of this program has its turn: to the bus they are one agent."""
        self._owes = True

        async def pay() -> None:
            try:
                await debt()
            except Refused as refused:
                if refused.retry:
                    raise
                log.warning("%s %s: %s", what, self.resource, refused)
            self._leave_turn()

        return self._holdings.debts.owe(pay, f"{what} {self.resource}")

    def _leave_turn(self) -> None:
        if self._turns.holds.get(self.resource) is self:
            del self._turns.holds[self.resource]
        self._over.set()
        self._stir()


def outer_fence() -> int:
    """The fence of the `bus run` that this program runs in: its own hold need not be waited for."""
    fence = os.environ.get("BUS_FENCE", "0")
    return int(fence) if fence.isdigit() else 0
