"""The quick tests, RUNS times in a row; each run is made anew by its seed. A test that fails in one of them is a flake.

From the seed come the order of the tests, the hashes (and so the order of every set) and hypothesis' examples. What no
seed holds is what other processes do meanwhile: run it on a machine that has other things to do as well.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".flakes"
QUICK = ["-m", "not slow"]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
LAST = re.compile(r"^=* ?(\d.* in [\d.]+s.*?) ?=*$", re.MULTILINE)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(seed: int, more: list[str]) -> tuple[str, str]:
    """One run. What it printed, and its last line; "" where that is missing."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed % 2**32)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    workers = os.environ.get("TEST_WORKERS", "4")
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "--quiet", "-n", workers, "--dist", "worksteal", f"--shuffle={seed}",
            f"--hypothesis-seed={seed}", *(more or QUICK),
        ],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    found = LAST.findall(done.stdout)
    if done.returncode == 0 and found:
        return "", str(found[-1])
    return done.stdout, str(found[-1]) if found else f"pytest ended with {done.returncode}"


def main() -> int:
    arguments = argparse.ArgumentParser(
        prog="scripts/flakes", description=__doc__, usage="%(prog)s [RUNS] [--seed FIRST] [-- PYTEST…]"
    )
    arguments.add_argument("runs", nargs="?", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=0, help="of the first run; by default another one each time")
    words = sys.argv[1:]
    ours = words.index("--") if "--" in words else len(words)
    given, of_pytest = arguments.parse_args(words[:ours]), words[ours + 1 :]
    first = given.seed or int(time.time())
    failed: Counter[str] = Counter()
    bad = 0
    for number in range(given.runs):
        seed, before, began = first + number, cpu_s(), time.monotonic()
        output, last = run(seed, of_pytest)
        load = os.getloadavg()[0]
        took = f"{time.monotonic() - began:.0f} s, {cpu_s() - before:.0f} s of CPU, load {load:.0f}"
        print(f"{number + 1}/{given.runs} seed {seed}: {last} ({took})", flush=True)
        if output:
            bad += 1
            KEPT.mkdir(exist_ok=True)
            kept = KEPT / f"{seed}.txt"
            kept.write_text(output)
            tests = FAILED.findall(output)
            failed.update(tests)
            for test in tests:
                print(f"    {test}")
            print(f"    all of it: {kept.relative_to(ROOT)}; again: scripts/flakes 1 --seed {seed}", flush=True)
    print(f"{bad} of {given.runs} runs failed" if bad else f"{given.runs} runs, no flake")
    for test, often in failed.most_common():
        print(f"    {often} of {given.runs}: {test}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
