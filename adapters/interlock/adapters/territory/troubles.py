"""What is wrong with a change, as sentences that say what to do next."""

from collections.abc import Sequence
from shlex import quote

from interlock.adapters.territory.cover import Trouble, escaped
from interlock.protocol.durations import format_age
from interlock.protocol.visible import one_sentence, unhidden

SHOWN = 12  # more is a list that nobody reads


def sentence(trouble: Trouble) -> str:
    """One of them, on one line."""
    path, take = unhidden(trouble.path), f"bus lease acquire {unhidden(quote(escaped(trouble.path)))}"
    match trouble.cause:
        case "held_by_other":
            left = "" if trouble.left_s is None else f", {format_age(trouble.left_s * 1000)} left"
            purpose = f' for "{one_sentence(trouble.purpose)}"' if trouble.purpose else ""
            whose = f"{path} is held by {trouble.holder} ({unhidden(trouble.claim)}{left}){purpose}"
            return f"{whose}: take another path, or wait: {take} --wait 10m"
        case "outside_range":
            return f"{path} is changed outside of your lines ({unhidden(trouble.claim)}): {take}"
    return f"{path} is under no lease of yours: {take}"


def sentences(troubles: Sequence[Trouble]) -> list[str]:
    """The first of them, those that are another's before those that are nobody's, and how many more there are."""
    ordered = sorted(troubles, key=lambda each: (each.cause == "no_lease", each.path))
    more = [f"and {len(ordered) - SHOWN} more: bus drift shows all"] if len(ordered) > SHOWN else []
    return [sentence(each) for each in ordered[:SHOWN]] + more


def facts(trouble: Trouble) -> dict[str, object]:
    """One of them for programs."""
    facts: dict[str, object] = {"path": trouble.path, "cause": trouble.cause}
    if trouble.lease:
        facts |= {"holder": trouble.holder, "lease": trouble.lease, "claim": trouble.claim, "left_s": trouble.left_s}
    return facts
