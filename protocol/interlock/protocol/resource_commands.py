"""What a resource can be told: agents' messages, and what the coordinator, the timer and the adapters have to say."""

import msgspec

from interlock.protocol.definition import Definition, ServerDefinition
from interlock.protocol.identity import Identity
from interlock.protocol.messages import Cancel, Extend, Release, Request, Restart
from interlock.protocol.resource_state import Server, StepKind


# --- from agents --------------------------------------------------------------------------
class Mail(msgspec.Struct, frozen=True):
    """An agent's message, its sender established by the door.

    Args:
        id: of the envelope; a REQUEST's names its ticket.
        sent_ms: wall clock, only where the sender itself said when; 0 otherwise.
        called: what the agent called the resource.
    """

    sender: str
    incarnation: int
    id: str
    body: Request | Release | Extend | Cancel | Restart
    called: str
    sent_ms: int = 0


class Admit(msgspec.Struct, frozen=True):
    """`bus run` has a keeper up and asks whether its command may begin."""

    sender: str
    id: str
    fence: int
    launch: str
    keeper: Identity
    command: str


class Heard(msgspec.Struct, frozen=True):
    """The agent did something under its name: that answers polls and notices grants."""

    agent: str


# --- from the coordinator -----------------------------------------------------------------
class AgentGone(msgspec.Struct, frozen=True):
    """Proved gone, or it left. Later incarnations of the name are not meant."""

    agent: str
    incarnation: int
    why: str


class WrapperGone(msgspec.Struct, frozen=True):
    """The `bus run` that a ticket belongs to is gone."""

    request_id: str


class Define(msgspec.Struct, frozen=True):
    """What the configuration says now; it counts once the resource is free."""

    definition: Definition


class Forget(msgspec.Struct, frozen=True):
    """A person has no use for its record any more; one that is in use keeps it."""


class Resume(msgspec.Struct, frozen=True):
    """After a restart: take unfinished steps up again."""


class StopServers(msgspec.Struct, frozen=True):
    """The bus goes down and takes its servers along (`bus down --stop-servers`)."""


class Recover(msgspec.Struct, frozen=True):
    """A person has looked and confirms that the old use has ended."""

    id: str
    sender: str


class Sync(msgspec.Struct, frozen=True):
    """Nothing but an answer, once all that came before it is decided and durable."""

    id: str
    sender: str


# --- from the timer and the adapters ------------------------------------------------------
class Tick(msgspec.Struct, frozen=True):
    """A deadline may have passed. Which one, the state knows."""


class LaunchUp(msgspec.Struct, frozen=True):
    """The keeper of a start is up and waits for GO."""

    unit: str
    step: int
    launch: str
    keeper: Identity


class StepResult(msgspec.Struct, frozen=True):
    """A step succeeded."""

    unit: str
    step: int
    server: Server | None = None
    evidence: str = ""


class StepFailure(msgspec.Struct, frozen=True):
    """A step failed.

    Args:
        proved: everything it had begun is proved gone. False leads to RECOVERY_REQUIRED.
        never_started: nothing was executed, and the step may simply be begun again.
    """

    unit: str
    step: int
    why: str
    proved: bool = True
    never_started: bool = False
    log: str = ""
    tail: tuple[str, ...] = ()


class PortBlocked(msgspec.Struct, frozen=True):
    """A start waits for a port that a stranger holds; `who` empty: it has left."""

    unit: str
    step: int
    who: str


class ServerGone(msgspec.Struct, frozen=True):
    """A server ended by itself.

    Args:
        proved: its whole tree is gone. alive: something of the tree lives on under its keeper.
    """

    unit: str
    launch: str
    why: str
    proved: bool
    alive: bool = False
    log: str = ""
    tail: tuple[str, ...] = ()


class LaunchGone(msgspec.Struct, frozen=True):
    """The keeper of a gated command is gone; `proved`: it said that the whole tree is."""

    launch: str
    proved: bool
    code: int | None = None
    evidence: str = ""


ResourceCommand = (
    Mail | Admit | Heard
    | AgentGone | WrapperGone | Define | Forget | Resume | StopServers | Recover | Sync
    | Tick | LaunchUp | StepResult | StepFailure | PortBlocked | ServerGone | LaunchGone
)  # fmt: skip


# --- to the adapters: work to begin once its intent is durable ------------------------------
class RunStep(msgspec.Struct, frozen=True):
    """Stop, start or verify a server. `launch` and `keeper` are set where one is to be taken up again."""

    unit: str
    step: int
    kind: StepKind
    definition: ServerDefinition
    worktree: str
    agent: str
    server: Server | None = None
    launch: str = ""
    keeper: Identity | None = None


class Go(msgspec.Struct, frozen=True):
    """The launch is on record: the keeper may execute its command."""

    unit: str
    step: int


class AbortStep(msgspec.Struct, frozen=True):
    """Nobody wants this step any more: end what it began, prove it gone, and report a failure."""

    unit: str
    step: int


Order = RunStep | Go | AbortStep
