"""What clients ask of the bus itself (`to: supervisor`), and what it answers. These change no resource's queue.

Each is one JSON object with a `type`; the answers carry facts, and the command or the library makes words of them.
"""

from typing import Any

import msgspec

from interlock.protocol.gate_questions import GateAnswer, GateControl
from interlock.protocol.inbox import Letter
from interlock.protocol.task_questions import TaskAnswer, TaskControl
from interlock.protocol.territory_questions import TerritoryAnswer, TerritoryControl


# --- asked --------------------------------------------------------------------------------
class JoinBus(msgspec.Struct, frozen=True, omit_defaults=True, tag="JOIN"):
    """Register.

    Args:
        agent: empty: the worktree's folder name.
        pid: bind to this process instead of the nearest host.
        session: secret of a program that is this agent itself, the same over all its connections: binds to its process,
            and where that cannot be seen to its connections (ADR 18).
        files: use the agent's inbox folder from now on; the answer names it.
    """

    agent: str = ""
    pid: int = 0
    takeover: bool = False
    session: str = ""
    files: bool = False


class LeaveBus(msgspec.Struct, frozen=True, omit_defaults=True, tag="LEAVE"):
    """Unregister: what the agent holds passes on. `session`: only if its life hangs on this connection."""

    session: bool = False


class AskMe(msgspec.Struct, frozen=True, tag="ME"):
    """Who am I, what do I hold, where do I stand, what is unread."""


class ReadInbox(msgspec.Struct, frozen=True, omit_defaults=True, tag="INBOX"):
    """Unread messages, oldest first; `last` N: the newest N, read ones too. Nothing is acked by reading.

    Args: since: the number of a message: those that came after it, read ones too, oldest first; -1: what is unread.
    """

    last: int = 0
    since: int = -1


class AckMessages(msgspec.Struct, frozen=True, tag="ACK"):
    ids: tuple[str, ...]


class AskReceipt(msgspec.Struct, frozen=True, tag="RECEIPT"):
    id: str


class Tail(msgspec.Struct, frozen=True, omit_defaults=True, tag="TAIL"):
    """The event log from `since` (exclusive), or the last `last` events; `follow` for ever."""

    since: int = -1
    last: int = 0
    follow: bool = False
    resource: str = ""
    event_type: str = ""


class AskStatus(msgspec.Struct, frozen=True, omit_defaults=True, tag="STATUS"):
    resource: str = ""


class AskAgents(msgspec.Struct, frozen=True, tag="AGENTS"):
    pass


class Wait(msgspec.Struct, frozen=True, omit_defaults=True, tag="WAIT"):
    """What is true of my ticket; `follow`: and every change of it from now on, on this connection."""

    resource: str = ""
    follow: bool = False


class Check(msgspec.Struct, frozen=True, tag="CHECK"):
    resource: str


class AskLogs(msgspec.Struct, frozen=True, omit_defaults=True, tag="LOGS"):
    """Where a resource's server or commands write. `unit`: of a pool; empty: the asker's own, or the only one."""

    resource: str = ""
    unit: str = ""


class GoDown(msgspec.Struct, frozen=True, omit_defaults=True, tag="DOWN"):
    stop_servers: bool = False


class RecoverResource(msgspec.Struct, frozen=True, omit_defaults=True, tag="RECOVER"):
    """Without a code: the evidence, and the code to confirm it with."""

    resource: str
    code: str = ""


class RevokeHold(msgspec.Struct, frozen=True, omit_defaults=True, tag="REVOKE"):
    """A person takes it back: says who (`by`) and why. `unit` or `holder` says which, where there are several."""

    resource: str
    because: str
    by: str = ""
    unit: str = ""
    holder: str = ""


class Verify(msgspec.Struct, frozen=True, omit_defaults=True, tag="VERIFY"):
    """Is the log on disk what was written? PROGRESS may come before the answer.

    Args:
        replay: and is what the bus holds what that log says? It is replayed from its first record, beside the life.
    """

    replay: bool = False


class BackUp(msgspec.Struct, frozen=True, tag="BACKUP"):
    """Copy the database into a new file in the home; PROGRESS may come before the answer. Who asked takes it away."""


class AskHealth(msgspec.Struct, frozen=True, tag="HEALTH"):
    """What only the supervisor knows of its own troubles."""


class ForgetRepository(msgspec.Struct, frozen=True, tag="FORGET"):
    """Drop the records of a repository's resources; refused while one of them is in use."""

    repository: str


class Ping(msgspec.Struct, frozen=True, tag="PING"):
    pass


Control = (
    JoinBus | LeaveBus | AskMe | ReadInbox | AckMessages | AskReceipt | Tail | AskStatus | AskAgents | Wait | Check
    | AskLogs | GateControl | TerritoryControl | TaskControl | GoDown | RecoverResource | RevokeHold | Verify | BackUp
    | AskHealth | ForgetRepository | Ping
)  # fmt: skip


