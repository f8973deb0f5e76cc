"""What happens to a resource. Journalled for ever: fields are only ever added; `resource_evolve.py` takes them in."""

import msgspec

from interlock.protocol.definition import Definition
from interlock.protocol.identity import Identity
from interlock.protocol.outcome import Deadline
from interlock.protocol.policy import Policy
from interlock.protocol.resource_set_events import SetEvent
from interlock.protocol.resource_state import Launch, Remains, Server, StepKind, Ticket


# --- the queue ----------------------------------------------------------------------------
class Requested(msgspec.Struct, frozen=True, omit_defaults=True, tag="requested"):
    agent: str
    ticket: Ticket


class Amended(msgspec.Struct, frozen=True, omit_defaults=True, tag="amended"):
    agent: str
    ticket: Ticket


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    agent: str
    request_id: str


class TicketCancelled(msgspec.Struct, frozen=True, omit_defaults=True, tag="cancelled"):
    """`remember` keeps its arrival number for the agent's next ticket until then."""

    agent: str
    request_id: str
    why: str
    at_ms: int
    remember: Deadline | None = None


# --- the hand-over ------------------------------------------------------------------------
class StepStarted(msgspec.Struct, frozen=True, omit_defaults=True, tag="step_started"):
    """The intent. With a request id the unit is being prepared for that ticket from now on."""

    unit: str
    step: int
    kind: StepKind
    agent: str = ""
    request_id: str = ""
    restart: bool = False
    halt: bool = False


class LaunchStarted(msgspec.Struct, frozen=True, tag="launch_started"):
    """The keeper is up and told who it is; only when this is durable may it execute anything."""

    unit: str
    step: int
    launch: str
    keeper: Identity


class StepAborting(msgspec.Struct, frozen=True, tag="step_aborting"):
    unit: str
    step: int


class StepDone(msgspec.Struct, frozen=True, omit_defaults=True, tag="step_done"):
    """It succeeded. `launch`: the one that is proved gone by it: a stopped server's, or the step's own."""

    unit: str
    step: int
    kind: StepKind
    server: Server | None = None
    evidence: str = ""
    launch: str = ""


class StepUndone(msgspec.Struct, frozen=True, omit_defaults=True, tag="step_undone"):
    """It failed, and everything it had begun (`launch`) is proved gone. `untouched`: nothing was executed at all."""

    unit: str
    step: int
    kind: StepKind
    why: str
    launch: str = ""
    untouched: bool = False


class PrepareFailed(msgspec.Struct, frozen=True, omit_defaults=True, tag="prepare_failed"):
    unit: str
    agent: str
    request_id: str
    why: str
    at_ms: int
    log: str = ""


class Blocked(msgspec.Struct, frozen=True, tag="blocked"):
    """Somebody else holds the port; `who` says which process. Empty: it has left."""

    unit: str
    who: str


OURS = "this bus's own server of "  # how `who` goes on after "held by", where it is no stranger


def may_end(who: str) -> bool:
    """Whether a person may be told to end the process that holds a port: not where it is another resource's server."""
    return not who.partition(" is held by ")[2].startswith(OURS)


class Down(msgspec.Struct, frozen=True, omit_defaults=True, tag="down"):
    """The server died; `gone`: its whole tree is proved gone."""

    unit: str
    launch: str
    gone: bool
    why: str
    agent: str = ""


class RecoveryRequired(msgspec.Struct, frozen=True, omit_defaults=True, tag="recovery_required"):
    """`launch`: the gated command that is in doubt; empty: the server or its step is. `remains`: found after the
    database was lost, of which nothing else is known."""

    unit: str
    why: str
    at_ms: int
    agent: str = ""
    request_id: str = ""
    launch: str = ""
    remains: Remains | None = None


class Recovered(msgspec.Struct, frozen=True, tag="recovered"):
    unit: str
    by: str


# --- the hold -----------------------------------------------------------------------------
class HoldGranted(msgspec.Struct, frozen=True, omit_defaults=True, tag="granted"):
    """`task`: that it is for; then `called` says what its agent calls the resource."""

    agent: str
    unit: str
    request_id: str
    fence: int
    at_ms: int
    until: Deadline | None = None
    until_ms: int = 0
    claimed: bool = False
    carried: bool = False
    after_silence: bool = False
    epoch: int = 0
    task: str = ""
    called: str = ""


