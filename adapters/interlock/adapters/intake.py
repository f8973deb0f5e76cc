"""Intake: posted files become messages, once, and only then they go. Source: contract §4.

    read (a thread) ──▶ router ──▶ journal, fsync ──▶ answer into the sender's new/ ──▶ the file is removed

A crash anywhere has the file read again, with the same id: it is never done again, and is answered with what is true.
What meets a limit that passes stays where it is; the other senders have their turns meanwhile.
"""

import time
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec
import structlog

from interlock.adapters.callers import PeerCaller
from interlock.adapters.folders import Folder, Folders
from interlock.adapters.inbox_files import Delivery
from interlock.adapters.posting import SORTED, Post, Posting, Reject
from interlock.adapters.stream_session import Doorkeeper
from interlock.coordinator.ids import new_id
from interlock.coordinator.session import Session, answer_frame
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.world import REGISTRY
from interlock.protocol.codes import Code
from interlock.protocol.envelope import encode_line, wire_time
from interlock.protocol.limits import POST_TRIES_MAX
from interlock.protocol.messages import Refused
from interlock.protocol.registry import Join

log = structlog.get_logger("intake")
ANSWER_S = 60.0  # then the file is read again: the journal may be waiting for room
PASSES = {Code.RATE_LIMITED, Code.JOURNAL_UNAVAILABLE}  # met by a file, it stays until they have passed
TRIED = {Code.QUEUE_FULL}  # a mailbox empties at once, an inbox or a queue perhaps never
NO_MESSAGE = {Code.BAD_MESSAGE, Code.MESSAGE_TOO_LARGE}
ROUTED_AT_ONCE = 8
FULL_S = 0.5  # how long a receiver that takes no more is left alone
_bodies = msgspec.json.Decoder(dict[str, Any])


class _Answer:
    """The door behind a posted file: it takes one answer, and nothing else comes through it."""

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self.frame = b""
        self.code = ""
        self.there = anyio.Event()

    def write(self, data: bytes) -> None:
        said = _bodies.decode(data)
        if said.get("reply_to") == self._message_id and not self.frame:
            self.frame, self.code = data, str(said.get("body", {}).get("code", ""))
            self.there.set()

    def fail(self, supervisor: Supervisor, agent: str, why: str) -> None:
        """A fault of ours met it: that is its answer."""
        at, refused = wire_time(supervisor.clock.wall_ms()), Refused(Code.INTERNAL, why)
        self.write(encode_line(answer_frame(new_id(), at, agent, refused, self._message_id)))

    def backlog(self) -> int:
        return 0

    def idle(self) -> None:
        pass

    def close(self) -> None:
        self.there.set()


