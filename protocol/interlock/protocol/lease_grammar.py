"""What is said about leases, as one line of text, and back.

    LEASE <worktree> <path> [<path> …] [ttl=10m] [wait=5m] [name=N] [shared] [- <what for>]

A path that reads as one of these words is written with `./` before it.
"""

import re

from interlock.protocol.durations import format_duration, parse_duration
from interlock.protocol.lease_messages import AskLease, RenewLease, ReturnLease, SplitLease, ToTerritory, TransferLease
from interlock.protocol.limits import CLAIMS_MAX, PURPOSE_CHARACTERS_MAX
from interlock.protocol.words import BadText, nothing_more, quote, read_word, short

LEASE_VERBS = {
    "LEASE": "LEASE <worktree> <path> [<path> …] [ttl=10m] [wait=5m] [name=N] [shared] [- <what for>]",
    "RENEW": "RENEW <lease> [<how long>]",
    "RETURN": "RETURN <lease>",
    "TRANSFER": "TRANSFER <lease> <agent>",
    "SPLIT": "SPLIT <lease> <agent> <path> [<path> …] [ttl=2m] [- <what for>]",
}
_OPTION = re.compile(r"(ttl|wait|name)=(.*)", re.DOTALL)


def parse_about_lease(verb: str, text: str, at: int) -> ToTerritory:
    """Read what follows one of `LEASE_VERBS`.

    Args: at: where the verb ends. Raises BadText.
    """
    form = LEASE_VERBS[verb]
    first, at = read_word(text, at, form)
    match verb:
        case "LEASE":
            paths, options, purpose = _paths(text, at, form, ("ttl", "wait", "name", "shared"))
            return AskLease(
                paths, first, purpose, _time(options, "ttl", form), "shared" in options, _time(options, "wait", form),
                options.get("name", ""),
            )  # fmt: skip
        case "SPLIT":
            agent, at = read_word(text, at, form)
            paths, options, purpose = _paths(text, at, form, ("ttl",))
            return SplitLease(first, agent, paths, _time(options, "ttl", form), purpose)
        case "TRANSFER":
            agent, at = read_word(text, at, form)
            nothing_more(text, at, form)
            return TransferLease(first, agent)
        case "RENEW":
            rest = text[at:].strip()
            return RenewLease(first, _time({"ttl": rest}, "ttl", form) if rest else 0)
        case _:
            nothing_more(text, at, form)
            return ReturnLease(first)


def format_about_lease(message: ToTerritory) -> str:
    """Write it as the text that `parse_about_lease` reads; what only a `bus run` says has no text."""
    match message:
        case AskLease(claims, worktree, purpose, ttl_ms, shared, wait_ms, name):
            options = [
                *([f"ttl={format_duration(ttl_ms)}"] if ttl_ms else []),
                *([f"wait={format_duration(wait_ms)}"] if wait_ms else []),
                *([quote(f"name={name}")] if name else []),
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
def _paths(text: str, at: int, form: str, known: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str], str]:
    """Paths, options by name, and the rest after a lone dash, verbatim."""
    paths: list[str] = []
    options: dict[str, str] = {}
    while text[at:].strip():
        word, at = read_word(text, at, form)
        option = _OPTION.fullmatch(word)
        if word == "-":
            return tuple(paths), options, text[at:]
        if word == "shared" and "shared" in known:
            options["shared"] = ""
        elif option is not None and option[1] in known:
            options[option[1]] = option[2]
        else:
            paths.append(word)
    return tuple(paths), options, ""


def _time(options: dict[str, str], name: str, form: str) -> int:
    if name not in options:
        return 0
    time_ms = parse_duration(options[name])
    if not time_ms:
        raise BadText(f"{short(options[name])!r} is no duration: {form}")
    return time_ms


def _path(path: str) -> str:
    reads_as_option = path in {"-", "shared"} or _OPTION.fullmatch(path) is not None
    return quote(f"./{path}" if reads_as_option else path)


def _for(purpose: str) -> str:
    return f" - {purpose}" if purpose else ""
