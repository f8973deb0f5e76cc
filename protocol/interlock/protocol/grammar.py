"""The grammar: every message as one line that a person or a model can write, and back.

    VERB <word> <word> … the rest, verbatim to its end

A word that holds white space is quoted as a POSIX shell would. The rest is taken as it stands, quotes, newlines
and all: a newline or a verb inside a purpose never becomes a second message.
"""

import re

import msgspec

from interlock.protocol.durations import format_duration, parse_duration
from interlock.protocol.lease_grammar import LEASE_VERBS, format_about_lease, parse_about_lease
from interlock.protocol.limits import PURPOSE_CHARACTERS_MAX, TIME_DECLARED_MS_MAX
from interlock.protocol.messages import (
    Cancel,
    Extend,
    Grant,
    Handover,
    Release,
    Request,
    Restart,
    Status,
    ToCoordinator,
)
from interlock.protocol.task_grammar import TASK_VERBS, format_about_task, parse_about_task
from interlock.protocol.task_messages import ToTask
from interlock.protocol.visible import quoted
from interlock.protocol.words import BadText as BadText  # noqa: PLC0414 - part of what is imported from here
from interlock.protocol.words import nothing_more, quote, read_word

VERBS: dict[str, str] = {
    "REQUEST": "REQUEST <resource> <worktree> <what for, how long>",
    "RELEASE": "RELEASE <resource> [fence=N]",
    "EXTEND": "EXTEND [<resource>] <what for>",
    "CANCEL": "CANCEL <resource>",
    "RESTART": "RESTART <resource>",
    "STATUS": "STATUS [<resource>]",
    "HANDOVER": "HANDOVER <resource> <agent>",
    "GRANT": "GRANT <request id> [<epoch>]",
    **LEASE_VERBS,
    **TASK_VERBS,
}
_FENCE = re.compile(r"\s*(?:fence=(\d{1,18})\s*)?")


def parse(text: str) -> ToCoordinator:
    """Read one message to the coordinator.

    Args:
        text: as an agent wrote it; the verb in any case.

    Raises:
        BadText: unknown verb, a missing or unwanted word, an unclosed quote, NUL.
    """
    if "\0" in text:
        raise BadText("a message cannot hold a NUL character")
    text = text.lstrip()
    word = text.split(maxsplit=1)[0] if text else ""
    verb, at = word.upper(), min(len(word) + 1, len(text))
    form = VERBS.get(verb)
    if form is None:
        raise BadText(f"{quoted(word)} is no message to the coordinator: it knows {' '.join(VERBS)}")
    match verb:
        case "REQUEST":
            resource, at = read_word(text, at, form)
            worktree, at = read_word(text, at, form) if at < len(text) else ("-", at)
            purpose, time_ms = split_time(text[at:])
            return _within_limits(Request(resource, worktree, purpose, time_ms))
        case "RELEASE":
            resource, at = read_word(text, at, form)
            fence = _FENCE.fullmatch(text, at)
            if fence is None:
                raise BadText(f"{quoted(text[at:])} is too much: {form}")
            return Release(resource, int(fence[1] or 0))
        case "EXTEND":
            purpose, time_ms = split_time(text[at:])
            return _within_limits(Extend("", purpose, time_ms))
        case "STATUS":
            if not text[at:].strip():
                return Status()
            resource, at = read_word(text, at, form)
            nothing_more(text, at, form)
            return Status(resource)
        case "HANDOVER":
            resource, at = read_word(text, at, form)
            agent, at = read_word(text, at, form)
            nothing_more(text, at, form)
            return Handover(resource, agent)
        case "GRANT":
            request_id, at = read_word(text, at, form)
            rest = text[at:].strip()
            if rest and not re.fullmatch(r"\d{1,18}", rest):
                raise BadText(f"{quoted(rest)} is no epoch: {form}")
            return Grant(request_id, int(rest or 0))
        case _ if verb in LEASE_VERBS:
            return parse_about_lease(verb, text, at)
        case _ if verb in TASK_VERBS:
            return parse_about_task(verb, text, at)
        case _:
            resource, at = read_word(text, at, form)
            nothing_more(text, at, form)
            return Cancel(resource) if verb == "CANCEL" else Restart(resource)


def checked(message: Request | Extend) -> Request | Extend:
    """Bring a typed message into its one normal form, or refuse it.

    A duration after the last comma of the purpose is the declared time, unless one was said apart.

    Raises:
        BadText: the purpose or the time is over its limit.
    """
    if message.time_ms is None:
        purpose, time_ms = split_time(message.purpose)
        message = msgspec.structs.replace(message, purpose=purpose, time_ms=time_ms)
    return _within_limits(message)


def split_time(rest: str) -> tuple[str, int | None]:
    """Split "try the login page, 20m" at its last comma, if a duration follows it."""
    purpose, comma, tail = rest.rpartition(",")
    time_ms = parse_duration(tail) if comma else None
    return (rest, None) if time_ms is None else (purpose, time_ms)


def split_resource(purpose: str) -> tuple[str, str]:
    """The first word of an EXTEND's purpose, which may be a resource, and what follows it."""
    try:
        word, at = read_word(purpose, 0, "")
    except BadText:
        return "", purpose
    return word, purpose[at:]


def format_message(message: ToCoordinator) -> str:
    """Write a message to the coordinator as the text that `parse` reads."""
    match message:
        case Request(resource, worktree, purpose, time_ms):
            return f"REQUEST {quote(resource)} {quote(worktree)}{_rest(purpose, time_ms)}"
        case Release(resource, fence):
            return f"RELEASE {quote(resource)}" + (f" fence={fence}" if fence else "")
        case Extend(resource, purpose, time_ms):
            return "EXTEND" + (f" {quote(resource)}" if resource else "") + _rest(purpose, time_ms)
        case Cancel(resource):
            return f"CANCEL {quote(resource)}"
        case Restart(resource):
            return f"RESTART {quote(resource)}"
        case Status(resource):
            return "STATUS" + (f" {quote(resource)}" if resource else "")
        case Handover(resource, agent):
            return f"HANDOVER {quote(resource)} {quote(agent)}"
        case Grant(request_id, epoch):
            return f"GRANT {quote(request_id)}" + (f" {epoch}" if epoch else "")
        case _ if isinstance(message, ToTask):
            return format_about_task(message)
        case _:
            return format_about_lease(message)


def _rest(purpose: str, time_ms: int | None) -> str:
    rest = purpose + (f", {format_duration(time_ms)}" if time_ms is not None else "")
    return f" {rest}" if rest else ""


def _within_limits(message: Request | Extend) -> Request | Extend:
    """Raises BadText: the purpose or the time is over its limit."""
    if len(message.purpose) > PURPOSE_CHARACTERS_MAX:
        raise BadText(f"the purpose has {len(message.purpose)} characters, at most {PURPOSE_CHARACTERS_MAX} are taken")
    if message.time_ms is not None and not 1 <= message.time_ms <= TIME_DECLARED_MS_MAX:
        raise BadText(
            f"the time {format_duration(message.time_ms)} is outside 1ms to {format_duration(TIME_DECLARED_MS_MAX)}"
        )
    return message
