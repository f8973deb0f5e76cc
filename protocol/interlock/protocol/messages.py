"""The messages, typed: what agents say to the coordinator, and what it says to them. `grammar.py` has their text.

Fields are only ever added: journals keep these structs.
"""

import msgspec

from interlock.protocol.identity import Identity
from interlock.protocol.lease_messages import AboutLease, ToTerritory
from interlock.protocol.task_messages import AboutTask, ToTask
from interlock.protocol.visible import why_of


# --- to the coordinator -------------------------------------------------------------------
class Request(msgspec.Struct, frozen=True, omit_defaults=True, tag="REQUEST"):
    """Put me in the queue.

    Args:
        resource: short name or key; several with commas are a set: all of them together, or none.
        worktree: absolute directory, or "-" where none matters.
        purpose: what for, at most 1,024 characters.
        time_ms: how long it is meant to take; None where nothing was said.
        run: the ticket of a `bus run`, which never merges with another.
        queue: False refuses with RESOURCE_BUSY where it would have to wait.
        attended: the program that asks attends it: its ticket, and the hold that comes of it, end with that process.
        process: the wrapper of a `bus run`, or the program that attends; when it is gone its ticket is too.
        under: fence of the `bus run` that this one was started in, so that it need not wait for itself.
        ticket: id of the reservation that a `bus run` is to use, where its agent could use several.
        task: it is for that task of the sender's.
        resources: the same as several with commas in `resource`.
    """

    resource: str = ""
    worktree: str = "-"
    purpose: str = ""
    time_ms: int | None = None
    run: bool = False
    queue: bool = True
    process: Identity | None = None
    under: int = 0
    attended: bool = False
    ticket: str = ""
    task: str = ""
    resources: tuple[str, ...] = ()


class Release(msgspec.Struct, frozen=True, omit_defaults=True, tag="RELEASE"):
    """I am finished. `fence` 0: whichever I hold. Several with commas: all of them, or none."""

    resource: str
    fence: int = 0


class Extend(msgspec.Struct, frozen=True, omit_defaults=True, tag="EXTEND"):
    """I still need it. Without a resource, the first word of `purpose` is one only if the sender holds it."""

    resource: str = ""
    purpose: str = ""
    time_ms: int | None = None


class Cancel(msgspec.Struct, frozen=True, omit_defaults=True, tag="CANCEL"):
    """Take me out of the queue; of one of several asked for together: out of all. `request_id` names one ticket of
    several (`bus run`)."""

    resource: str
    request_id: str = ""


class Restart(msgspec.Struct, frozen=True, tag="RESTART"):
    """Holder only: the same server again."""

    resource: str


class Status(msgspec.Struct, frozen=True, omit_defaults=True, tag="STATUS"):
    """Tell me the owner, the queue, how long. Empty: of every resource."""

    resource: str = ""


class Handover(msgspec.Struct, frozen=True, tag="HANDOVER"):
    """Holder only: the hold ends, and that agent is next. Overtakes nobody.

    Args:
        agent: who waits first, or who has not asked while nobody waits: then it gets what stands, as it stands.
    """

    resource: str
    agent: str


class Grant(msgspec.Struct, frozen=True, omit_defaults=True, tag="GRANT"):
    """From the designated controller: this ticket."""

    request_id: str
    epoch: int = 0


ToCoordinator = Request | Release | Extend | Cancel | Restart | Status | Handover | Grant | ToTerritory | ToTask


# --- from the coordinator -----------------------------------------------------------------
class Granted(msgspec.Struct, frozen=True, omit_defaults=True, tag="GRANTED"):
    """Yours now, and verified ready.

    Args:
        resource: as the agent called it.
        key: the full key.
        fence: grows with every grant on this bus.
        request_id: the ticket.
        unit: of a pool; "" for an ordinary resource.
        url: of a server.
        worktree: it runs from, or "-".
        until_ms: when you said that you need it until (wall clock, ms); 0: nothing was said.
        for_ms: the same, from now (ms).
        running_since_ms: wall clock; set where a running server was carried over.
        running_ms: the same as an age.
        commit: that the carried-over server was started at.
        shared: true where a `bus run` goes under a hold that its agent already has, and leaves it.
        note: one more sentence, where there is something to know.
        together: where several were asked for together, what is true of each; `resource` and `key` name all of them,
            with commas, and the rest is the first one's.
    """

    resource: str
    key: str
    fence: int
    request_id: str
    unit: str = ""
    url: str = ""
    worktree: str = "-"
    until_ms: int = 0
    for_ms: int = 0
    running_since_ms: int = 0
    running_ms: int = 0
    commit: str = ""
    shared: bool = False
    note: str = ""
    together: "tuple[Granted, ...]" = ()


