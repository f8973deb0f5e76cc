"""Simulate: many seeded stories, on all cores. A failure prints its seed and its story, and ends with 1.

scripts/simulate 10000            seeds 0 to 9999
scripts/simulate 500 --first 20000
scripts/simulate --seed 17        one story, printed whole
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence

from tests.simulation.machine import Broken
from tests.simulation.story import ACTIONS, tell

EVERY_S = 5.0  # between two lines of progress


def one(work: tuple[int, int]) -> tuple[int, str]:
    """Tell one story. Returns its seed, and the story where a promise was broken."""
    seed, actions = work
    try:
        tell(seed, actions)
    except Broken as error:
        return seed, str(error)
    return seed, ""


def many(first: int, seeds: int, actions: int) -> int:
    """Tell them all. Returns the exit code."""
    started = said = time.monotonic()
    work = [(seed, actions) for seed in range(first, first + seeds)]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for done, (_, story) in enumerate(pool.imap_unordered(one, work, chunksize=8), start=1):
            if story:
                print(story)
                return 1
            if time.monotonic() - said > EVERY_S:
                said = time.monotonic()
                print(f"simulate: {done} of {seeds}", file=sys.stderr)
    print(f"simulate: {seeds} seeds from {first}, every promise held, {time.monotonic() - started:.0f} s")
    return 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description="Seeded stories of a bus that must hold.")
    parser.add_argument("seeds", nargs="?", type=int, default=100, help="how many (100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--actions", type=int, default=ACTIONS, help=f"how long a story is ({ACTIONS})")
    parser.add_argument("--seed", type=int, help="tell this one, and print it")
    given = parser.parse_args(arguments)
    if given.seed is None:
        return many(given.first, given.seeds, given.actions)
    try:
        print("\n".join(tell(given.seed, given.actions).lines))
    except Broken as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
