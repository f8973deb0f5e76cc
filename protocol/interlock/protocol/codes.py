"""The codes: every expected no, its meaning, whether a retry can help, what to do, and its exit code. One table."""

from enum import IntEnum, StrEnum

import msgspec


class Exit(IntEnum):
    """Exit codes of `bus`, from sysexits(3) and timeout(1). Source: contract §5."""

    OK = 0
    USAGE = 64
    DATA = 65
    UNAVAILABLE = 69
    CANNOT_CREATE = 73
    IO = 74
    NOT_YET = 75
    DENIED = 77
    CONFIG = 78
    RUN_TIMED_OUT = 124
    RUN_BUS_FAILED = 125
    RUN_CANNOT_EXECUTE = 126
    RUN_NOT_FOUND = 127
    INTERRUPTED = 130
    CLOSED_PIPE = 141


class Code(StrEnum):
    """Stable names of expected refusals. Source: contract §3."""

    UNKNOWN_TARGET = "UNKNOWN_TARGET"
    AMBIGUOUS_TARGET = "AMBIGUOUS_TARGET"
    NAME_CONFLICT = "NAME_CONFLICT"
    UNKNOWN_RESOURCE = "UNKNOWN_RESOURCE"
    BAD_MESSAGE = "BAD_MESSAGE"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    ID_CONFLICT = "ID_CONFLICT"
    NOT_HOLDER = "NOT_HOLDER"
    NOT_QUEUED = "NOT_QUEUED"
    QUEUE_FULL = "QUEUE_FULL"
    RATE_LIMITED = "RATE_LIMITED"
    STALE_FENCE = "STALE_FENCE"
    STALE_POLICY = "STALE_POLICY"
    SCOPE_DENIED = "SCOPE_DENIED"
    CAPABILITY_DENIED = "CAPABILITY_DENIED"
    RESOURCE_BUSY = "RESOURCE_BUSY"
    CONTROLLER_UNAVAILABLE = "CONTROLLER_UNAVAILABLE"
    TARGET_ENDED = "TARGET_ENDED"
    RESERVATION_EXPIRED = "RESERVATION_EXPIRED"
    RESOURCE_WAIT_TIMEOUT = "RESOURCE_WAIT_TIMEOUT"
    RECOVERY_REQUIRED = "RECOVERY_REQUIRED"
    PREPARE_FAILED = "PREPARE_FAILED"
    DEADLOCK = "DEADLOCK"
    OVERLAP = "OVERLAP"
    CHANGED_SINCE = "CHANGED_SINCE"
    JOURNAL_UNAVAILABLE = "JOURNAL_UNAVAILABLE"
    INTERNAL = "INTERNAL"


class Meaning(msgspec.Struct, frozen=True):
    """One row of `bus errors`. `retry`: can the same message, sent again unchanged, succeed later?"""

    code: Code
    meaning: str
    retry: bool
    next: str
    exit: Exit


def _row(code: Code, exit_code: Exit, retry: bool, meaning: str, next_step: str) -> Meaning:
    return Meaning(code, meaning, retry, next_step, exit_code)


TABLE: dict[Code, Meaning] = {
    row.code: row
    for row in (
        _row(Code.UNKNOWN_TARGET, Exit.USAGE, False,
             "No agent of that name ever joined.", "check the name: bus agents"),
        _row(Code.AMBIGUOUS_TARGET, Exit.USAGE, False,
             "Several agents or resources match.", "say which: --as NAME, or the resource's full key"),
        _row(Code.NAME_CONFLICT, Exit.DENIED, False,
             "Another living agent has that name.", "choose another name, or bus join NAME --takeover if it is you"),
        _row(Code.UNKNOWN_RESOURCE, Exit.USAGE, False,
             "No resource of that name is declared.", "see what there is: bus status"),
        _row(Code.BAD_MESSAGE, Exit.USAGE, False,
             "The message cannot be understood.", "write it as the sentence says; docs/protocol has every form"),
        _row(Code.MESSAGE_TOO_LARGE, Exit.USAGE, False,
             "The message is over the limit.", "put it into a file and send the file's path"),
        _row(Code.ID_CONFLICT, Exit.USAGE, False,
             "Another message with this id was already taken in.", "use a new id for a new message"),
        _row(Code.NOT_HOLDER, Exit.DENIED, False,
             "The resource is not yours.", "stop using it; ask for it: bus request RESOURCE"),
        _row(Code.NOT_QUEUED, Exit.DENIED, False,
             "You have no place in that queue.", "ask for one: bus request RESOURCE"),
        _row(Code.QUEUE_FULL, Exit.NOT_YET, True,
             "The queue or the inbox is full; nothing was dropped for it.", "try again later"),
        _row(Code.RATE_LIMITED, Exit.NOT_YET, True,
             "Too many messages in too short a time.", "wait a second, then send again"),
        _row(Code.STALE_FENCE, Exit.DENIED, False,
             "The message belongs to an earlier hold.", "look at what you hold now: bus me"),
        _row(Code.STALE_POLICY, Exit.NOT_YET, True,
             "The resource's policy changed meanwhile.", "ask again under the present policy"),
        _row(Code.SCOPE_DENIED, Exit.DENIED, False,
             "You, or what you ask for, is outside of what the resource or its policy takes.",
             "see the sentence for who, or what, it takes"),
        _row(Code.CAPABILITY_DENIED, Exit.DENIED, False,
             "You may not do that, or this version cannot.", "see the sentence for who may, or how else"),
        _row(Code.RESOURCE_BUSY, Exit.NOT_YET, True,
             "The resource is in use in a way that forbids this now.", "finish or release that use first"),
        _row(Code.CONTROLLER_UNAVAILABLE, Exit.NOT_YET, True,
             "The resource's controller is not here.", "wait for it, or ask a person: bus status"),
        _row(Code.TARGET_ENDED, Exit.DENIED, False,
             "What you refer to is over.", "ask anew: bus request RESOURCE"),
        _row(Code.RESERVATION_EXPIRED, Exit.NOT_YET, True,
             "The grant was not used in time.", "ask again"),
        _row(Code.RESOURCE_WAIT_TIMEOUT, Exit.NOT_YET, True,
             "Your turn did not come in time.", "your place stays: bus wait RESOURCE"),
        _row(Code.RECOVERY_REQUIRED, Exit.NOT_YET, False,
             "It cannot be proved that the old use has ended.", "a person looks and confirms: bus recover RESOURCE"),
        _row(Code.PREPARE_FAILED, Exit.DENIED, False,
             "The resource could not be made ready from your worktree.", "read the named log, mend it, ask again"),
        _row(Code.DEADLOCK, Exit.DENIED, False,
             "Granting this could make agents wait for each other for ever.", "release, then ask for all together"),
        _row(Code.OVERLAP, Exit.NOT_YET, True,
             "Somebody holds a part of what you ask for.", "wait for it, or ask for less"),
        _row(Code.CHANGED_SINCE, Exit.DENIED, False,
             "What was reported is not as it was any more.",
             "look at the difference: have it reported anew, or accept it --despite that"),
        _row(Code.JOURNAL_UNAVAILABLE, Exit.IO, True,
             "The bus cannot write to its disk; nothing was changed.", "make room or mend the disk, then send again"),
        _row(Code.INTERNAL, Exit.IO, False,
             "A fault of the bus itself; it is in the log.", "please report it with the log's lines"),
    )
}  # fmt: skip


def exit_code(code: str) -> Exit:
    """The exit code of a refusal; a code from a newer bus counts as an I/O error."""
    return TABLE[Code(code)].exit if code in Code.__members__ else Exit.IO
