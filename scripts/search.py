"""Search: every combination of what can happen to a resource, as deep as it is let, on all cores.

scripts/search                    every plan to depth 8, or to 50,000 states: 15 minutes or so on two cores
scripts/search --only server      one plan; --list names them
scripts/search --depth 10         deeper
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence

from tests.protocol.search import Found, Seen, search
from tests.protocol.search_plans import EVERYTHING, SLICES
from tests.protocol.search_sets import SETS, search_sets

PLANS = {config.name: config for config in [*EVERYTHING, *SLICES]}
OF_SETS = {plan.name: plan for plan in SETS}
STATES = 50_000  # a plan ends where it has so many: about a minute of one core


def one(work: tuple[str, int, int]) -> Seen | str:
    """Search one plan. Returns what was seen, or the broken promise and the way to it."""
    name, depth, states = work
    try:
        if name in OF_SETS:
            return search_sets(OF_SETS[name], depth, states_max=states)
        return search(PLANS[name], depth, states_max=states)
    except Found as found:
        return f"{name}: {found}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/search", description="Every combination, with every promise checked."
    )
    parser.add_argument("--depth", type=int, default=8, help="how many moves deep (8)")
    parser.add_argument("--states", type=int, default=STATES, help=f"enough for one plan ({STATES:,}); 0: no bound")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (one a core)")
    parser.add_argument(
        "--only", action="append", choices=[*PLANS, *OF_SETS], help="search this plan; may be said again"
    )
    parser.add_argument("--list", action="store_true", help="name the plans")
    given = parser.parse_args(arguments)
    if given.list:
        print("\n".join([*PLANS, *OF_SETS]))
        return 0
    started, states, steps = time.monotonic(), 0, 0
    work = [(name, given.depth, given.states) for name in given.only or [*PLANS, *OF_SETS]]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for seen in pool.imap_unordered(one, work):
            print(seen, flush=True)
            if isinstance(seen, str):
                return 1
            states, steps = states + seen.states, steps + seen.steps
    took_s = time.monotonic() - started
    print(f"search: {len(work)} plans, {states:,} states, {steps:,} steps, every promise held, {took_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
