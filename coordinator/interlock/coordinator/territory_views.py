"""A territory as people and programs are shown it: the map, and one lease of it. Reads committed state only."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import anyio.lowlevel

from interlock.protocol.claim import Claim, claims_overlap
from interlock.protocol.envelope import wire_time
from interlock.protocol.identity import Identity
from interlock.protocol.lease import Lease
from interlock.protocol.limits import BEHIND_TOLD_MAX, LEASES_A_PAGE, MAP_LEASES_MAX, MAP_ROWS_AT_ONCE
from interlock.protocol.outcome import Now
from interlock.protocol.territory_draft import texts
from interlock.protocol.territory_overlap import InTheWay, in_the_way_of_each
from interlock.protocol.territory_state import Stats, Territory

HOT_MS = 3_600_000  # what was waited for longer ago is hot no more
HOT_SHOWN = 16


async def map_of(
    territory: Territory, repository: str, seq: int, now: Now, within: tuple[Claim, ...] = ()
) -> dict[str, Any]:
    """The map document; others are looked after while it is made.

    Args:
        repository: its main worktree. seq: of the last event that the territory has. within: only what overlaps one of
            these; none: all.
    """
    held = territory.held.overlapping(within) if within else list(islice(territory.held.values(), MAP_LEASES_MAX))
    waiting = territory.waiting.overlapping(within) if within else list(territory.waiting.values())
    places = {lease.id: at for at, lease in enumerate(territory.waiting.values(), start=1)}
    named: dict[str, dict[str, Any]] = {}  # many wait behind the same
    queue = []
    for number, found in enumerate(in_the_way_of_each(territory, waiting[:MAP_LEASES_MAX], BEHIND_TOLD_MAX), start=1):
        queue.append(_waiting(found, places[found.lease.id], now, named))
        await _others(number)
    in_the_way = Counter(each["lease"] for row in queue for each in row["behind"])
    shown = []
    for number, lease in enumerate(held[:MAP_LEASES_MAX], start=1):
        shown.append({**lease_view(lease, now), "waiting": in_the_way[lease.id]})
        await _others(number)
    total = len(held) if within else len(territory.held)
    narrowed = {"within": list(texts(within))} if within else {}
    return {
        "territory": territory.key,
        "repository": repository,
        **narrowed,
        "at": wire_time(now.at_ms),
        "seq": seq,
        "leases": shown,
        "more": total - len(shown),
        "waiting": queue,
        "hot": hot_of(territory, now.at_ms, within),
        "depth": len(territory.waiting),
        "stats": stats_of(territory.stats),
    }


def lease_view(lease: Lease, now: Now) -> dict[str, Any]:
    """One lease, in force or waiting, as `bus leases --json` shows it."""
    left_ms = max(0, lease.until.left_ms(now)) if lease.until is not None else None
    state = "waiting" if not lease.fence else "draining" if lease.ending else "held"
    view: dict[str, Any] = {
        "lease": lease.id,
        "agent": lease.agent,
        "claims": list(texts(lease.claims)),
        "fence": lease.fence,
        "shared": lease.shared,
        "purpose": lease.purpose,
        "state": state,
        "since": wire_time(lease.since_ms or lease.asked_ms),
        "since_ms": lease.since_ms or lease.asked_ms,
        "expires_at": wire_time(lease.until_ms) if lease.until_ms else None,
        "left_s": left_ms // 1000 if left_ms is not None else None,
        "ttl_s": lease.ttl_ms // 1000,
        "bound_to": _bound_to(lease.process, lease.with_agent),
        "worktree": lease.worktree,
        "parent": lease.parent,
        "ranges": [
            {"pattern": each.pattern, "first": each.first, "last": each.last, "blob": each.blob}
            for each in lease.claims
        ],
    }
    if lease.key:
        view["name"] = lease.key
    if lease.launches:
        view["launches"] = list(lease.launches)
    return view


def leases_of(territories: Iterable[Territory], agent: str, now: Now) -> Iterator[dict[str, Any]]:
    """What one agent has and waits for, everywhere; not more than anybody reads."""
    found = (
        lease_view(territory.lease(id_), now)  # type: ignore[arg-type] # it is there: the territory itself says so
        for territory in territories
        for id_ in (*territory.held.of(agent), *territory.waiting.of(agent))
    )
    return islice(found, LEASES_A_PAGE)


def under(territories: Iterable[Territory], launch: str) -> dict[str, int]:
    """Lease → fence of what a command runs under."""
    return {id_: each.held[id_].fence for each in territories for id_ in each.used.get(launch, ())}


def hot_of(territory: Territory, now_ms: int, within: tuple[Claim, ...] = ()) -> list[dict[str, Any]]:
    """What was waited for most in the last hour, the most first. Args: within: only what overlaps one of these."""
    waits_now = Counter(claim.pattern for lease in territory.waiting.values() for claim in lease.claims)
    found: list[dict[str, Any]] = [
        {"pattern": pattern, "waits": count, "waiting_now": waits_now[pattern]}
        for pattern, times in territory.hot.items()
        if not within or any(claims_overlap(Claim(pattern), each) for each in within)
        if (count := sum(at_ms > now_ms - HOT_MS for at_ms in times))
    ]
    return sorted(found, key=lambda each: (-int(each["waits"]), each["pattern"]))[:HOT_SHOWN]


def stats_of(stats: Stats) -> dict[str, Any]:
    """The counts, as `bus stats` shows them."""
    waits = sorted(stats.waits_ms)
    return {
        "acquired": stats.acquired,
        "queued": stats.queued,
        "renewed": stats.renewed,
        "expired": stats.expired,
        "released": stats.released,
        "lost": stats.lost,
        "given_up": stats.given_up,
        "wait_p50_ms": _quantile(waits, 0.5),
        "wait_p95_ms": _quantile(waits, 0.95),
        "commits": stats.commits,
        "pairs_checked": stats.pairs,
        "pairs_conflicting": stats.conflicting,
        "residual_conflict_rate": stats.conflicting / stats.pairs if stats.pairs else None,
        "verified": {"ok": stats.verified_ok, "failed": stats.verified_failed},
        "violations": stats.violations,
    }


def page_of(territory: Territory, agent: str, after: str, most: int) -> Iterator[Lease]:
    """The next leases, in force first, by arrival.

    Args: agent: only that one's; "" for all. after: the last one shown.
    """
    all_ = (lease for leases in (territory.held, territory.waiting) for lease in leases.values())
    mine = (lease for lease in all_ if agent in {"", lease.agent})
    if after:
        for lease in mine:
            if lease.id == after:
                break
    return islice(mine, most)


# --- straight helpers ---------------------------------------------------------------------
def _waiting(found: InTheWay, position: int, now: Now, named: dict[str, dict[str, Any]]) -> dict[str, Any]:
    lease = found.lease
    for each in found.behind:
        if each.id not in named:
            named[each.id] = {"lease": each.id, "agent": each.agent, "claims": list(texts(each.claims))}
    row: dict[str, Any] = {
        "lease": lease.id,
        "agent": lease.agent,
        "claims": list(texts(lease.claims)),
        "purpose": lease.purpose,
        "position": position,
        "waiting_s": max(0, now.at_ms - lease.asked_ms) // 1000,
        "behind": [named[each.id] for each in found.behind],
    }
    if not found.is_all:
        row["behind_more"] = True
    return row


async def _others(number: int) -> None:
    if number % MAP_ROWS_AT_ONCE == 0:
        await anyio.lowlevel.checkpoint()


def _bound_to(process: Identity | None, with_agent: bool) -> str:
    return f"process {process.pid}" if process is not None else "its agent" if with_agent else ""


def _quantile(sorted_ms: list[int], part: float) -> int:
    return sorted_ms[min(len(sorted_ms) - 1, int(len(sorted_ms) * part))] if sorted_ms else 0
