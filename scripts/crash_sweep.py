"""Crash sweep: a real supervisor, killed or failed at each call of whole conversations that changes its disk.

scripts/crash-sweep                                       everything
scripts/crash-sweep --every 5                             every fifth point, begun at another one each time
scripts/crash-sweep --only kill --calls fsync,fdatasync
scripts/crash-sweep --point lock:kill:fdatasync:17        one point, its story printed

After each: a restart, and what clients were told is held against the log, the folders and the doctor's findings.
"""

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from tests.crashes import notify, real_disk
from tests.crashes.faults import CALLS, KILL, LOG, SPEAK, Point
from tests.crashes.story import Story
from tests.crashes.sweep import count, play
from tests.crashes.talks import TALKS

FAULTS = {  # what --only chooses; a + lasts until clients have met it; the last two have a real file system as well
    "kill": (KILL,), "enospc": ("enospc",), "eio": ("eio",),
    real_disk.FULL: ("enospc+", real_disk.FULL), real_disk.READ_ONLY: ("erofs+", real_disk.READ_ONLY),
}  # fmt: skip
EVERY_S = 10.0  # between two lines of progress
MORE = 2  # points beyond those that were counted: a conversation is never twice quite the same
EPILOG = """\
A point costs about 1.5 s of CPU time. --only kill (some 1,000 points) takes about a quarter of an hour on two idle
cores, everything (some 4,500) about an hour. Linux only; it needs neither privilege nor strace.
full and readonly are played on a real file system too (--talks disk), mounted where user namespaces are allowed, or by
root; else that part is skipped, and it says so.

Exit code 0: every point survived. 1: one did not, and its story has been printed. 69: calls cannot be stopped here
(seccomp's notifications are forbidden, or this is not Linux)."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/crash-sweep", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Kill a real supervisor at every write of whole conversations, and let its disk fail there.",
    )  # fmt: skip
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th point (1)")
    parser.add_argument("--only", metavar="FAULTS", default="", help=f"some of {','.join(FAULTS)}")
    parser.add_argument("--calls", metavar="CALLS", default="", help=f"some of {','.join(CALLS)}")
    parser.add_argument("--talks", metavar="TALKS", default="", help=f"some of {','.join((*TALKS, real_disk.TALK))}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="at once (one a core)")
    parser.add_argument("--point", default="", metavar="TALK:FAULT:CALL:NUMBER", help="this one, and print its story")
    given = parser.parse_args(arguments)
    if not notify.is_supported():
        print(
            "crash-sweep: calls cannot be stopped here (Linux 5.5 or newer, with seccomp, is needed)", file=sys.stderr
        )
        return 69
    if given.point:
        story = play(Point.read(given.point))
        print(story.told())
        return 1 if story.broken else 0
    faults = [each for name in _chosen(parser, given.only, FAULTS) for each in FAULTS[name]]
    calls, talks = _chosen(parser, given.calls, CALLS), _chosen(parser, given.talks, (*TALKS, real_disk.TALK))
    return sweep(faults, calls, talks, max(1, given.every), given.jobs)


def sweep(faults: Sequence[str], calls: Sequence[str], talks: Sequence[str], every: int, jobs: int) -> int:
    """Play them all. Returns the exit code."""
    begun = said = time.monotonic()
    real = [each for fault in faults if real_disk.TALK in talks for each in real_disk.points(fault)]
    skipped = real_disk.refusal() if real else ""
    talks = [each for each in talks if each in TALKS]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        counts = dict(zip(talks, pool.map(count, talks), strict=True))
        points = [*([] if skipped else real[::every]), *_points(faults, calls, counts, every)]
        print(f"crash-sweep: {len(points)} points in {len(talks)} conversations", flush=True)
        done: list[tuple[Point, Story]] = []
        for story in pool.imap_unordered(play, points):
            done.append((Point.read(story.point), story))
            if story.broken:
                print(story.told(), flush=True)
            if time.monotonic() - said > EVERY_S:
                said = time.monotonic()
                bad = sum(bool(each.broken) for _, each in done)
                print(f"crash-sweep: {len(done)} of {len(points)}, {bad} broken", file=sys.stderr, flush=True)
    print(_table(done))
    broken = [story for _, story in done if story.broken]
    print(f"crash-sweep: {len(done)} points, {sum(bool(story.met) for _, story in done)} met, {len(broken)} broken, "
          f"{time.monotonic() - begun:.0f} s")  # fmt: skip
    if skipped:
        print(f"crash-sweep: of a real file system nothing was played: {skipped}")
    for story in broken:
        print(f"    scripts/crash-sweep --point {story.point}")
    return 1 if broken else 0


def _points(
    faults: Sequence[str], calls: Sequence[str], counts: dict[str, Counter[str]], every: int
) -> Iterator[Point]:
    for talk, counted in counts.items():
        for fault in faults:
            for call in () if fault in (real_disk.FULL, real_disk.READ_ONLY) else calls:
                if counted[call] and not (fault != KILL and call == SPEAK) and not (fault == KILL and call == LOG):
                    first = random.randrange(1, every + 1)
                    for number in range(first, counted[call] + MORE + 1, every):
                        yield Point(talk, fault, call, number)


def _table(done: Sequence[tuple[Point, Story]]) -> str:
    """Call × fault: points met, and how many of them did not survive."""
    met, broken = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for point, story in done:
        if story.met or story.broken:
            met[point.call, point.fault] += 1
            broken[point.call, point.fault] += bool(story.broken)
    faults = list(dict.fromkeys(point.fault for point, _ in done))
    lines = ["survived / met  " + "".join(f"{fault:>12}" for fault in faults)]
    rows = (*CALLS, *real_disk.KINDS)
    for call in rows:
        if any(met[call, fault] for fault in faults):
            cells = [f"{met[call, f] - broken[call, f]}/{met[call, f]}" if met[call, f] else "-" for f in faults]
            lines.append(f"{call:<16}" + "".join(f"{cell:>12}" for cell in cells))
    totals = [(sum(met[call, f] for call in rows), sum(broken[call, f] for call in rows)) for f in faults]
    lines.append(f"{'all':<16}" + "".join(f"{f'{all_ - bad}/{all_}':>12}" for all_, bad in totals))
    return "\n".join(lines)


def _chosen(parser: argparse.ArgumentParser, given: str, known: Collection[str]) -> list[str]:
    chosen = [each.strip() for each in given.split(",") if each.strip()] or list(known)
    for each in chosen:
        if each not in known:
            parser.error(f"{each} is none of {', '.join(known)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
