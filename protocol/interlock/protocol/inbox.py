"""The inbox: what waits for one agent, and what it has read.

    queued ──▶ delivered (a door handed it over) ──▶ acked (the agent says it has read it)

`acked` never means that work was started, done or approved. What comes from the coordinator is a projection of its
records: `put` takes it in; what one agent says to another, and what is read, are this machine's own events.
"""

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.letters import Letter as Letter  # noqa: PLC0414 - part of what is imported from here
from interlock.protocol.letters import Letters
from interlock.protocol.limits import ACKED_KEPT, UNREAD_MAX
from interlock.protocol.messages import Acked, Refused, Sent, Text
from interlock.protocol.outcome import Now, Outcome, Send
from interlock.protocol.table import EMPTY, Table

replace = msgspec.structs.replace


class Inbox(msgspec.Struct, frozen=True):
    """`unread` in order of arrival; `acked` the last few that were read.

    Args: last: number of the letter that came last: each has a greater one than all before it, so it is a cursor.
    """

    agent: str
    unread: Letters = Letters()
    acked: Table[str, Letter] = EMPTY
    last: int = 0

    def find(self, id_: str) -> Letter | None:
        return self.unread.get(id_) or self.acked.get(id_)


# --- commands -----------------------------------------------------------------------------
class Post(msgspec.Struct, frozen=True):
    """Another agent's message. Its id is the letter's id."""

    sender: str
    id: str
    text: str
    reply_to: str = ""


class Ack(msgspec.Struct, frozen=True):
    """Args: id: of the message that says so, to answer it once that is durable."""

    ids: tuple[str, ...]
    id: str = ""


class Deliver(msgspec.Struct, frozen=True):
    ids: tuple[str, ...]


InboxCommand = Post | Ack | Deliver


# --- events -------------------------------------------------------------------------------
class MessageSent(msgspec.Struct, frozen=True, tag="sent"):
    """Durable in the recipient's inbox."""

    to: str
    letter: Letter


class MessageDelivered(msgspec.Struct, frozen=True, tag="delivered"):
    agent: str
    ids: tuple[str, ...]


class MessageAcked(msgspec.Struct, frozen=True, tag="acked"):
    agent: str
    ids: tuple[str, ...]
    at_ms: int


InboxEvent = MessageSent | MessageDelivered | MessageAcked


def decide(inbox: Inbox, command: InboxCommand, now: Now) -> Outcome[Inbox, InboxEvent]:
    """Answer one command. Ids that are not there any more are passed over in silence: they were read before."""
    match command:
        case Post(sender, id_, text, reply_to):
            known = inbox.find(id_)
            if known is not None:
                return Outcome(inbox, outbox=(Send(sender, Sent(inbox.agent, id_, state_of(known)), reply_to=id_),))
            if len(inbox.unread) >= UNREAD_MAX:
                why = f"{inbox.agent} has {len(inbox.unread)} unread messages, at most {UNREAD_MAX} can wait: try later"
                return Outcome(inbox, outbox=(Send(sender, Refused(Code.QUEUE_FULL, why), reply_to=id_),))
            letter = Letter(id_, sender, now.at_ms, Text(text), reply_to=reply_to, seq=now.seq)
            sent = MessageSent(inbox.agent, letter)
            return Outcome(evolve(inbox, sent), (sent,), (Send(sender, Sent(inbox.agent, id_), reply_to=id_),))
        case Deliver(ids):
            new = tuple(id_ for id_ in ids if id_ in inbox.unread and not inbox.unread[id_].delivered)
            delivered = MessageDelivered(inbox.agent, new)
            return Outcome(evolve(inbox, delivered), (delivered,)) if new else Outcome(inbox)
        case Ack(ids, id_):
            new = tuple(each for each in ids if each in inbox.unread)
            there = tuple(each for each in ids if inbox.find(each) is not None)
            answer = Acked(there, tuple(each for each in ids if each not in there))
            outbox = (Send(inbox.agent, answer, reply_to=id_),) if id_ else ()
            acked = MessageAcked(inbox.agent, new, now.at_ms)
            return Outcome(evolve(inbox, acked), (acked,), outbox) if new else Outcome(inbox, outbox=outbox)


def evolve(inbox: Inbox, event: InboxEvent) -> Inbox:
    """Take one fact in. Total and silent, as a replay needs it."""
    match event:
        case MessageSent(_, letter):
            return put(inbox, letter)
        case MessageDelivered(_, ids):
            unread = inbox.unread
            for letter in [unread[id_] for id_ in ids if id_ in unread]:
                unread = unread.put(replace(letter, delivered=True))
            return replace(inbox, unread=unread)
        case MessageAcked(_, ids, at_ms):
            unread, acked = inbox.unread, inbox.acked
            for letter in [unread[id_] for id_ in ids if id_ in unread]:
                unread = unread.without(letter.id)
                acked = acked.put(letter.id, replace(letter, acked_ms=at_ms))
            return replace(inbox, unread=unread, acked=acked.newest(ACKED_KEPT))


def put(inbox: Inbox, letter: Letter) -> Inbox:
    """Take a letter in; an unread one in the same slot makes room for it.

    What agents write is numbered as the log is, and the coordinator's letters may be ahead of that: whoever reads on
    from a number would miss a letter that came later with a smaller one.
    """
    number = max(letter.seq, (inbox.last or _greatest(inbox)) + 1)
    return replace(inbox, unread=inbox.unread.put(replace(letter, seq=number)), last=number)


def withdraw(inbox: Inbox, slot: str) -> Inbox:
    """Take out what no longer holds, if it is still unread."""
    letter = inbox.unread.in_slot(slot)
    return inbox if letter is None else replace(inbox, unread=inbox.unread.without(letter.id))


def state_of(letter: Letter) -> str:
    return "acked" if letter.acked_ms else "delivered" if letter.delivered else "queued"


def since(inbox: Inbox, number: int) -> list[Letter]:
    """The letters that came after the one of that number and are kept, read or not, in the order in which they came."""
    both = [*inbox.acked.values(), *inbox.unread.values()]
    return sorted((letter for letter in both if letter.seq > number), key=lambda letter: letter.seq)


def _greatest(inbox: Inbox) -> int:
    """Of an inbox that a snapshot of an earlier version had, which did not keep its last number."""
    return max((letter.seq for letter in (*inbox.acked.values(), *inbox.unread.values())), default=0)
