"""`BlockingBus`: `Bus` for plain code. The same words; the event loop runs in a thread of its own.

A call that is interrupted (Ctrl-C), wherever that happens, is withdrawn: what of it has begun is cancelled, and waited
for until it has cleaned up after itself. What gives something back is done all the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio

from interlock.adapters.client.bus import Bus, Directory
from interlock.adapters.client.durations import Duration, to_seconds
from interlock.adapters.client.feeds import Message
from interlock.adapters.client.grants import Grant
from interlock.adapters.client.holds import USED, Hold
from interlock.adapters.client.loop_thread import CLOSED, LoopThread
from interlock.adapters.client.several import SeveralHold
from interlock.protocol import control, messages
from interlock.protocol.messages import Queued, Sent

Answer = TypeVar("Answer")
Made = TypeVar("Made")


class BlockingLoss:
    """Whether, when and why a hold was lost; see Loss."""

    def __init__(self, bus: BlockingBus, grant: Grant) -> None:
        self._bus = bus
        self._loss = grant.lost

    @property
    def why(self) -> str:
        """One sentence; "" while the hold is there."""
        return self._loss.why

    @property
    def at(self) -> datetime.datetime | None:
        """When this program heard of it."""
        return self._loss.at

    def is_set(self) -> bool:
        """It is lost."""
        return self._loss.is_set()

    def wait(self, timeout: Duration | None = None) -> str:
        """Wait until it is lost; returns why, or "" when the time is up. Args: timeout: None: perhaps for ever."""
        return self._bus.call(partial(_within, self._loss.wait, to_seconds(timeout)))


class BlockingGrant:
    """A resource that is yours; its attributes are those of Grant."""

    def __init__(self, bus: BlockingBus, grant: Grant) -> None:
        self.resource = grant.resource
        self.key = grant.key
        self.fence = grant.fence
        self.request_id = grant.request_id
        self.unit = grant.unit
        self.url = grant.url
        self.worktree = grant.worktree
        self.note = grant.note
        self.shared = grant.shared
        self.lost = BlockingLoss(bus, grant)
        self._bus = bus
        self._grant = grant

    def __repr__(self) -> str:
        return repr(self._grant)

    @property
    def until(self) -> datetime.datetime | None:
        """When you said that you need it until."""
        return self._grant.until

    @property
    def down(self) -> str:
        """Why its server does not run now; "" while it does."""
        return self._grant.down

    def check(self) -> None:
        """As Grant.check."""
        self._bus.call(self._grant.check)

    def extend(self, purpose: str = "", time: Duration | None = None) -> None:
        """As Grant.extend."""
        self._bus.call(partial(self._grant.extend, purpose, time))

    def release(self) -> None:
        """As Grant.release."""
        self._bus.call(self._grant.release)

    def restart(self, timeout: Duration | None = None) -> None:
        """As Grant.restart."""
        self._bus.call(partial(self._grant.restart, timeout))


class _Block:
    """What a hold of one and a hold of several resources have in common."""

    def __init__(self, bus: BlockingBus, hold: Hold) -> None:
        self._bus = bus
        self._hold = hold

    def _enter(self, made: Callable[[Grant], Made]) -> Made:
        if self._hold.is_used:
            raise RuntimeError(USED)
        try:
            grants = made(self._bus.call(self._hold.enter))
            self._hold.mark()
            return grants
        except BaseException:  # interrupted at the very moment at which it became ours
            self._bus.call(self._hold.leave)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._bus.is_taken_away:
                return
            self._hold.unmark()
            self._bus.call(self._hold.leave)
        except BaseException:  # interrupted before that, or meanwhile
            self._bus.call(self._hold.leave)
            raise
        if kind is None:
            self._hold.raise_if_lost()


class BlockingHold(_Block):
    """A resource for the length of a block; `BlockingBus.hold` makes it."""

    def __enter__(self) -> BlockingGrant:
        return self._enter(partial(BlockingGrant, self._bus))


class BlockingHoldAll(_Block):
    """Several resources for the length of a block; `BlockingBus.hold_all` makes it."""

    def __init__(self, bus: BlockingBus, hold: SeveralHold) -> None:
        super().__init__(bus, hold)
        self._several = hold

    def __enter__(self) -> tuple[BlockingGrant, ...]:
        return self._enter(lambda first: tuple(BlockingGrant(self._bus, each) for each in self._several.all))


class BlockingBus:
    """One agent's session with the bus, for code without an event loop: `with BlockingBus(agent="a") as bus:`.

    Arguments, methods and errors are those of `Bus`, without `await`. It may be used from several threads. Each hold
    answers STILL USING? from the loop's own thread: it proves that the process runs, not that your thread does; where
    that matters give `answer_polls=False` and say `grant.extend()` yourself.
    """

    _thread: LoopThread | None = None

    def __init__(self, agent: str = "", *, home: str = "", takeover: bool = False, token: str = "") -> None:
        self._bus = Bus(agent, home=home, takeover=takeover, token=token)

    def __del__(self) -> None:
        if self._thread is not None:  # nobody closed it, and nobody can any more
            self._thread.stop()

    @property
    def agent(self) -> str:
        """Who you are; "" where nobody could tell."""
        return self._bus.agent

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("a BlockingBus is opened once: make another one")
        self._thread = LoopThread(self._bus)
        try:
            self._thread.open()
        except BaseException:
            self._thread = None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As Bus: give back what a `hold` left, leave, close. What the block raised goes on its way."""
        if self._thread is None:
            return
        try:
            self._thread.close()
        except BaseException:  # a first Ctrl-C cuts nothing short
            self._thread.close()
            raise

    def call(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Run one piece of async work to its end. For grants and holds, and whatever else knows a `Bus`.

        An interrupted call is cancelled, or never begins, and is over before the interruption goes on.
        """
        thread = self._thread
        if thread is None:
            raise RuntimeError(CLOSED)
        return thread.call(work)

    @property
    def is_taken_away(self) -> bool:
        """This process was forked off from the one that opened it, or its interpreter ends: nothing is ours to do."""
        return self._thread is not None and self._thread.is_taken_away

    # --- holding ------------------------------------------------------------------------------
    def hold(
        self, resource: str, *, worktree: Directory | None = None, purpose: str = "", time: Duration | None = None,
        timeout: Duration | None = None, keep_place: bool = False, answer_polls: bool = True,
    ) -> BlockingHold:  # fmt: skip
        """As Bus.hold. A thread cannot be stopped from outside: look at `grant.lost`, or ask `grant.check()`."""
        hold = self._bus.hold(
            resource, worktree=worktree, purpose=purpose, time=time, timeout=timeout, keep_place=keep_place,
            answer_polls=answer_polls,
        )  # fmt: skip
        return BlockingHold(self, hold)

    def hold_all(
        self, *resources: str, worktree: Directory | None = None, purpose: str = "", time: Duration | None = None,
        timeout: Duration | None = None, answer_polls: bool = True,
    ) -> BlockingHoldAll:  # fmt: skip
        """As Bus.hold_all."""
        hold = self._bus.hold_all(
            *resources, worktree=worktree, purpose=purpose, time=time, timeout=timeout, answer_polls=answer_polls
        )
        return BlockingHoldAll(self, hold.several)

    def request(
        self, resource: str, *, worktree: Directory | None = None, purpose: str = "", time: Duration | None = None,
        queue: bool = True, request_id: str = "",
    ) -> BlockingGrant | Queued:  # fmt: skip
        """As Bus.request."""
        return self._plain(self.call(partial(
            self._bus.request, resource, worktree=worktree, purpose=purpose, time=time, queue=queue,
            request_id=request_id,
        )))  # fmt: skip

    def wait(self, resource: str = "", timeout: Duration | None = None) -> BlockingGrant | Queued:
        """As Bus.wait."""
        return self._plain(self.call(partial(self._bus.wait, resource, timeout)))

    def release(self, resource: str = "") -> None:
        """As Bus.release."""
        self.call(partial(self._bus.release, resource))

    def cancel(self, resource: str = "") -> None:
        """As Bus.cancel."""
        self.call(partial(self._bus.cancel, resource))

    def extend(self, resource: str = "", purpose: str = "", time: Duration | None = None) -> messages.Extended:
        """As Bus.extend."""
        return self.call(partial(self._bus.extend, resource, purpose, time))

    def restart(self, resource: str = "", timeout: Duration | None = None) -> BlockingGrant:
        """As Bus.restart."""
        return BlockingGrant(self, self.call(partial(self._bus.restart, resource, timeout)))

    # --- saying and reading ---------------------------------------------------------------------
    def send(self, to: str, text: str, *, reply_to: str = "", message_id: str = "") -> Sent:
        """As Bus.send."""
        return self.call(partial(self._bus.send, to, text, reply_to=reply_to, message_id=message_id))

    def receipt(self, message_id: str) -> str:
        """As Bus.receipt."""
        return self.call(partial(self._bus.receipt, message_id))

    def inbox(self, *, timeout: Duration | None = None, ack: bool = True) -> Iterator[Message]:
        """As Bus.inbox."""
        return self._each(self._bus.inbox(timeout=timeout, ack=ack).__anext__)

    def ack(self, *ids: str) -> None:
        """As Bus.ack."""
        self.call(partial(self._bus.ack, *ids))

    def tail(
        self, *, since: int | None = None, last: int = 0, resource: str = "", event_type: str = "", follow: bool = True
    ) -> Iterator[dict[str, Any]]:
        """As Bus.tail."""
        tail = self._bus.tail(since=since, last=last, resource=resource, event_type=event_type, follow=follow)
        return self._each(tail.__anext__)

    def status(self, resource: str = "") -> list[dict[str, Any]]:
        """As Bus.status."""
        return self.call(partial(self._bus.status, resource))

    def agents(self) -> list[dict[str, Any]]:
        """As Bus.agents."""
        return self.call(self._bus.agents)

    def me(self) -> control.MeReply:
        """As Bus.me."""
        return self.call(self._bus.me)

    def _each(self, take: Callable[[], Awaitable[Answer]]) -> Iterator[Answer]:
        """One after the other, until there are no more."""
        while True:
            try:
                taken = self.call(take)
            except StopAsyncIteration:
                return
            yield taken

    def _plain(self, answer: Grant | Queued) -> BlockingGrant | Queued:
        return BlockingGrant(self, answer) if isinstance(answer, Grant) else answer


async def _within(wait: Callable[[], Awaitable[str]], timeout_s: float | None) -> str:
    with anyio.move_on_after(timeout_s if timeout_s is not None else float("inf")):
        return await wait()
    return ""
