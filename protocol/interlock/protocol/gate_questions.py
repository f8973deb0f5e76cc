"""What clients ask of the gate (`to: supervisor`), and what it answers; `control.py` has the other questions."""

from typing import Any

import msgspec

from interlock.protocol.identity import Identity


# --- asked --------------------------------------------------------------------------------
class AskCover(msgspec.Struct, frozen=True, omit_defaults=True, tag="COVER"):
    """`bus run` asks which policies cover its command.

    Args:
        recognised: a build tool's, as `profiles.py` sees it. inside: launches it is started in, outermost first.
    """

    recognised: bool = False
    inside: tuple[str, ...] = ()


class AdmitLaunch(msgspec.Struct, frozen=True, omit_defaults=True, tag="ADMIT"):
    """`bus run` has a keeper up; may the command begin?

    Args:
        holds: resource → fence, of every grant that it runs under; may be empty.
        epochs: key → epoch, as COVERED said. command: the program's name, without its arguments.
        digest: of the exact command and directory. directory: it is started in.
        recognised, inside: as COVER had them.
        leases: lease → fence, of every lease that it runs under.
        task: that it is run for, one of the asker's.
        resource, fence: the one hold, as a `bus run` of an earlier version says it.
    """

    launch: str
    keeper: Identity
    command: str
    holds: dict[str, int] = {}
    epochs: dict[str, int] = {}
    digest: str = ""
    directory: str = ""
    recognised: bool = False
    inside: tuple[str, ...] = ()
    resource: str = ""
    fence: int = 0
    leases: dict[str, int] = {}
    task: str = ""


class ReportStart(msgspec.Struct, frozen=True, tag="STARTED"):
    """`bus run` saw its command executed. Nothing waits for the answer."""

    launch: str
    leader: Identity
    group: int


class ReportEnd(msgspec.Struct, frozen=True, omit_defaults=True, tag="ENDED"):
    """`bus run` saw its command's whole tree end; the bus looks for itself, and answers once its holds are over.

    Args: leader_only: only its first process has ended, the rest of the tree lives on.
    """

    launch: str
    leader_only: bool = False


class SetController(msgspec.Struct, frozen=True, omit_defaults=True, tag="SET_POLICY"):
    """Install or change the policy of a resource; `controller` empty: take it away.

    Args:
        participants: at most PARTICIPANTS_MAX names. profile: "build" or "strict".
        epoch: of the policy that the asker knows; 0: whichever there is.
    """

    resource: str
    controller: str = ""
    participants: tuple[str, ...] = ()
    profile: str = "strict"
    epoch: int = 0


class AskPolicies(msgspec.Struct, frozen=True, omit_defaults=True, tag="POLICIES"):
    """Every policy; or that of one resource."""

    resource: str = ""


class AskCommands(msgspec.Struct, frozen=True, tag="COMMANDS"):
    """Every managed command: `bus ps`."""


class AskOwners(msgspec.Struct, frozen=True, tag="OWNERS"):
    """Whose the processes of this machine are, as far as the bus knows."""


class RecoverLaunch(msgspec.Struct, frozen=True, omit_defaults=True, tag="RECOVER_LAUNCH"):
    """Without a code: the evidence, and the code to confirm it with."""

    launch: str
    code: str = ""


class Coordinate(msgspec.Struct, frozen=True, tag="COORDINATE"):
    """One operation of `bus coordinate`, as its JSON says it."""

    request: dict[str, Any]


# --- answered -----------------------------------------------------------------------------
class Covered(msgspec.Struct, frozen=True, tag="COVERED"):
    """Key → epoch of every policy that covers the command. `called`: key → how the asker would call it."""

    epochs: dict[str, int]
    called: dict[str, str] = {}


class PoliciesReply(msgspec.Struct, frozen=True, tag="POLICIES_REPLY"):
    policies: tuple[dict[str, Any], ...]


class CommandsReply(msgspec.Struct, frozen=True, tag="COMMANDS_REPLY"):
    commands: tuple[dict[str, Any], ...]


class Owned(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process and whatever descends from it.

    Args:
        process: what all of it hangs from. agent: whose it is.
        what: in words, such as "the server of web". by_bus: it is the bus's to end, for that agent.
        task: that it runs for.
    """

    process: Identity
    agent: str
    what: str
    by_bus: bool = False
    task: str = ""


class OwnersReply(msgspec.Struct, frozen=True, tag="OWNERS_REPLY"):
    owners: tuple[Owned, ...]


class CoordinateReply(msgspec.Struct, frozen=True, tag="COORDINATE_REPLY"):
    """What `bus coordinate` prints: a result, or {"error": {"code", "message"}}."""

    result: dict[str, Any]


GateControl = (
    AskCover | AdmitLaunch | ReportStart | ReportEnd | SetController | AskPolicies | AskCommands | AskOwners
    | RecoverLaunch | Coordinate
)  # fmt: skip
GateAnswer = Covered | PoliciesReply | CommandsReply | OwnersReply | CoordinateReply
