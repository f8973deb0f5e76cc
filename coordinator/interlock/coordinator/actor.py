"""The actor: one mailbox, one machine. It is no task: it takes a step when something waits and nothing is under way.

    all that waits ──▶ decide, message by message, on the state that is to be ──▶ one entry ──▶ journal, fsync
                                                          ──▶ state taken ──▶ answers, messages, steps, deadlines

The order is the point: recorded first, spoken second. An answer that made no event waits all the same for what it
was decided after. An exception in `decide` is our bug: it costs that one message, and nothing of it is kept.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec
import structlog

from interlock.coordinator.clock import Clock
from interlock.coordinator.journal import Journal, Staged
from interlock.coordinator.mailbox import Mailbox
from interlock.coordinator.records import DEAD, Dead, Entry
from interlock.coordinator.world import State
from interlock.protocol.codes import Code
from interlock.protocol.limits import RECORD_BYTES_MAX, RESTARTS_MAX, RESTARTS_WITHIN_MS
from interlock.protocol.messages import FromBus, Refused
from interlock.protocol.outcome import Now, Outcome, Send, Withdraw

log = structlog.get_logger("actor")
FAULT_CHARACTERS_MAX = 200  # the log has the whole of it
DRAFT_BYTES_MAX = RECORD_BYTES_MAX // 2  # what one go may come to; what waits besides has its turn in the next
ITEM_BYTES = 512  # that an item's events take beside its content, about


class Item(msgspec.Struct, frozen=True):
    """One message in a mailbox.

    Args:
        id: of the envelope, "" for what the bus says to itself; the latter is never lost, and never answered.
        digest: of the envelope's content, kept with the id.
        size: of that content (bytes), to bound a record.
        lazy: nobody waits for it: it may go on record with what comes next.
    """

    command: Any
    id: str = ""
    sender: str = ""
    digest: str = ""
    size: int = 0
    lazy: bool = False


class Host(Protocol):
    """What an actor needs of its supervisor."""

    journal: Journal
    clock: Clock

    def state_of(self, address: str) -> State: ...
    def answer(self, message_id: str, to: str, body: FromBus) -> None: ...
    def follow_up(self, actor: "Actor", outcome: Outcome[Any, Any], staged: Staged | None) -> None: ...


class Turns(Protocol):
    """What an actor needs of its dispatcher."""

    def later(self, actor: "Actor", staged: Staged) -> None: ...
    def again(self, actor: "Actor") -> None: ...
    def arrived(self, actor: "Actor", joint: Any) -> None: ...


class Actor:
    """One address. Args: decide: the machine's; takes (state, command, now)."""

    def __init__(
        self, address: str, decide: Callable[[Any, Any, Now], Outcome[Any, Any]], host: Host, turns: Turns
    ) -> None:
        self.address = address
        self.mailbox: Mailbox[Item] = Mailbox()
        self.frozen = ""
        self.is_scheduled = False
        self.joints = 0  # how many joint steps are in its mailbox
        self.is_still = False  # one of them is next
        self._deciding: tuple[list[Item], Draft] | None = None
        self._decide = decide
        self._host = host
        self._turns = turns
        self._faults: list[int] = []  # the last few

    def is_busy(self) -> bool:
        """What it decided last is on its way to the disk: until it is there nothing further is decided."""
        return self._deciding is not None

    def may_go(self) -> bool:
        """Nothing of it is needed: an idle actor is a row and no object. Its recent faults are counted on."""
        recent = self._faults and self._host.clock.mono_ms() - self._faults[-1] <= RESTARTS_WITHIN_MS
        return not (self.mailbox or self.is_busy() or self.frozen or recent)

    def step(self) -> None:
        """Decide what waits, and hand it to the journal. Never waits."""
        host, items = self._host, self.mailbox.take_all()
        if self.joints:
            stop = next((at for at, item in enumerate(items) if isinstance(item.command, StandsStill)), len(items))
            self.mailbox.put_back(items[stop:])
            items = items[:stop]
            if not items:
                self.is_still = True
                self._turns.arrived(self, self.mailbox.first().command)
                return
        if self.frozen:  # nothing follows, not even its deadline: one that is past would be told again at once
            for item in items:
                self._refuse(item, Code.INTERNAL, self.frozen)
            return
        draft = Draft(host.state_of(self.address))
        clock = host.clock
        wall_ms, boot, mono_ms, seq = clock.wall_ms(), clock.boot(), clock.mono_ms(), host.journal.next_seq
        for number, item in enumerate(items):
            if draft.size > DRAFT_BYTES_MAX:
                self.mailbox.put_back(items[number:])
                items = items[:number]
                break
            now = Now(wall_ms, boot, mono_ms, seq + len(draft.events))
            if self.frozen:
                self._refuse(item, Code.INTERNAL, self.frozen)
                continue
            try:
                outcome = self._decide(draft.state, item.command, now)
            except Exception as error:
                self._let_it_crash(item, error, now.mono_ms)
                draft.bury(item, self.address, error)
                continue
            draft.add(item, outcome)
        if draft.must_be_kept():
            self._deciding = (items, draft)
            lazy = all(item.lazy for item in items)
            host.journal.stage(draft.entry(self.address), draft.state, partial(self._turns.later, self), lazy=lazy)
        else:
            host.follow_up(self, draft.outcome(), None)

    def written(self, staged: Staged) -> None:
        """The entry is on disk, or certainly not: speak, or take it back."""
        assert self._deciding is not None
        items, draft = self._deciding
        self._deciding = None
        if staged.failure:
            self._not_written(items, staged.failure)
        else:
            self._host.follow_up(self, draft.outcome(), staged)

    def takes_part(self, draft: "Draft") -> None:
        """What a joint step has decided of it is on its way to the disk."""
        self._deciding = ([], draft)

    def _let_it_crash(self, item: Item, error: Exception, mono_ms: int) -> None:
        log.error("dead_letter", actor=self.address, command=repr(item.command), exc_info=error)
        self._faults = [*self._faults, mono_ms][-RESTARTS_MAX:]
        often = len(self._faults) == RESTARTS_MAX and mono_ms - self._faults[0] <= RESTARTS_WITHIN_MS
        if often or not item.id:  # what the bus has to say to itself cannot be left out: the state would wait for ever
            self.frozen = f"{self.address} failed and is frozen: read the log, then bus down and bus up"

    def _not_written(self, items: list[Item], why: str) -> None:
        """Whoever asked is told; what the bus itself has to say is tried again, for it must not be lost."""
        for item in items:
            self._refuse(item, Code.JOURNAL_UNAVAILABLE, f"the bus cannot write ({why}): nothing was changed")
        self.mailbox.put_back([item for item in items if not item.id])
        self._turns.again(self)

    def _refuse(self, item: Item, code: Code, why: str) -> None:
        if item.id:
            self._host.answer(item.id, item.sender, Refused(code, why))


