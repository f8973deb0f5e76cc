"""Soak: a mixed load with faults for minutes, and a table of what the bus takes up at rest before and after.

scripts/soak          thirty minutes
scripts/soak 2        two
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.end_to_end.playground import free_port
from tests.soak.comparing import table
from tests.soak.soak import Soak


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/soak", description="Minutes of mixed load with faults on a real bus."
    )
    parser.add_argument("minutes", nargs="?", type=float, default=30.0, help="of load (30)")
    parser.add_argument("--clients", type=int, default=16, help="how many at once (16)")
    parser.add_argument("--seed", type=int, help="of the choices; a new one where none is given")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended by either, it takes its bus with it
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory(prefix="ilk-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        soak = Soak(Path(os.path.realpath(folder)), given.minutes, seed, free_port(), given.clients)
        outcome = soak.run()
    wrong = [*outcome.faults, *(f"left over: {each}" for each in outcome.left)]
    wrong += [f"{row.name} began at {row.start:g} and ended at {row.end:g}" for row in soak.rows if not row.ok]
    if given.json:
        print(json.dumps({"rows": [row._asdict() for row in soak.rows], "served": outcome.served, "wrong": wrong}))
        return int(bool(wrong))
    print(f"soak: {given.clients} clients, seed {seed}: {outcome.served} sections in {outcome.took_s / 60:.0f} min")
    print("   " + ", ".join(f"{what} {n}" for what, n in outcome.trouble.most_common()))
    print(table(soak.rows))
    print(
        "\n".join(f"BROKEN {each}" for each in wrong) or "everything came back to where it began, or is kept by design"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
