"""Races: real clients of every kind fight for a lock and a pool, while they and the supervisor are killed and stopped.

scripts/races                       8 clients, then 64, 400 rounds each: about three minutes
scripts/races --clients 64 --rounds 2000
scripts/races --seed 17             the same choices again; what the kernel makes of them may differ
"""

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.races.race import Race


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/races", description="Real processes race for a lock and a pool.")
    parser.add_argument("--clients", type=int, nargs="+", default=[8, 64], help="how many at once (8, then 64)")
    parser.add_argument("--rounds", type=int, default=400, help="sections in each race (400)")
    parser.add_argument("--seed", type=int, help="of the choices; a new one where none is given")
    parser.add_argument("--calm", action="store_true", help="nobody is killed or stopped")
    given = parser.parse_args(arguments)
    for clients in given.clients:
        seed = random.randrange(1 << 32) if given.seed is None else given.seed
        with tempfile.TemporaryDirectory(prefix="ilk-", dir="/tmp", ignore_cleanup_errors=True) as folder:
            outcome = Race(Path(os.path.realpath(folder)), clients, given.rounds, seed, calm=given.calm).run()
        print(
            f"races: {clients} clients, seed {seed}: {outcome.served} sections in {outcome.took_s:.0f} s "
            f"({outcome.cpu_s:.0f} s CPU of clients)"
        )
        print("   " + (", ".join(f"{what} {n}" for what, n in outcome.trouble.most_common()) or "no trouble"))
        if outcome.told:
            print(f"   told to ask again: {len(outcome.told)} times, such as: {outcome.told[0]}")
        wrong = [*outcome.faults, *(f"left over: {each}" for each in outcome.left)]
        print("\n".join(f"   BROKEN {each}" for each in wrong) or "   every promise held, nothing is left over")
        if wrong:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