class Intake:
    """One per bus."""

    def __init__(self, doorkeeper: Doorkeeper, folders: Folders, delivery: Delivery, posting: Posting) -> None:
        self._supervisor = doorkeeper.supervisor
        self._router = doorkeeper.router
        self._on_connect = doorkeeper.on_connect
        self._folders = folders
        self._delivery = delivery
        self._posting = posting
        self._tries: dict[str, int] = {}  # message id → how often it met a full box
        self._full: dict[str, dict[str, float]] = {}

    async def sort(self) -> tuple[list[str], bool]:
        """Sort the coordinator's folder. Whose queues have something now, and whether there is more to sort."""
        senders, rejects, more = await anyio.to_thread.run_sync(self._posting.sort)
        await self._tell(rejects)
        return senders, more

    async def take_in(self, agent: str, source: str) -> tuple[bool, bool]:
        """Take in one go of what a sender has posted.

        Returns:
            Whether there may be more at once, and whether something stays that has to be tried again.
        """
        full = self._full_now(agent)
        posts, rejects, more = await anyio.to_thread.run_sync(self._posting.read, agent, source, set(full))
        await self._tell(rejects)
        under_way: list[tuple[Post, _Answer]] = []
        for number, post in enumerate(posts):
            if number % ROUTED_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()  # others have their turns
            if post.envelope.to in full:  # in order to each receiver: what comes after one that stays, stays too
                continue
            answer = await self._route(agent, source, post)
            if answer.code in PASSES:
                full[post.envelope.to] = time.monotonic() + FULL_S
            under_way.append((post, answer))
        with anyio.move_on_after(ANSWER_S):
            for _, answer in under_way:
                await answer.there.wait()
        done = [(post, answer) for post, answer in under_way if answer.frame and self._is_final(post, answer)]
        if any(post.envelope.sender and answer.code != Code.CAPABILITY_DENIED for post, answer in done):
            await self._uses_files(agent)
        finished = await anyio.to_thread.run_sync(self._finish, agent, source, done)
        if len(done) < len(posts) or not finished:
            self._posting.look_again(agent, source)
            return False, True
        return more, bool(full)

    def _full_now(self, agent: str) -> dict[str, float]:
        """Receivers that took no more from this sender a moment ago, and until when they are not tried."""
        now_s = time.monotonic()
        full = {to: until_s for to, until_s in self._full.pop(agent, {}).items() if until_s > now_s}
        self._full[agent] = full
        for idle in [each for each, receivers in self._full.items() if not receivers and each != agent]:
            del self._full[idle]
        return full

    async def _route(self, agent: str, source: str, post: Post) -> _Answer:
        """Hand a post to the router, as its sender's."""
        envelope = post.envelope
        answer = _Answer(envelope.id)
        session = Session(PeerCaller(0), answer, owner=agent, claimed=source == SORTED)
        session.agent = agent
        self._on_connect(session)  # a changed configuration counts for it as for any other
        try:
            work = self._router.hear(session, envelope)
            if work is not None:
                await work
        except Exception as error:
            log.error("post_failed", agent=agent, file=post.called, exc_info=error)
            why = f"a fault of the bus itself ({type(error).__name__}); it is in the log"
            answer.fail(self._supervisor, agent, why)
        return answer

    def _is_final(self, post: Post, answer: _Answer) -> bool:
        """It is done, or refused for good."""
        if answer.code in PASSES:
            return False
        tries = self._tries.pop(post.envelope.id, 0)
        if answer.code in TRIED and tries + 1 < POST_TRIES_MAX:
            self._tries[post.envelope.id] = tries + 1
            return False
        return True

    async def _uses_files(self, agent: str) -> None:
        """It has posted a file: from now on its messages go into its folder. On record before the file goes."""
        known = self._supervisor.world.registry.living(agent)
        if known is not None and not known.files:
            await self._supervisor.ask(REGISTRY, lambda id_: Join(agent, id=id_, files=True))

    def _finish(self, agent: str, source: str, done: list[tuple[Post, _Answer]]) -> bool:
        """Answers first, then the files go: who finds no file has an answer. False where they stay."""

        def answer_all(folder: Folder) -> bool:
            for post, answer in done:
                self._delivery.answer(folder, post.called, answer.frame, post.envelope.id)
            return True

        if done and not self._folders.using(agent, answer_all):
            return False  # its folder is not safe, or its disk is full: all is tried again, after the others' turns
        self._posting.remove(agent, source, [post for post, answer in done if answer.code not in NO_MESSAGE])
        for post, answer in done:
            if answer.code in NO_MESSAGE:
                why = _bodies.decode(answer.frame)["body"]["why"]
                self._posting.reject(agent, source, post, why)
        return True

    async def _tell(self, rejects: list[Reject]) -> None:
        """Tell senders of what was no message."""
        for reject in rejects:
            log.info("post_rejected", agent=reject.sender, file=reject.called, why=reject.why)
            if reject.sender:
                at = wire_time(self._supervisor.clock.wall_ms())
                frame = encode_line(
                    answer_frame(new_id(), at, reject.sender, Refused(reject.code, reject.why), reject.id)
                )
                await anyio.to_thread.run_sync(self._answer, reject, frame)

    def _answer(self, reject: Reject, frame: bytes) -> None:
        self._folders.using(
            reject.sender, lambda folder: self._delivery.answer(folder, reject.called, frame, reject.id)
        )