class Queued(msgspec.Struct, frozen=True, omit_defaults=True, tag="QUEUED"):
    """Not yours: do not use, start or stop it. Position 1 while it is being prepared for you.

    Args:
        state: why it is not yours: "held", "preparing" (for you), "preparing_other", "draining",
            "grace" (after a revocation), "recovery_required", "free" (for one who is passed over until it is heard of),
            "controller" (it is free, and its controller has granted it to nobody), "blocked" (commands that began
            without it must end first).
        holder: who has it. held_ms: since how long. holder_purpose: what for.
        holder_left_ms: until when the holder said to need it, from now; 0: nothing was said.
        note: what it waits for besides: a stranger on the port, an operator.
        together: as of GRANTED; the rest is that of the one that is most in the way.
    """

    resource: str
    key: str
    position: int
    request_id: str
    state: str = "held"
    holder: str = ""
    held_ms: int = 0
    holder_purpose: str = ""
    holder_left_ms: int = 0
    note: str = ""
    together: "tuple[Queued, ...]" = ()


class StillUsing(msgspec.Struct, frozen=True, omit_defaults=True, tag="STILL USING?"):
    """Poll. `last`: silence after this one ends the hold. answer_ms: how long there is to answer."""

    resource: str
    key: str
    fence: int
    waiting: int = 0
    answer_ms: int = 0
    last: bool = False


class Revoked(msgspec.Struct, frozen=True, omit_defaults=True, tag="REVOKED"):
    """Not yours any more. Stop at once. `code` where it has one: PREPARE_FAILED, RESERVATION_EXPIRED."""

    resource: str
    key: str
    request_id: str
    why: str
    fence: int = 0
    code: str = ""
    log: str = ""
    tail: tuple[str, ...] = ()


class Down(msgspec.Struct, frozen=True, omit_defaults=True, tag="DOWN"):
    """To the holder: the server died; it is still yours."""

    resource: str
    key: str
    fence: int
    why: str
    log: str = ""
    tail: tuple[str, ...] = ()


class Released(msgspec.Struct, frozen=True, omit_defaults=True, tag="RELEASED"):
    """`note`: what of it is not free yet, where that is asked of several units."""

    resource: str
    key: str
    fence: int = 0
    note: str = ""


class Extended(msgspec.Struct, frozen=True, omit_defaults=True, tag="EXTENDED"):
    resource: str
    key: str
    fence: int
    for_ms: int = 0


class Cancelled(msgspec.Struct, frozen=True, omit_defaults=True, tag="CANCELLED"):
    resource: str
    key: str
    request_id: str = ""
    why: str = ""


class Refused(msgspec.Struct, frozen=True, omit_defaults=True, tag="REFUSED"):
    """An expected no; nothing changed. `code` is stable, `why` is for people and says what to do next.

    Whatever it quotes, `why` is one line of visible characters, and not endless: every door and `--json` show it.
    """

    code: str
    why: str
    resource: str = ""

    def __post_init__(self) -> None:
        said = why_of(self.why)
        if said is not self.why:
            msgspec.structs.force_setattr(self, "why", said)


class Admitted(msgspec.Struct, frozen=True, tag="ADMITTED"):
    """To `bus run`: its command may begin under this fence, and is on record. Without resource: that it is."""

    resource: str
    key: str
    fence: int
    launch: str


class PolicyIs(msgspec.Struct, frozen=True, omit_defaults=True, tag="POLICY"):
    """To who set a policy: it is in force from now on. `controller` empty: there is none any more.

    Args: blockers: commands under way that it covers: nothing is granted until they have ended.
    """

    resource: str
    key: str
    epoch: int
    controller: str = ""
    participants: tuple[str, ...] = ()
    profile: str = ""
    blockers: tuple[str, ...] = ()


class Joined(msgspec.Struct, frozen=True, omit_defaults=True, tag="JOINED"):
    """You are on the bus. `bound_to` empty: nothing says when you are gone, so silence has to; see `note`.

    Args:
        folder: path of the agent's inbox folder, where it was asked for.
    """

    agent: str
    incarnation: int
    bound_to: str = ""
    worktree: str = ""
    note: str = ""
    folder: str = ""


class Left(msgspec.Struct, frozen=True, tag="LEFT"):
    agent: str
    why: str


class Sent(msgspec.Struct, frozen=True, omit_defaults=True, tag="SENT"):
    """A message to another agent is in its durable inbox."""

    to: str
    id: str
    state: str = "queued"


class Acked(msgspec.Struct, frozen=True, omit_defaults=True, tag="ACKED"):
    """On record as read, which says nothing of begun, done or approved. `unknown`: not in that inbox."""

    ids: tuple[str, ...]
    unknown: tuple[str, ...] = ()


class Text(msgspec.Struct, frozen=True, tag="TEXT"):
    """What one agent says to another: the bus does not look into it."""

    text: str


FromBus = (
    Granted | Queued | StillUsing | Revoked | Down | Released | Extended | Cancelled | Admitted | PolicyIs
    | AboutLease | AboutTask | Joined | Left | Sent | Acked | Refused | Text
)  # fmt: skip  # what can stand in an outbox

NEWS = ("GRANTED", "STILL USING?", "DOWN", "REVOKED", "LEASED", "LEASE ENDED")  # what every command shows first, once


def tag_of(body: msgspec.Struct) -> str:
    """The message's word, as it stands in `type` and at the head of the text."""
    return str(type(body).__struct_config__.tag)