class Claimed(msgspec.Struct, frozen=True, tag="claimed"):
    agent: str
    unit: str
    fence: int
    at_ms: int


class Heard(msgspec.Struct, frozen=True, tag="heard"):
    """The owner gave a sign of life while a poll was out or counted."""

    agent: str
    unit: str
    fence: int
    at_ms: int


class HoldExtended(msgspec.Struct, frozen=True, omit_defaults=True, tag="extended"):
    agent: str
    unit: str
    fence: int
    at_ms: int
    purpose: str = ""
    until: Deadline | None = None
    until_ms: int = 0


class AbsentLookedAt(msgspec.Struct, frozen=True, omit_defaults=True, tag="absent_looked_at"):
    """When whoever did not notice its grant is looked at next; `looked`: whoever is absent now, is overdue then."""

    look_at: Deadline | None = None
    looked: bool = False


class Armed(msgspec.Struct, frozen=True, omit_defaults=True, tag="armed"):
    """The deadlines of a hold as they stand from now on."""

    unit: str
    fence: int
    poll_at: Deadline | None = None
    claim_at: Deadline | None = None


class Polled(msgspec.Struct, frozen=True, tag="polled"):
    agent: str
    unit: str
    fence: int
    polls: int
    poll_at: Deadline


class Draining(msgspec.Struct, frozen=True, omit_defaults=True, tag="draining"):
    """The hold is over for its owner; its commands still run."""

    agent: str
    unit: str
    fence: int
    why: str
    code: str = ""
    grace: Deadline | None = None


class HoldReleased(msgspec.Struct, frozen=True, tag="released"):
    agent: str
    unit: str
    fence: int
    why: str
    at_ms: int


class HoldRevoked(msgspec.Struct, frozen=True, omit_defaults=True, tag="revoked"):
    """`silent`: for silence alone, its owner is not proved gone. `grace`: what runs there is let be until then.
    `reserved`: it was for one command, which may yet ask to begin and is told the code."""

    agent: str
    unit: str
    fence: int
    why: str
    at_ms: int
    code: str = ""
    silent: bool = False
    grace: Deadline | None = None
    reserved: bool = False


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """The moment of grace after a revocation is over."""

    unit: str


class PassedOver(msgspec.Struct, frozen=True, omit_defaults=True, tag="expired"):
    """The grant was not noticed; the ticket goes back to its place and waits to be heard of."""

    agent: str
    unit: str
    fence: int
    request_id: str
    why: str
    at_ms: int
    grace: Deadline | None = None


class Started(msgspec.Struct, frozen=True, omit_defaults=True, tag="started"):
    """`digest`: what the hold is bound to from now on; empty where it is, or need not be."""

    agent: str
    unit: str
    fence: int
    launch: Launch
    digest: str = ""


class Finished(msgspec.Struct, frozen=True, omit_defaults=True, tag="finished"):
    agent: str
    unit: str
    fence: int
    launch: str
    code: int | None = None
    evidence: str = ""


# --- the policy ---------------------------------------------------------------------------
class Governed(msgspec.Struct, frozen=True, omit_defaults=True, tag="governed"):
    """What the gate has said of it: from now on it is granted by that policy, and to nobody while blockers live."""

    epoch: int
    policy: Policy | None = None
    blockers: tuple[str, ...] = ()


# --- the definition -----------------------------------------------------------------------
class DefinitionPending(msgspec.Struct, frozen=True, tag="definition_pending"):
    definition: Definition


class Defined(msgspec.Struct, frozen=True, tag="defined"):
    definition: Definition


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten"):
    """It was idle, and is as if nobody had ever asked for it."""


ResourceEvent = (
    Requested | Amended | Returned | TicketCancelled
    | StepStarted | LaunchStarted | StepAborting | StepDone | StepUndone | PrepareFailed | Blocked | Down
    | RecoveryRequired | Recovered | SetEvent
    | HoldGranted | Claimed | Heard | HoldExtended | Armed | Polled | Draining | HoldReleased | HoldRevoked
    | Drained | PassedOver | AbsentLookedAt | Started | Finished | Governed
    | DefinitionPending | Defined | Forgotten
)  # fmt: skip
