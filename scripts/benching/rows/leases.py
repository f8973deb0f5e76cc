"""Leases: what it takes to decide an acquire with 100 to 100,000 live leases, beside a scan of all of them.

Of the pure machine alone, in this process: everything that overlaps is found, and the lease is put among the others.
Each is done three times and the middle one counts: whatever else the machine does is left out. Between them the leases
are brought back to what they were, untimed, for no supervisor ever does that.
"""

import gc
import statistics
import time
from collections import deque

from scripts.benching.bench import Bench
from scripts.benching.lease_world import LeaseWorld
from scripts.benching.result import Row, Target

from interlock.protocol.claim import Claim, claims_overlap
from interlock.protocol.glob import _parse
from interlock.protocol.lease import Lease
from interlock.protocol.leases import EMPTY_LEASES, Leases

SIZES = (100, 1_000, 10_000, 100_000)
SCANS = 3  # of all: each is tenths of a second among 100,000
TARGET = Target(200.0, "measured", True, "≤ 200 µs at p99")


def measure(bench: Bench) -> list[Row]:
    rows, leases, world = [], EMPTY_LEASES, LeaseWorld(seed=1)
    for size in SIZES[:2] if bench.quick else SIZES:
        bench.say(f"leases: {size:,} live ones are made")
        while len(leases) < size:
            lease = world.lease()
            if not leases.overlapping(lease.claims):
                leases = leases.put(lease)
        rows.append(_among(leases, world, 200 if bench.quick else 3_000))
    return rows


def _among(leases: Leases, world: LeaseWorld, times: int) -> Row:
    """As many come as go, so that their number stays."""
    size, took_us, refused = len(leases), [], 0
    oldest = deque(leases)
    scans_us = [_scan_us(leases, world.lease().claims) for _ in range(SCANS)]
    gc.collect()
    gc.freeze()  # what lives on is not looked through again and again while one decision is timed
    for _ in range(times):
        lease = world.lease()
        thrice_us = []
        for _ in range(3):
            assert lease.id not in leases  # whatever is read of older ones brings them back
            _parse.cache_clear()  # as of claims that nobody has asked for before
            begun = time.thread_time_ns()
            found = leases.overlapping(lease.claims)
            with_it = leases.put(lease)
            thrice_us.append((time.thread_time_ns() - begun) / 1_000)
        took_us.append(statistics.median(thrice_us))
        refused += bool(found)
        if not found:
            leases = with_it.without(oldest.popleft())
            oldest.append(lease.id)
    gc.unfreeze()
    percentiles = statistics.quantiles(took_us, n=100)
    scan_us = statistics.median(scans_us)
    return Row(
        f"leases-{size}", f"an acquire is decided with {size:,} live leases, p99 (CPU)", percentiles[98], "µs",
        scan_us, "each live lease compared with it, one after the other", percentiles[98] / scan_us, TARGET,
        {
            "p50, µs": percentiles[49], "the longest, µs": max(took_us), "p50 / the scan": percentiles[49] / scan_us,
            "of these acquires, overlap another, %": 100 * refused / times,
        },
    )  # fmt: skip


def _scan_us(leases: Leases, claims: tuple[Claim, ...]) -> float:
    every: list[Lease] = [*leases.values()]
    begun = time.thread_time_ns()
    found = [each for each in every if any(claims_overlap(one, other) for one in claims for other in each.claims)]
    took_us = (time.thread_time_ns() - begun) / 1_000
    assert found == leases.overlapping(claims), "both find the same"
    return took_us
