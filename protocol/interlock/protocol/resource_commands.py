"""What a resource can be told: agents' messages, and what the coordinator, the timer and the adapters have to say."""

import msgspec

from interlock.protocol.definition import Definition, ServerDefinition
from interlock.protocol.identity import Identity
from interlock.protocol.messages import Cancel, Extend, Grant, Handover, Release, Request, Restart
from interlock.protocol.policy import Policy
from interlock.protocol.resource_state import Remains, Server, StepKind

MailBody = Request | Release | Extend | Cancel | Restart | Handover | Grant


# --- from agents --------------------------------------------------------------------------
class Mail(msgspec.Struct, frozen=True):
    """An agent's message, its sender established by the door.

    Args:
        id: of the envelope; a REQUEST's names its ticket.
        sent_ms: wall clock, only where the sender itself said when; 0 otherwise.
        called: what the agent called the resource.
        heir: incarnation of the agent that a HANDOVER names.
        also: as whom the sender counts besides: agents of one process with it, and those whose commands started it.
        may_control: the sender has the capability `resource.control`.
    """

    sender: str
    incarnation: int
    id: str
    body: MailBody
    called: str
    sent_ms: int = 0
    heir: int = 0
    also: tuple[str, ...] = ()
    may_control: bool = False


class Admit(msgspec.Struct, frozen=True):
    """`bus run` has a keeper up and asks whether its command may begin.

    Args:
        digest: of the exact command and directory; a reservation is bound to it by its first use.
        inside: launches that it is started in, outermost first.
        also: as whom the sender counts besides, as of Mail.
    """

    sender: str
    id: str
    fence: int
    launch: str
    keeper: Identity
    command: str
    digest: str = ""
    inside: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


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


class Govern(msgspec.Struct, frozen=True):
    """What the gate says of it now: all of it, each time anything of it has changed, and after a restart.

    Args:
        policy: None: the coordinator grants by itself.
        epoch: of that; it has grown where the policy was set, changed or taken away.
        blockers: launches that the policy covers, that run without this resource, the oldest of them: nothing is
            granted until they end.
    """

    policy: Policy | None
    epoch: int
    blockers: tuple[str, ...] = ()


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


class Revoke(msgspec.Struct, frozen=True):
    """A person takes it back.

    Args:
        sender: who says so. because: why, in that person's words.
        unit, holder: which hold, where there are several; empty: whichever there is.
    """

    id: str
    sender: str
    because: str
    unit: str = ""
    holder: str = ""


class Doubt(msgspec.Struct, frozen=True):
    """The database was lost: whatever this resource was used for, a person has to say that it has ended.

    Args:
        why: one sentence, the same for all units.
        remains: by unit, where anything is known.
    """

    why: str
    remains: dict[str, Remains] = {}


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
        interrupted: its command may have been executed and nobody can say how it ended, but nothing of it is seen to
            live: it is run again where it may be.
    """

    unit: str
    step: int
    why: str
    proved: bool = True
    never_started: bool = False
    log: str = ""
    tail: tuple[str, ...] = ()
    interrupted: bool = False


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
    | AgentGone | WrapperGone | Define | Govern | Forget | Resume | StopServers | Recover | Revoke | Doubt | Sync
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


class RunCommand(msgspec.Struct, frozen=True):
    """Run one command line to its end: whatever a server's preparing, or a step of the kind `command`, comes to.

    Args:
        command: for the user's login shell, in `worktree`; it must end with 0 within `timeout_ms`, its whole tree too.
        env: variables on top of the user's own. url: of the server that is prepared.
        spare: daemons that outlive it, neither counted nor stopped.
        repeatable: it may be ended at any time, and begun anew.
        launch, keeper: set where one is to be taken up again.
    """

    unit: str
    step: int
    kind: StepKind
    command: str
    worktree: str
    agent: str
    timeout_ms: int
    env: tuple[tuple[str, str], ...] = ()
    url: str = ""
    spare: tuple[tuple[str, ...], ...] = ()
    repeatable: bool = False
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


Order = RunStep | RunCommand | Go | AbortStep


# --- several resources together: what is decided over all of them at once -------------------------
class Deferred(msgspec.Struct, frozen=True):
    """A REQUEST for one resource that is answered by the joint step: a ticket for several stands before it.

    Args: key: of that resource. id, sender: of the message.
    """

    key: str
    id: str
    sender: str


class TryTogether(msgspec.Struct, frozen=True):
    """To the supervisor: something is free that a ticket for several resources could have, or such a ticket is not
    whole any more. Args: keys: of those concerned."""

    keys: tuple[str, ...]
    deferred: tuple[Deferred, ...] = ()


class AskTogether(msgspec.Struct, frozen=True):
    """A REQUEST for several resources. Args: mails: by key, as one REQUEST for each would be."""

    mails: dict[str, Mail]


class GiveTogether(msgspec.Struct, frozen=True):
    """RELEASE or CANCEL of several, or of a place in the queue of several. Args: mails: as of AskTogether.
    called: what the sender called it."""

    mails: dict[str, Mail]
    called: str


class SettleTogether(msgspec.Struct, frozen=True):
    """Serve whoever can be served now: what a TryTogether asks for."""

    deferred: tuple[Deferred, ...] = ()


TogetherCommand = AskTogether | GiveTogether | SettleTogether