# --- answered -----------------------------------------------------------------------------
class Holding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One ticket of an agent. state: held, preparing, queued. next: the command to run. together: keys of all that it
    asked for at once."""

    resource: str
    key: str
    state: str
    request_id: str
    next: str
    fence: int = 0
    position: int = 0
    url: str = ""
    worktree: str = "-"
    purpose: str = ""
    since_ms: int = 0
    unit: str = ""
    together: tuple[str, ...] = ()


class MeReply(msgspec.Struct, frozen=True, tag="ME_REPLY"):
    agent: str
    how: str
    incarnation: int
    bound_to: str
    worktree: str
    tickets: tuple[Holding, ...]
    unread: int
    lost: tuple[str, ...] = ()
    leases: tuple[dict[str, Any], ...] = ()  # as `bus leases --json` has them, of every repository
    tasks: tuple[dict[str, Any], ...] = ()  # in which something is asked of the agent, each with its next command


class InboxReply(msgspec.Struct, frozen=True, tag="INBOX_REPLY"):
    """Letters with their text; `more` further ones are unread."""

    messages: tuple[dict[str, Any], ...]
    more: int = 0


class ReceiptReply(msgspec.Struct, frozen=True, omit_defaults=True, tag="RECEIPT_REPLY"):
    id: str
    to: str
    state: str
    letter: Letter | None = None


class EventsReply(msgspec.Struct, frozen=True, tag="EVENTS"):
    """Some of the log; `through` is the cursor to go on from. `end`: there is no more, and nobody follows."""

    events: tuple[dict[str, Any], ...]
    through: int
    end: bool = False


class StatusReply(msgspec.Struct, frozen=True, tag="STATUS_REPLY"):
    resources: tuple[dict[str, Any], ...]


class AgentsReply(msgspec.Struct, frozen=True, tag="AGENTS_REPLY"):
    agents: tuple[dict[str, Any], ...]


class LogsReply(msgspec.Struct, frozen=True, tag="LOGS_REPLY"):
    path: str


class EvidenceReply(msgspec.Struct, frozen=True, tag="EVIDENCE"):
    resource: str
    why: tuple[str, ...]
    code: str


class ForgetReply(msgspec.Struct, frozen=True, tag="FORGET_REPLY"):
    """The keys whose records are dropped."""

    resources: tuple[str, ...]


class Pong(msgspec.Struct, frozen=True, tag="PONG"):
    """`recovery`: why this supervisor began with a recovery, and what is to be done; empty: it did not."""

    version: str
    pid: int
    home: str
    ready: bool = True
    recovery: str = ""


class Progress(msgspec.Struct, frozen=True, tag="PROGRESS"):
    """So many records of so many; there is more to come."""

    through: int
    last: int


class Replayed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a replay of the log came to.

    Args:
        first, first_seq: the oldest record that is kept, and the number of its first event.
        last, hash: the newest record, and its hash: that of the whole chain.
        states: that were compared: resources, inboxes, and who is here.
        begun_with: the record whose snapshot it began with, as older ones are gone; 0: it began with nothing.
        snapshot: the record whose snapshot was compared with the replay, and agrees; 0: none was.
        live: what the bus holds was compared.
        differs: what is not as the log says; empty: nothing.
    """

    first: int
    first_seq: int
    last: int
    hash: str
    states: int
    begun_with: int = 0
    snapshot: int = 0
    live: bool = False
    differs: str = ""


class Verified(msgspec.Struct, frozen=True, omit_defaults=True, tag="VERIFIED"):
    """So many records, up to event `seq`, are what was written; `broken` says where they are not.

    Args:
        replayed: where a replay was asked for, and the chain is whole.
    """

    records: int
    seq: int
    broken: str = ""
    replayed: Replayed | None = None


class BackedUp(msgspec.Struct, frozen=True, tag="BACKED_UP"):
    """The copy lies at `path`, and ends with event `seq`."""

    path: str
    records: int
    seq: int


class Health(msgspec.Struct, frozen=True, tag="HEALTH_REPLY"):
    """`frozen`: actors that failed too often. `state_files`: what of them cannot be written. `launches`: on record.

    `counts`: how much there is of what comes and goes; names are for people, and may change.
    """

    version: str
    pid: int
    recovery: str
    frozen: tuple[str, ...]
    state_files: str
    launches: tuple[str, ...]
    counts: dict[str, int] = {}


class GoingDown(msgspec.Struct, frozen=True, tag="GOING_DOWN"):
    pid: int


class Welcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a hello. `agent` empty: nobody was found, `why` says how to say who you are.

    Args:
        notices: unread news as lines, with their ids: the client acks what it has shown.
        run_wait_ms: how long a `bus run` waits for its grant where it was not told.
        reservation_ms: how long what it was granted waits for it.
        spare: programs that a command's tree may leave behind: `profiles.DAEMONS`, and those of `[bus] spare`.
        builds: words that a build's command begins with, beside what `profiles.py` knows; of the caller's worktree.
        code, exit: why nobody was found, for programs.
    """

    agent: str = ""
    how: str = ""
    incarnation: int = 0
    why: str = ""
    notices: tuple[tuple[str, str, str], ...] = ()  # (message id, resource, line)
    run_wait_ms: int = 0
    code: str = ""
    exit: int = 0
    spare: tuple[tuple[str, ...], ...] = ()
    builds: tuple[tuple[str, ...], ...] = ()
    reservation_ms: int = 0


Answer = (
    MeReply | InboxReply | ReceiptReply | EventsReply | StatusReply | AgentsReply | LogsReply
    | EvidenceReply | GateAnswer | TerritoryAnswer | TaskAnswer | ForgetReply | Progress | Verified | BackedUp
    | Health | Pong | GoingDown
)  # fmt: skip