class StandsStill:
    """In place of a command: here the actor stops, until something else has had its turn."""


class Draft:
    """What a batch of messages comes to."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.events: list[Any] = []
        self.kept: list[Send] = []  # for inboxes: durable
        self.spoken: list[Send] = []  # direct answers and words to a `bus run`
        self.withdraw: list[Withdraw] = []
        self.steps: list[msgspec.Struct] = []
        self.causes: dict[str, str] = {}
        self.size = 0

    def add(self, item: Item, outcome: Outcome[Any, Any]) -> None:
        self.state = outcome.state
        self.events += outcome.events
        self.withdraw += outcome.withdraw
        self.steps += outcome.steps
        for send in outcome.outbox:
            (self.spoken if send.reply_to or send.run else self.kept).append(send)
        if outcome.events:
            self.size += item.size + ITEM_BYTES
            if item.id:
                self.causes[item.id] = item.digest

    def bury(self, item: Item, address: str, error: Exception) -> None:
        """A dead letter's id is kept like any other: it is never fed again, and only then its sender is told."""
        self.events.append(Dead(item.id, address, f"{type(error).__name__}: {error}"[:FAULT_CHARACTERS_MAX]))
        if item.id:
            why = f"a fault of the bus itself ({type(error).__name__}); it is in the log"
            self.causes[item.id] = DEAD + item.digest
            self.spoken.append(Send(item.sender, Refused(Code.INTERNAL, why), reply_to=item.id))

    def outcome(self) -> Outcome[Any, Any]:
        return Outcome(self.state, tuple(self.events), tuple(self.spoken), tuple(self.withdraw), tuple(self.steps))

    def entry(self, address: str) -> Entry:
        return Entry(address, tuple(self.events), tuple(self.kept), tuple(self.withdraw), self.causes)

    def says_anything(self) -> bool:
        return bool(self.spoken or self.steps)

    def must_be_kept(self) -> bool:
        return bool(self.events or self.kept or self.withdraw)
