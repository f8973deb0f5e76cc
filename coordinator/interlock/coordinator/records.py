"""The batch record: everything that one group commit makes durable, of all actors. Its hash chains to the last one."""

import hashlib
import struct

import msgspec

from interlock.coordinator.ids import uuid_v7
from interlock.protocol.gate_commands import GateEvent
from interlock.protocol.inbox import InboxEvent
from interlock.protocol.outcome import Send, Withdraw
from interlock.protocol.registry import RegistryEvent
from interlock.protocol.resource_events import ResourceEvent
from interlock.protocol.task_commands import TaskEvent
from interlock.protocol.territory_events import TerritoryEvent


class CameUp(msgspec.Struct, frozen=True, omit_defaults=True, tag="up"):
    """A supervisor claims the journal: the first record of its term.

    Args:
        bus: names this journal, so that another one in its place is told apart.
        lost: why what was before is not known; then a recovery begins with this record.
    """

    term: int
    pid: int
    bus: str = ""
    lost: str = ""


class WentDown(msgspec.Struct, frozen=True, tag="bus_down"):
    """A supervisor left in order."""

    term: int


class Copied(msgspec.Struct, frozen=True, tag="copied"):
    """The last record of a backup: whoever goes on from here does not know what happened after it."""

    at_ms: int


class Rebuilt(msgspec.Struct, frozen=True, tag="rebuilt"):
    """A recovery has come to its end: so many resources wait for a person to confirm."""

    resources: int


class Dead(msgspec.Struct, frozen=True, tag="dead_letter"):
    """A message whose decision failed by a fault of ours; its id is never fed again."""

    id: str
    actor_key: str
    fault: str


DEAD = "dead:"  # before the digest of a message that became a dead letter

SupervisorEvent = CameUp | WentDown | Copied | Rebuilt | Dead
Event = ResourceEvent | RegistryEvent | InboxEvent | GateEvent | TerritoryEvent | TaskEvent | SupervisorEvent


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one actor decided in one go.

    Args:
        actor: its address.
        outbox: messages for inboxes only; direct answers are not kept, they are given anew when asked again.
        causes: message id → digest of what was taken in with it, so that it is never done again.
    """

    actor: str
    events: tuple[Event, ...] = ()
    outbox: tuple[Send, ...] = ()
    withdraw: tuple[Withdraw, ...] = ()
    causes: dict[str, str] = {}


class Record(msgspec.Struct, frozen=True):
    """One row. `first_seq` numbers the first event of its entries, the others follow."""

    index: int
    term: int
    prev: str
    at_ms: int
    first_seq: int
    entries: tuple[Entry, ...]


class RecordHead(msgspec.Struct, frozen=True):
    """A record whose entries are encoded already."""

    index: int
    term: int
    prev: str
    at_ms: int
    first_seq: int
    entries: list[msgspec.Raw]


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Record).decode


def digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=32).digest()


def message_id(at_ms: int, index: int, entry: int, number: int) -> str:
    """The id of a message in an outbox follows from its place: a UUIDv7 by its time, the rest by (index, entry, n)."""
    rest = hashlib.blake2b(struct.pack(">QII", index, entry, number), digest_size=10).digest()
    return uuid_v7(at_ms, int.from_bytes(rest))
