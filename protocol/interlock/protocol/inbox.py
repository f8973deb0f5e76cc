"""The inbox: what waits for one agent, and what it has read.

    queued ──▶ delivered (a door handed it over) ──▶ acked (the agent says it has read it)

`acked` never means that work was started, done or approved. What comes from the coordinator is a projection of its
records: `put` takes it in; what one agent says to another, and what is read, are this machine's own events.
"""

import msgspec

from interlock.protocol.codes import Code
from interlock.protocol.limits import ACKED_KEPT, UNREAD_MAX
from interlock.protocol.messages import Acked, FromBus, Refused, Sent, Text
from interlock.protocol.outcome import Now, Outcome, Send

replace = msgspec.structs.replace


class Letter(msgspec.Struct, frozen=True, omit_defaults=True, rename={"sender": "from"}):
    """One message as it lies in an inbox. `seq` orders it among all messages of the bus, and names its file."""

    id: str
    sender: str
    at_ms: int
    body: FromBus
    slot: str = ""
    reply_to: str = ""
    delivered: bool = False
    acked_ms: int = 0
    seq: int = 0


class Inbox(msgspec.Struct, frozen=True):
    """`unread` in order of arrival; `acked` the last few that were read."""

    agent: str
    unread: dict[str, Letter] = {}
    acked: dict[str, Letter] = {}

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
            delivered = {id_: replace(inbox.unread[id_], delivered=True) for id_ in ids if id_ in inbox.unread}
            return replace(inbox, unread={**inbox.unread, **delivered})
        case MessageAcked(_, ids, at_ms):
            read = {id_: replace(inbox.unread[id_], acked_ms=at_ms) for id_ in ids if id_ in inbox.unread}
            unread = {id_: letter for id_, letter in inbox.unread.items() if id_ not in read}
            acked = inbox.acked | read
            for id_ in list(acked)[: max(0, len(acked) - ACKED_KEPT)]:
                del acked[id_]
            return replace(inbox, unread=unread, acked=acked)


def put(inbox: Inbox, letter: Letter) -> Inbox:
    """Take a letter in; an unread one in the same slot makes room for it."""
    unread = {id_: each for id_, each in inbox.unread.items() if not letter.slot or each.slot != letter.slot}
    unread[letter.id] = letter
    return replace(inbox, unread=unread)


def withdraw(inbox: Inbox, slot: str) -> Inbox:
    """Take out what no longer holds, if it is still unread."""
    if not any(letter.slot == slot for letter in inbox.unread.values()):
        return inbox
    return replace(inbox, unread={id_: each for id_, each in inbox.unread.items() if each.slot != slot})


def state_of(letter: Letter) -> str:
    return "acked" if letter.acked_ms else "delivered" if letter.delivered else "queued"
