"""What each event changes in a territory. Total and silent, as a replay needs it."""

import msgspec

from interlock.protocol.lease import Lease
from interlock.protocol.limits import (
    COMMITS_KEPT,
    HOT_PATTERNS_KEPT,
    HOT_WAITS_KEPT,
    LEASES_ENDED_KEPT,
    WAITS_KEPT,
)
from interlock.protocol.territory_events import (
    CommitRecorded,
    LeaseAsked,
    LeaseBegan,
    LeaseDrains,
    LeaseKept,
    LeaseMoved,
    LeaseOver,
    LeaseUnused,
    LeaseUsed,
    TerritoryEvent,
    VerificationRecorded,
)
from interlock.protocol.territory_state import Commit, Ended, How, Stats, Territory

replace = msgspec.structs.replace
HELD_BY_OTHER = "held_by_other"  # the cause of a violation that is a conflict which happened anyway


def evolve(territory: Territory, event: TerritoryEvent) -> Territory:
    """Take one fact in."""
    stats = territory.stats
    match event:
        case LeaseAsked(_, lease):
            territory = _heat(territory, lease)
            waiting = territory.waiting.put(lease)
            return replace(territory, waiting=waiting, stats=replace(stats, queued=stats.queued + 1))
        case LeaseBegan(_, lease, waited_ms):
            waited = (*stats.waits_ms, waited_ms)[-WAITS_KEPT:] if waited_ms else stats.waits_ms
            return replace(
                territory, held=territory.held.put(lease), waiting=territory.waiting.without(lease.id),
                stats=replace(stats, acquired=stats.acquired + 1, waits_ms=waited),
            )  # fmt: skip
        case LeaseKept(_, id_, until, until_ms, ttl_ms):
            if id_ in territory.waiting:
                waits = replace(territory.waiting[id_], until=until, until_ms=until_ms)
                return replace(territory, waiting=territory.waiting.put(waits))
            lease = replace(territory.held[id_], until=until, until_ms=until_ms, ttl_ms=ttl_ms)
            return replace(territory, held=territory.held.put(lease), stats=replace(stats, renewed=stats.renewed + 1))
        case LeaseDrains(_, id_, how, why):
            lease = replace(territory.held[id_], until=None, until_ms=0, ending=how, why=why)
            return replace(territory, held=territory.held.put(lease))
        case LeaseOver(_, id_, _, how, why, at_ms):
            known = territory.lease(id_)
            assert known is not None
            return replace(
                _remember(territory, known, how, why, at_ms), held=territory.held.without(id_),
                waiting=territory.waiting.without(id_), stats=_counted(stats, how),
            )  # fmt: skip
        case LeaseMoved(_, lease):
            return replace(territory, held=territory.held.put(lease))
        case LeaseUsed(_, id_, launch):
            lease = territory.held[id_]
            with_it = replace(lease, launches={**lease.launches, launch.launch: launch})
            ids = (*territory.used.get(launch.launch, ()), id_)
            return replace(territory, held=territory.held.put(with_it), used=territory.used.put(launch.launch, ids))
        case LeaseUnused(_, id_, launch):
            lease = territory.held[id_]
            left = {name: each for name, each in lease.launches.items() if name != launch}
            ids = tuple(each for each in territory.used.get(launch, ()) if each != id_)
            used = territory.used.put(launch, ids) if ids else territory.used.without(launch)
            return replace(territory, held=territory.held.put(replace(lease, launches=left)), used=used)
        case CommitRecorded(agent, commit, at_ms):
            commits = territory.commits.put_last(commit, Commit(agent, at_ms)).newest(COMMITS_KEPT)
            return replace(territory, commits=commits, stats=replace(stats, commits=stats.commits + 1))
        case VerificationRecorded(_, pairs, violations):
            return replace(territory, stats=_verified(stats, pairs, violations))


# --- straight helpers ---------------------------------------------------------------------
def _heat(territory: Territory, lease: Lease) -> Territory:
    """Keep which patterns are waited for, and since when."""
    hot = territory.hot
    for claim in lease.claims:
        times = (*hot.get(claim.pattern, ()), lease.asked_ms)[-HOT_WAITS_KEPT:]
        hot = hot.put_last(claim.pattern, times)
    return replace(territory, hot=hot.newest(HOT_PATTERNS_KEPT))


def _remember(territory: Territory, lease: Lease, how: How, why: str, at_ms: int) -> Territory:
    ended = Ended(lease.agent, lease.claims, lease.fence, how, why, at_ms, lease.request)
    return replace(territory, ended=territory.ended.put(lease.id, ended).newest(LEASES_ENDED_KEPT))


def _counted(stats: Stats, how: How) -> Stats:
    match how:
        case How.RELEASED:
            return replace(stats, released=stats.released + 1)
        case How.EXPIRED:
            return replace(stats, expired=stats.expired + 1)
        case How.GIVEN_UP:
            return replace(stats, given_up=stats.given_up + 1)
        case _:
            return replace(stats, lost=stats.lost + 1)


def _verified(stats: Stats, pairs: int, violations: dict[str, int]) -> Stats:
    sums = {cause: stats.violations.get(cause, 0) + number for cause, number in violations.items()}
    return replace(
        stats,
        pairs=stats.pairs + pairs,
        conflicting=stats.conflicting + violations.get(HELD_BY_OTHER, 0),
        verified_ok=stats.verified_ok + (not violations),
        verified_failed=stats.verified_failed + bool(violations),
        violations={**stats.violations, **sums},
    )
