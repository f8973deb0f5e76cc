"""`Bus`: everything an agent says to the bus, as a Python object with the words of the command."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from interlock.adapters.cli.options import given_name
from interlock.adapters.client.durations import Duration, to_ms, to_seconds
from interlock.adapters.client.errors import BusError
from interlock.adapters.client.feeds import Inbox, Tail
from interlock.adapters.client.grants import Grant
from interlock.adapters.client.holdings import Holdings, refusal
from interlock.adapters.client.holds import Hold, Turns, outer_fence
from interlock.adapters.client.link import Link
from interlock.adapters.client.several import HoldAll, SeveralHold
from interlock.adapters.client.wire import Body
from interlock.adapters.worktrees import worktree_of
from interlock.protocol import control, messages
from interlock.protocol.messages import Queued, Sent

log = logging.getLogger("interlock.client")
LEAVE_S = 2.0
Answer = TypeVar("Answer")
Directory = str | os.PathLike[str]


class Bus:
    """One agent's session with the bus. Use it as `async with Bus(agent="a") as bus:`, in one task or in many.

    Args:
        agent: who you are. With a name this program is that agent: it lives as long as the program is here, and when
            that has ended the bus frees what it has. Without one, the bus finds out as it does for a command
            (BUS_AGENT or its instance key, the agent that this process runs under, the worktree), and that agent
            outlives this program.
        home: as `--home`; "" for BUS_HOME, or the user's own.
        takeover: the name is yours, whoever has it now.
        token: that `bus token create` made for it, where the bus wants one; "" for BUS_TOKEN, or the content of
            BUS_TOKEN_FILE.

    A supervisor is started where none runs, unless BUS_AUTOSTART=0, after `bus down`, or inside a `bus run`. Where a
    sandbox refuses the socket the same is said through the inbox folders, and no supervisor is started. One that goes
    away is looked for, and what was not answered is asked again with the same id.

    Raises:
        Refused: on entering, NAME_CONFLICT: another living process is that agent.
        BusUnavailable: on entering, and wherever nobody answers for 10 s.
    """

    def __init__(self, agent: str = "", *, home: str = "", takeover: bool = False, token: str = "") -> None:
        name, how = (agent, "Bus(agent=…)") if agent else given_name()
        self._link = Link(name, how, program=bool(agent), takeover=takeover, home=home, token=token)
        self._holdings = Holdings(self._link)
        self._turns = Turns()
        self._tasks: TaskGroup | None = None
        self._tails: set[Tail] = set()

    @property
    def agent(self) -> str:
        """Who you are; "" where nobody could tell."""
        return self._link.agent

    # --- life ---------------------------------------------------------------------------------
    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise RuntimeError("a Bus is opened once: make another one")
        await self._link.open()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._holdings.begin(self._spawn)
        self._holdings.debts.begin(self._tasks)
        self._tasks.start_soon(self._link.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what a `hold` left, leave where the agent is this program, and close: some 15 s at most."""
        tasks, debts = self._tasks, self._holdings.debts
        assert tasks is not None
        try:
            with anyio.CancelScope(shield=True):
                for hold in list(self._turns.holds.values()):
                    hold.abandon()
                await debts.settle(*debts.left())
                debts.close()
                with anyio.move_on_after(LEAVE_S):
                    await self._leave()
                for tail in list(self._tails):
                    await tail.aclose()
                await self._link.close()
        finally:
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)

    async def _leave(self) -> None:
        """The agent's life hangs on this program, perhaps: the bus knows whether another Bus of it is open."""
        try:
            if self._link.is_program:
                await self._holdings.supervisor(control.LeaveBus(session=True))
        except BusError as error:
            log.debug("not left: %s", error)

    # --- holding ------------------------------------------------------------------------------
    def hold(
        self, resource: str, *, worktree: Directory | None = None, purpose: str = "", time: Duration | None = None,
        timeout: Duration | None = None, keep_place: bool = False, answer_polls: bool = True,
        cancel_on_lost: bool = False,
    ) -> Hold:  # fmt: skip
        """Have a resource for the length of a block: `async with bus.hold("server-loop", time="20m") as grant:`.

        Args:
            resource: short name or full key.
            worktree: absolute directory that a server runs from; None: the git top here, else none.
            purpose: what for, at most 1,024 characters; others read it.
            time: how long you expect to need it; so long silence is not held against you.
            timeout: how long to wait for it; None: as long as it takes; 0: not at all, else RESOURCE_BUSY.
            keep_place: a wait that is cancelled, or takes too long, leaves its ticket in the queue; the next `hold` of
                this Bus takes it up.
            answer_polls: say yes by itself when others wait and the bus asks STILL USING?. A living event loop in a
                living block is use. With False an answer is whatever you say to the bus, such as `grant.extend()`.
            cancel_on_lost: cancel the block when the hold is lost. Else it goes on, and can look at `grant.lost`.

        Returns:
            A context manager for one use. On entering, and on leaving:

        Raises:
            Refused: with RESOURCE_WAIT_TIMEOUT after `timeout`, with PREPARE_FAILED where a server did not come up, …
            Lost: at the end of a block that had lost it and raised nothing itself.
            BusUnavailable.
        """
        timeout_s = to_seconds(timeout)
        request = self._request(resource, worktree, purpose, time, queue=timeout_s != 0, attended=True)
        return Hold(
            self._holdings, self._turns, request, timeout_s=timeout_s or None, keep_place=keep_place,
            answer_polls=answer_polls, cancel_on_lost=cancel_on_lost, anywhere=worktree is None,
        )  # fmt: skip

    def hold_all(
        self, *resources: str, worktree: Directory | None = None, purpose: str = "", time: Duration | None = None,
        timeout: Duration | None = None, answer_polls: bool = True, cancel_on_lost: bool = False,
    ) -> HoldAll:  # fmt: skip
        """Have several resources for the length of a block, all or none: `bus.hold_all("gpu", "db")`.

        `async with bus.hold_all("gpu", "db") as (gpu, db):`. While it waits it holds none of them. Each grant has a
        fence of its own, and can be given back by itself.

        Args:
            resources: short names or full keys, 2 to 16; the grants come in this order.
            worktree, purpose, time, timeout, answer_polls: as of `hold`.
            cancel_on_lost: cancel the block when one of them is lost.

        Raises:
            Refused: with DEADLOCK where agents would wait for each other, with RESOURCE_BUSY where you have one of them
                already, … Lost: at the end of a block that had lost one. BusUnavailable.
        """
        timeout_s = to_seconds(timeout)
        request = self._request(",".join(resources), worktree, purpose, time, queue=timeout_s != 0, attended=True)
        hold = SeveralHold(
            self._holdings, self._turns, msgspec.structs.replace(request, under=0), timeout_s=timeout_s or None,
            keep_place=False, answer_polls=answer_polls, cancel_on_lost=cancel_on_lost, anywhere=worktree is None,
        )  # fmt: skip
        return HoldAll(hold)

    async def request(
        self, resource: str, *, worktree: Directory | None = None, purpose: str = "", time: Duration | None = None,
        queue: bool = True, request_id: str = "",
    ) -> Grant | Queued:  # fmt: skip
        """Ask for a resource. What comes of it is the agent's: it stays when this program goes on or, where the agent
        is not this program, ends. For the length of a block use `hold`.

        Args:
            queue: False: RESOURCE_BUSY instead of a place in the queue.
            request_id: names the ticket; the same id is the same request.

        Returns:
            A Grant: it is yours. Queued: your place, see `wait`. A cancelled call leaves a place that it had got.

        Raises:
            Refused, BusUnavailable.
        """
        request = self._request(resource, worktree, purpose, time, queue=queue)
        return self._what_is(await self._holdings.say(request, request_id))

    async def wait(self, resource: str = "", timeout: Duration | None = None) -> Grant | Queued:
        """Wait until a place that you have becomes yours. It never makes a place, and never loses one.

        Args:
            resource: "": the only one that you wait for. timeout: None: as long as it takes; 0: look only.

        Returns:
            A Grant, or your place when the time is up.

        Raises:
            Refused: you have no place, or the bus revoked it. BusUnavailable.
        """
        answer = await self._holdings.supervisor(control.Wait(resource))
        return self._what_is(await self._holdings.until_granted(answer, to_seconds(timeout)))

    async def release(self, resource: str = "") -> None:
        """Give back what you hold, or your place. Args: resource: "": the only one. Raises Refused, BusUnavailable."""
        answer = await self._holdings.say(messages.Release(resource))
        if isinstance(answer, messages.Released):
            self._holdings.ended(answer.fence, "released")

    async def cancel(self, resource: str = "") -> None:
        """Leave a queue. Args: resource: "": the only one. Raises Refused, BusUnavailable."""
        await self._holdings.say(messages.Cancel(resource))

    async def extend(self, resource: str = "", purpose: str = "", time: Duration | None = None) -> messages.Extended:
        """Say that you still need what you hold. Args: time: from now. Raises Refused, BusUnavailable."""
        body = messages.Extend(resource, purpose, to_ms(time))
        return _expect(messages.Extended, await self._holdings.say(body))

    async def restart(self, resource: str = "", timeout: Duration | None = None) -> Grant:
        """Start the server that you hold again, and wait until it is ready.

        Raises:
            Refused: not yours, no server, RESOURCE_WAIT_TIMEOUT, or it did not come up. BusUnavailable.
        """
        return self._holdings.granted(await self._holdings.restart(resource, to_seconds(timeout)))

    # --- saying and reading ---------------------------------------------------------------------
    async def send(self, to: str, text: str, *, reply_to: str = "", message_id: str = "") -> Sent:
        """Put a message into another agent's inbox, where it stays until that has read it.

        Args:
            to: an agent that has joined. text: at most 64 KiB of UTF-8. message_id: the same id is the same message.

        Returns:
            The receipt: its `id`, and its `state` (queued, delivered, acked).

        Raises:
            Refused, BusUnavailable.
        """
        return _expect(Sent, await self._link.ask(to, {"text": text, "reply_to": reply_to}, message_id))

    async def receipt(self, message_id: str) -> str:
        """How far a message has come: "queued", "delivered" or "acked". Raises Refused, BusUnavailable."""
        return _expect(control.ReceiptReply, await self._holdings.supervisor(control.AskReceipt(message_id))).state

    def inbox(self, *, timeout: Duration | None = None, ack: bool = True) -> Inbox:
        """Messages to you, oldest first, as they come: `async for message in bus.inbox():`.

        Args:
            timeout: end when none has come for so long; None: never; 0: only what is there.
            ack: a message is acked when you come for the next one: a block that fails leaves it unread. With False say
                `bus.ack(message.id)`.

        Raises:
            Refused, BusUnavailable, while iterating.
        """
        return Inbox(self._holdings, to_seconds(timeout), ack=ack)

    async def ack(self, *ids: str) -> None:
        """Say that you have read these messages. Raises BusUnavailable."""
        await self._holdings.supervisor(control.AckMessages(ids))

    def tail(
        self, *, since: int | None = None, last: int = 0, resource: str = "", event_type: str = "", follow: bool = True
    ) -> Tail:
        """The event log: `async for event in bus.tail(since=0):`; each a dict with `seq`, `at`, `actor`, `type`, ….

        Args:
            since: only events after this number; None: from now on, or the newest `last`.
            follow: go on for ever, over restarts of the supervisor.

        Raises:
            Refused, BusUnavailable (not while following), while iterating.
        """
        question = control.Tail(-1 if since is None else since, last, follow, resource, event_type)
        tail = Tail(self._link.home, self.agent, question, self._link.token)
        self._tails.add(tail)
        tail.on_close = self._tails.discard
        return tail

    async def status(self, resource: str = "") -> list[dict[str, Any]]:
        """Owner, queue and state, as `bus status --json` has them. Raises Refused, BusUnavailable."""
        return [*_expect(control.StatusReply, await self._holdings.supervisor(control.AskStatus(resource))).resources]

    async def agents(self) -> list[dict[str, Any]]:
        """Who is here, as `bus agents --json` has it. Raises BusUnavailable."""
        return [*_expect(control.AgentsReply, await self._holdings.supervisor(control.AskAgents())).agents]

    async def me(self) -> control.MeReply:
        """Who you are, what you hold, where you stand. Raises Refused, BusUnavailable."""
        return _expect(control.MeReply, await self._holdings.supervisor(control.AskMe()))

    # --- straight helpers -------------------------------------------------------------------------
    def _spawn(self, work: Callable[..., Coroutine[Any, Any, None]], *about: object) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(work, *about)

    def _request(
        self, resource: str, worktree: Directory | None, purpose: str, time: Duration | None, *,
        queue: bool = True, attended: bool = False,
    ) -> messages.Request:  # fmt: skip
        return messages.Request(
            resource, worktree_of(worktree), purpose, to_ms(time), queue=queue, attended=attended,
            under=outer_fence() if attended else 0,
        )  # fmt: skip

    def _what_is(self, answer: Body) -> Grant | Queued:
        if isinstance(answer, messages.Granted):
            return self._holdings.granted(answer)
        if isinstance(answer, Queued):
            return answer
        raise refusal(answer)


def _expect(kind: type[Answer], answer: Body) -> Answer:
    if not isinstance(answer, kind):
        raise refusal(answer)
    return answer
