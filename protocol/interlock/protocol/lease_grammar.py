"""What is said about leases, as one line of text, and back.

    LEASE <worktree> <path> [<path> …] [ttl=10m] [wait=5m] [name=N] [task=T] [shared] [- <what for>]

A path that reads as one of these words is written with `./` before it.
"""

import re

from interlock.protocol.durations import format_duration, parse_duration
from interlock.protocol.lease_messages import AskLease, RenewLease, ReturnLease, SplitLease, ToTerritory, TransferLease
from interlock.protocol.limits import CLAIMS_MAX, PURPOSE_CHARACTERS_MAX
from interlock.protocol.visible import quoted
from interlock.protocol.words import BadText, nothing_more, quote, read_options, read_word

LEASE_VERBS = {
    "LEASE": "LEASE <worktree> <path> [<path> …] [ttl=10m] [wait=5m] [name=N] [task=T] [shared] [- <what for>]",
    "RENEW": "RENEW <lease> [<how long>]",
    "RETURN": "RETURN <lease>",
    "TRANSFER": "TRANSFER <lease> <agent>",
    "SPLIT": "SPLIT <lease> <agent> <path> [<path> …] [ttl=2m] [- <what for>]",
}
_OPTION = re.compile(r"(ttl|wait|name|task)=(.*)", re.DOTALL)


def parse_about_lease(verb: str, text: str, at: int) -> ToTerritory:
    """Read what follows one of `LEASE_VERBS`.

    Args: at: where the verb ends. Raises BadText.
    """
    form = LEASE_VERBS[verb]
    first, at = read_word(text, at, form)
    match verb:
        case "LEASE":
            said = read_options(text, at, form, ("ttl", "wait", "name", "task"), ("shared",))
            return AskLease(
                said.words, first, said.rest, _time(said.one("ttl"), form), "shared" in said.flags,
                _time(said.one("wait"), form), said.one("name"), task=said.one("task"),
            )  # fmt: skip
        case "SPLIT":
            agent, at = read_word(text, at, form)
            said = read_options(text, at, form, ("ttl",))
            return SplitLease(first, agent, said.words, _time(said.one("ttl"), form), said.rest)
        case "TRANSFER":
            agent, at = read_word(text, at, form)
            nothing_more(text, at, form)
            return TransferLease(first, agent)
        case "RENEW":
            rest = text[at:].strip()
            return RenewLease(first, _time(rest, form))
        case _:
            nothing_more(text, at, form)
            return ReturnLease(first)


def format_about_lease(message: ToTerritory) -> str:
    """Write it as the text that `parse_about_lease` reads; what only a `bus run` says has no text."""
    match message:
        case AskLease(claims, worktree, purpose, ttl_ms, shared, wait_ms, name, task=task):
            options = [
                *([f"ttl={format_duration(ttl_ms)}"] if ttl_ms else []),
                *([f"wait={format_duration(wait_ms)}"] if wait_ms else []),
                *([quote(f"name={name}")] if name else []),
                *([quote(f"task={task}")] if task else []),
                *(["shared"] if shared else []),
            ]
            return " ".join(["LEASE", quote(worktree), *map(_path, claims), *options]) + _for(purpose)
        case SplitLease(lease, agent, claims, ttl_ms, purpose):
            options = [f"ttl={format_duration(ttl_ms)}"] if ttl_ms else []
            return " ".join(["SPLIT", quote(lease), quote(agent), *map(_path, claims), *options]) + _for(purpose)
        case TransferLease(lease, agent):
            return f"TRANSFER {quote(lease)} {quote(agent)}"
        case RenewLease(lease, ttl_ms):
            return f"RENEW {quote(lease)}" + (f" {format_duration(ttl_ms)}" if ttl_ms else "")
        case ReturnLease(lease):
            return f"RETURN {quote(lease)}"


def checked_about_lease(message: ToTerritory) -> ToTerritory:
    """A typed message is within its limits. Raises BadText."""
    claims = message.claims if isinstance(message, AskLease | SplitLease) else None
    if claims is not None and not 1 <= len(claims) <= CLAIMS_MAX:
        raise BadText(f"{len(claims)} paths are named, a lease has 1 to {CLAIMS_MAX}: name those that will change")
    purpose = message.purpose if isinstance(message, AskLease | SplitLease) else ""
    if len(purpose) > PURPOSE_CHARACTERS_MAX:
        raise BadText(f"the purpose has {len(purpose)} characters, at most {PURPOSE_CHARACTERS_MAX} are taken")
    return message


# --- straight helpers ---------------------------------------------------------------------
def _time(said: str, form: str) -> int:
    """0 where nothing was said. Raises BadText."""
    time_ms = parse_duration(said) if said else 0
    if said and not time_ms:
        raise BadText(f"{quoted(said)} is no duration: {form}")
    return time_ms or 0


def _path(path: str) -> str:
    reads_as_option = path in {"-", "shared"} or _OPTION.fullmatch(path) is not None
    return quote(f"./{path}" if reads_as_option else path)


def _for(purpose: str) -> str:
    return f" - {purpose}" if purpose else ""
