"""Simulate: many seeded stories, on all cores. A failure prints its seed and its story, and ends with 1.

scripts/simulate 10000            seeds 0 to 9999: about 25 minutes on two cores
scripts/simulate 500 --first 20000
scripts/simulate --seed 17        one story, printed whole
scripts/simulate --shorten 17     of one that breaks a promise, as little as breaks it still
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.simulation.acts import COMMON, TROUBLES
from tests.simulation.machine import Broken
from tests.simulation.story import ACTIONS, shortest, tell

EVERY_S = 5.0  # between two lines of progress
COLUMNS = 4


class Told(NamedTuple):
    """What one seed came to. Args: broken: the story, where a promise was. lived_s: virtual, sleep included."""

    seed: int
    broken: str
    lived_s: float
    done: Mapping[str, int]
    events: Mapping[str, int]


def one(work: tuple[int, int]) -> Told:
    """Tell one story."""
    seed, actions = work
    try:
        story = tell(seed, actions)
    except Broken as error:
        return Told(seed, str(error), 0.0, {}, {})
    return Told(seed, "", story.lived_s(), dict(story.told), dict(story.promises.seen))


def many(first: int, seeds: int, actions: int, jobs: int) -> int:
    """Tell them all. Returns the exit code."""
    started = said = time.monotonic()
    work = [(seed, actions) for seed in range(first, first + seeds)]
    lived_s, did, events = 0.0, Counter[str](), Counter[str]()
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for done, told in enumerate(pool.imap_unordered(one, work, chunksize=8), start=1):
            if told.broken:
                print(told.broken)
                print(f"as little of it as breaks a promise: scripts/simulate --shorten {told.seed}")
                return 1
            lived_s += told.lived_s
            did.update(told.done)
            events.update(told.events)
            if time.monotonic() - said > EVERY_S:
                said = time.monotonic()
                print(f"simulate: {done} of {seeds}", file=sys.stderr)
    took_s = time.monotonic() - started
    table("what agents did", did, [*COMMON])
    table("what went wrong", did, [*TROUBLES, "a supervisor comes up"])
    table("what was recorded", events, sorted(events))
    never = [name for name in (*COMMON, *TROUBLES) if not did[name]]
    print(f"never: {', '.join(never) or 'nothing'}")
    grants, restarts = events["HoldGranted"], did["a supervisor comes up"] - seeds
    actions = sum(did[name] for name in (*COMMON, *TROUBLES))
    print(
        f"simulate: {seeds} seeds from {first}, every promise held: {actions:,} actions, "
        f"{grants:,} grants, {restarts:,} restarts, {did['cut']:,} cuts, {sum(events.values()):,} events"
    )
    print(f"simulate: {lived_s / 3600:,.0f} hours in {took_s:,.0f} s: {lived_s / took_s:,.0f} times as fast as life")
    return 0


def table(title: str, counted: Counter[str], names: Sequence[str]) -> None:
    print(f"{title}:")
    cells = [f"{name} {counted[name]:,}" for name in names]
    for start in range(0, len(cells), COLUMNS):
        print("  " + "".join(cell.ljust(28) for cell in cells[start : start + COLUMNS]).rstrip())


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description="Seeded stories of a bus that must hold.")
    parser.add_argument("seeds", nargs="?", type=int, default=100, help="how many (100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--actions", type=int, default=ACTIONS, help=f"how long a story is ({ACTIONS})")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (one a core)")
    parser.add_argument("--seed", type=int, help="tell this one, and print it")
    parser.add_argument("--shorten", type=int, metavar="SEED", help="leave out of this one what is not needed to fail")
    given = parser.parse_args(arguments)
    if given.shorten is not None:
        without, story = shortest(given.shorten, given.actions)
        print(story or f"seed {given.shorten} breaks no promise")
        print(f"without {len(without)} of its actions")
        return 1 if story else 0
    if given.seed is None:
        return many(given.first, given.seeds, given.actions, given.jobs)
    try:
        print("\n".join(tell(given.seed, given.actions).lines))
    except Broken as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
