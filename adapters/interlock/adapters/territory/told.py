"""The history of a territory's leases, made of what the bus tells: its log, and the leases that are in force now.

events, oldest first ─┐
leases in force now ──┴─▶ the document that `bus export` writes and `bus verify` reads
"""

from collections.abc import Iterable
from typing import Any


def history_of(
    territory: str, at: str, events: Iterable[dict[str, Any]], in_force: Iterable[dict[str, Any]], log_from_ms: int
) -> dict[str, Any]:
    """The export document.

    Args:
        territory: its key. at: when it was asked for (wire time).
        events: of that territory, as `bus tail --json` has them, oldest first.
        in_force: as `bus leases --json` has them.
        log_from_ms: when the log begins (wall clock); 0: with the first event that there ever was.

    Returns:
        The document. What was in force before the log begins, and has ended in it, is not known to its full extent: the
        document is complete from that end on.
    """
    done: list[dict[str, Any]] = []
    open_: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()  # what ends between the two questions is not in force any more
    commits: dict[str, dict[str, Any]] = {}
    complete_from_ms = log_from_ms
    for event in events:
        lease = str(event.get("lease", ""))
        if event["type"] in {"leased", "lease_transferred", "lease_ended"}:
            seen.add(lease)
        match event["type"]:
            case "leased":
                open_[lease] = _entry(event, event["since_ms"])
            case "lease_transferred":
                before = open_.pop(lease, None)
                if before is not None:
                    done.append({**before, "to_ms": event["at_ms"], "how": "transferred"})
                else:
                    complete_from_ms = max(complete_from_ms, event["at_ms"])
                open_[lease] = _entry(event, event["at_ms"])
            case "lease_ended" if event.get("fence"):
                before = open_.pop(lease, None)
                if before is not None:
                    done.append({**before, "to_ms": event["at_ms"], "how": event["how"]})
                else:
                    complete_from_ms = max(complete_from_ms, event["at_ms"])
            case "committed":
                commits.setdefault(event["commit"], {"agent": event["agent"], "at_ms": event["at_ms"]})
    for row in in_force:
        if row["fence"] and row["lease"] not in seen:
            open_[row["lease"]] = _entry({**row, "claims": row["ranges"]}, row["since_ms"])
    leases = sorted([*done, *open_.values()], key=lambda each: each["from_ms"])
    return {
        "interlock_export": 1,
        "territory": territory,
        "at": at,
        "complete_from_ms": complete_from_ms,
        "leases": leases,
        "commits": commits,
    }


def _entry(lease: dict[str, Any], from_ms: int) -> dict[str, Any]:
    plain = {"first": 0, "last": 0, "blob": ""}
    return {
        "lease": lease["lease"],
        "agent": lease["agent"],
        "claims": [{**plain, **claim} for claim in lease["claims"]],
        "shared": lease.get("shared", False),
        "parent": lease.get("parent", ""),
        "from_ms": from_ms,
        "to_ms": None,
        "how": "",
    }
