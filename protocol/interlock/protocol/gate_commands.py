"""What the gate can be told, and what happens to it. Journalled for ever: fields are only ever added."""

import msgspec

from interlock.protocol.gate_state import Managed
from interlock.protocol.identity import Identity
from interlock.protocol.policy import Policy, Profile


# --- commands -----------------------------------------------------------------------------
class SetPolicy(msgspec.Struct, frozen=True):
    """Install a policy, or change it.

    Args:
        may_control: the sender has the capability `resource.control`.
        controller_here: the controller is registered and not gone.
        epoch: of the policy that the sender knows, where it says one; 0: whichever there is.
    """

    id: str
    sender: str
    may_control: bool
    key: str
    controller: str
    controller_here: bool
    participants: tuple[str, ...]
    profile: Profile
    epoch: int = 0


class ClearPolicy(msgspec.Struct, frozen=True):
    """Take a policy away: the coordinator grants by itself again. Args: as of SetPolicy."""

    id: str
    sender: str
    may_control: bool
    key: str
    epoch: int = 0


class AdmitCommand(msgspec.Struct, frozen=True):
    """The final admission: every policy that covers the command must be among its holds, at the epoch it was asked at.

    Args:
        command: as it is to stand in the ledger. epochs: key → epoch that its wrapper was told of.
    """

    id: str
    command: Managed
    epochs: dict[str, int] = {}


class CommandBegan(msgspec.Struct, frozen=True):
    """It was executed. Args: leader: the process. group: its process group."""

    launch: str
    leader: Identity
    group: int


class LeaderEnded(msgspec.Struct, frozen=True):
    """Its first process has ended, and others of its tree live."""

    launch: str


class CommandGone(msgspec.Struct, frozen=True):
    """Its keeper is gone. Args: proved: it said that the whole tree is. evidence: else, what is known."""

    launch: str
    proved: bool
    code: int | None = None
    evidence: str = ""


class RecoverCommand(msgspec.Struct, frozen=True):
    """A person has seen the evidence and confirms that it has ended."""

    id: str
    sender: str
    launch: str


class SyncGate(msgspec.Struct, frozen=True):
    """Nothing but an answer, once all that came before it is decided and durable."""

    id: str
    sender: str


GateCommand = (
    SetPolicy | ClearPolicy | AdmitCommand | CommandBegan | LeaderEnded | CommandGone | RecoverCommand | SyncGate
)  # fmt: skip


# --- events -------------------------------------------------------------------------------
class PolicySet(msgspec.Struct, frozen=True, omit_defaults=True, tag="policy_set"):
    """`blockers`: launches under way that it covers and that do not hold the resource."""

    key: str
    policy: Policy
    by: str
    at_ms: int
    blockers: tuple[str, ...] = ()


class PolicyCleared(msgspec.Struct, frozen=True, tag="policy_cleared"):
    key: str
    epoch: int
    by: str
    at_ms: int


class CommandAdmitted(msgspec.Struct, frozen=True, tag="admitted"):
    agent: str
    command: Managed


class CommandStarted(msgspec.Struct, frozen=True, tag="command_started"):
    agent: str
    launch: str
    leader: Identity
    group: int


class CommandDraining(msgspec.Struct, frozen=True, tag="command_draining"):
    agent: str
    launch: str


class CommandFinished(msgspec.Struct, frozen=True, omit_defaults=True, tag="command_finished"):
    """Its whole tree is gone. `code`: 128 + N for a signal; None: nothing was executed, or a person confirmed it."""

    agent: str
    launch: str
    at_ms: int
    code: int | None = None
    evidence: str = ""


class CommandInDoubt(msgspec.Struct, frozen=True, tag="command_in_doubt"):
    agent: str
    launch: str
    why: str


class CommandRecovered(msgspec.Struct, frozen=True, tag="command_recovered"):
    """A person's word that it has ended; it is struck off."""

    agent: str
    launch: str
    by: str
    at_ms: int


GateEvent = (
    PolicySet | PolicyCleared | CommandAdmitted | CommandStarted | CommandDraining | CommandFinished | CommandInDoubt
    | CommandRecovered
)  # fmt: skip
