"""The state of the gate: the policies, and the ledger of every managed command that is not over.

    admitted ──▶ started ──▶ draining (its leader has ended, its tree has not) ──▶ finished: struck off
        └──────────┴────────────┴──▶ recovery_required: nobody can say whether it runs (bus recover LAUNCH)

Admitted is durable before the command is executed; finished is when the last process of its tree is proved gone.
"""

from enum import StrEnum

import msgspec

from interlock.protocol.identity import Identity
from interlock.protocol.policy import Policy
from interlock.protocol.table import EMPTY, Table


class CommandState(StrEnum):
    ADMITTED = "admitted"
    STARTED = "started"
    DRAINING = "draining"
    RECOVERY_REQUIRED = "recovery_required"


class Hold(msgspec.Struct, frozen=True):
    """What a command runs under. Args: key: of the resource. fence: of the grant."""

    key: str
    fence: int


class Managed(msgspec.Struct, frozen=True, omit_defaults=True):
    """One command of `bus run`.

    Args:
        launch: its name, for ever.
        agent: whose it is. also: as whom it counts besides: agents of one process with it, those it was started by.
        keeper: what its whole tree hangs from.
        command: the program's name, without arguments, which may hold secrets.
        directory: it was started in.
        digest: of the exact command and directory.
        recognised: a build tool's, as `profiles.py` saw it when it was admitted.
        holds: what it runs under, in key order. blocks: keys of resources whose later policy covers it.
        since_ms: wall clock of the admission.
        leader: what was executed, once that is known; its process group is `group`.
        why: of RECOVERY_REQUIRED.
        task: that it is run for.
    """

    launch: str
    agent: str
    keeper: Identity
    command: str
    directory: str
    digest: str
    since_ms: int
    recognised: bool = False
    also: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()
    blocks: tuple[str, ...] = ()
    state: CommandState = CommandState.ADMITTED
    leader: Identity | None = None
    group: int = 0
    why: str = ""
    task: str = ""

    def is_of(self, participants: tuple[str, ...]) -> bool:
        """Whether one of them is who it counts as."""
        return self.agent in participants or any(each in participants for each in self.also)


class CommandOver(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command that has ended. Args: code: its exit code, 128 + N for a signal; None: nobody knows, or none began."""

    agent: str
    command: str
    over_ms: int
    code: int | None = None
    task: str = ""


class Gate(msgspec.Struct, frozen=True, omit_defaults=True):
    """Args: policies: by resource key. epochs: the last of each key that ever had one. commands: by launch.

    over: the last commands that have ended, by launch.
    """

    policies: Table[str, Policy] = EMPTY
    epochs: Table[str, int] = EMPTY
    commands: Table[str, Managed] = EMPTY
    over: Table[str, CommandOver] = EMPTY
