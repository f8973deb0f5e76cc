"""The joint step: several actors take one step together, and what it comes to is one record.

    put ──▶ a place in each mailbox at once ──▶ each stops when it comes to it ──▶ all there: one decision, one record

All joint steps take their places in the dispatcher's one task, so they stand in the same order in every mailbox, and no
two can wait for each other. Nothing else reaches into another actor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import structlog

from interlock.coordinator.actor import Actor, Draft, Host, Item, StandsStill
from interlock.coordinator.world import State
from interlock.protocol.codes import Code
from interlock.protocol.messages import Refused
from interlock.protocol.outcome import Now, Outcome

if TYPE_CHECKING:
    from interlock.coordinator.journal import Staged

log = structlog.get_logger("joint")
Decide = Callable[[Mapping[str, State], Now], Mapping[str, Outcome[Any, Any]]]


class Joint(StandsStill):
    """One joint step on its way.

    Args:
        addresses: of the actors, in the order in which their entries are recorded.
        decide: over the states of all of them.
        item: the message it came with; its command is of no account. Without an id it is the bus's own.
        failed: called where it could not be written, and nothing of it stands.
        asked: who else waits for its answer, as (message id, sender).
    """

    def __init__(
        self, addresses: Sequence[str], decide: Decide, item: Item, failed: Callable[[str], None],
        asked: Sequence[tuple[str, str]] = (),
    ) -> None:  # fmt: skip
        self.addresses = tuple(addresses)
        self.item = msgspec.structs.replace(item, command=self)
        self._decide = decide
        self._failed = failed
        self._asked = [(item.id, item.sender), *asked] if item.id else list(asked)
        self._missing = set(addresses)
        self.written = anyio.Event()  # it is on disk, or certainly is not, or came to nothing

    def arrived(self, address: str) -> bool:
        """An actor has nothing before it any more, and stands still. Returns: all are there."""
        self._missing.discard(address)
        return not self._missing

    def step(self, host: Host, actors: Sequence[Actor], later: Callable[[Actor, Staged], None]) -> bool:
        """Decide, and hand what it comes to to the journal, as one record.

        Returns:
            Something is on its way to the disk, after which `later` is called of each actor that has a part in it.
        """
        frozen = next((actor.frozen for actor in actors if actor.frozen), "")
        if frozen:
            self._refuse(host, Code.INTERNAL, frozen)
            return False
        clock = host.clock
        now = Now(clock.wall_ms(), clock.boot(), clock.mono_ms(), host.journal.next_seq)
        try:
            outcomes = self._decide({address: host.state_of(address) for address in self.addresses}, now)
        except Exception as error:
            return self._bury(host, actors[0], error, later)
        drafts: list[tuple[Actor, Draft]] = []
        for actor in actors:
            draft = Draft(host.state_of(actor.address))
            draft.add(self.item, outcomes[actor.address])
            if any(each.causes for _, each in drafts):
                draft.causes.clear()  # it is taken in once
            drafts.append((actor, draft))
        if not any(draft.must_be_kept() for _, draft in drafts):
            for actor, draft in drafts:
                if draft.says_anything():
                    host.follow_up(actor, draft.outcome(), None)
            return False
        concerned = [(actor, draft) for actor, draft in drafts if draft.must_be_kept() or draft.says_anything()]
        self._stage(host, concerned, later)
        return True

    def _stage(
        self, host: Host, concerned: Sequence[tuple[Actor, Draft]], later: Callable[[Actor, Staged], None]
    ) -> None:
        for number, (actor, draft) in enumerate(concerned):
            last = number == len(concerned) - 1

            def then(staged: Staged, actor: Actor = actor, last: bool = last) -> None:
                later(actor, staged)
                if last:
                    self.written.set()
                    if staged.failure:
                        self._not_written(host, staged.failure)

            actor.takes_part(draft)
            host.journal.stage(draft.entry(actor.address), draft.state, then, more=not last)

    def _not_written(self, host: Host, why: str) -> None:
        if self._asked:
            self._refuse(host, Code.JOURNAL_UNAVAILABLE, f"the bus cannot write ({why}): nothing was changed")
        self._failed(why)

    def _bury(self, host: Host, actor: Actor, error: Exception, later: Callable[[Actor, Staged], None]) -> bool:
        """A fault of ours: nothing of it is kept but that it was, so that a message that met it is not tried again."""
        log.error("dead_letter", actors=self.addresses, exc_info=error)
        if not self.item.id:
            self._refuse(host, Code.INTERNAL, f"a fault of the bus itself ({type(error).__name__}); it is in the log")
            return False
        draft = Draft(host.state_of(actor.address))
        draft.bury(self.item, actor.address, error)
        actor.takes_part(draft)

        def then(staged: Staged) -> None:
            later(actor, staged)
            self.written.set()

        host.journal.stage(draft.entry(actor.address), draft.state, then)
        return True

    def _refuse(self, host: Host, code: Code, why: str) -> None:
        for message_id, sender in self._asked:
            host.answer(message_id, sender, Refused(code, why))
