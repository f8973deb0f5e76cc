"""Fuzz: garbage through every door, beside a neighbour who must not notice. Ends with 1 where anything went wrong.

scripts/fuzz                                         100,000 inputs over all doors: three to four minutes on two cores
scripts/fuzz 5000 --seed 7                           fewer, the same each time
scripts/fuzz 25 --door socket --seed 7 --first 1234  one conversation again, as a fault's line says
"""

import argparse
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tests.adapters.shared_bus import shared_bus
from tests.fuzz import homes, parsers
from tests.fuzz.arena import TOML, Arena, arena

QUIET_S = 5.0  # how long the neighbour is alone, to compare with
EVERY_S = 10.0
SHARES = {"socket": 0.66, "relay": 0.02, "folders": 0.03, "commands": 0.006, "parsers": 0.2838, "homes": 0.0002}
Door = Iterator[tuple[int, list[str]]]


def through(name: str, bus: Arena, seed: str, first: int, inputs: int) -> Door:
    """The sweep of one door of a running bus."""
    sweeps = {"socket": bus.over_socket, "relay": bus.over_relay, "folders": bus.over_folders,
              "commands": bus.over_commands}  # fmt: skip
    return sweeps[name](seed, first, inputs)


def pure(seed: str, inputs: int) -> Door:
    """All readers that need no bus."""
    each = max(1, inputs // len(parsers.PARSERS))
    for name in parsers.PARSERS:
        yield each, list(parsers.sweep(name, seed, each))


def spoilt(seed: str, first: int, count: int) -> Door:
    """Starts on spoilt homes, one bus after the other."""
    with shared_bus(TOML) as bus:
        bus("down")
        for number in range(first, first + count):
            wrong = homes.try_one(bus, seed, number)
            yield 1, [wrong] if wrong else []


class Sweep:
    """Counts, and prints each fault with how to repeat it."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.counts: dict[str, int] = {}
        self.faults = 0
        self._said_s = time.monotonic()

    def go(self, name: str, door: Door) -> None:
        self.counts[name] = 0
        for inputs, faults in door:
            self.counts[name] += inputs
            for fault in faults:
                self.say(name, fault)
            if time.monotonic() > self._said_s + EVERY_S:
                self._said_s = time.monotonic()
                print(f"fuzz: {sum(self.counts.values())} inputs, {self.faults} faults ({name})", file=sys.stderr)

    def say(self, name: str, fault: str) -> None:
        self.faults += 1
        number = next((word.rstrip(":") for word in fault.split() if word.rstrip(":").isdigit()), "0")
        few = 25 if name in {"socket", "relay"} else 1
        print(f"FAULT {name}: {fault}\n    again: scripts/fuzz {few} --door {name} --seed {self.seed} --first {number}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description="Garbage through every door of a real bus.")
    parser.add_argument("inputs", nargs="?", type=int, default=100_000, help="how many, over all doors (100000)")
    parser.add_argument("--seed", default="", help="of everything; without one a new one is made, and printed")
    parser.add_argument("--door", choices=sorted(SHARES), help="this one only")
    parser.add_argument("--first", type=int, default=0, help="of a door: begin with this conversation, command or home")
    given = parser.parse_args(arguments)
    sweep = Sweep(given.seed or secrets.token_hex(4))
    begun = time.monotonic()
    shares = {given.door: 1.0} if given.door else SHARES
    counts = {name: max(1, round(given.inputs * share)) for name, share in shares.items()}
    doors = [name for name in counts if name not in {"parsers", "homes"}]
    if "parsers" in counts:
        sweep.go("parsers", pure(sweep.seed, counts["parsers"]))
    if doors:
        _beside_a_neighbour(sweep, doors, counts, given.first)
    if "homes" in counts:
        sweep.go("homes", spoilt(sweep.seed, given.first, counts["homes"]))
    told = ", ".join(f"{name} {count}" for name, count in sweep.counts.items())
    print(f"fuzz: {sum(sweep.counts.values())} inputs ({told}), seed {sweep.seed}, {time.monotonic() - begun:.0f} s")
    print(f"fuzz: {sweep.faults or 'no'} faults")
    return 1 if sweep.faults else 0


def _beside_a_neighbour(sweep: Sweep, doors: list[str], counts: dict[str, int], first: int) -> None:
    quiet: dict[str, Any] = {}
    beside: dict[str, Any] = {}
    with arena() as bus:
        with bus.neighbour(quiet):
            time.sleep(QUIET_S)  # it measures meanwhile: nothing is waited for
        with bus.neighbour(beside):
            for name in doors:
                sweep.go(name, through(name, bus, sweep.seed, first, counts[name]))
        for fault in bus.faults():
            sweep.say("supervisor", fault)
        for said in (quiet, beside):
            if said.get("broken"):
                sweep.say("neighbour", said["broken"])
        mib = [kib / 1024 for kib in (bus.began_kib, bus.memory_kib("VmRSS"), bus.memory_kib("VmHWM"))]
        print(f"fuzz: one supervisor (pid {bus.pid}), memory {mib[0]:.0f} MiB at first, {mib[1]:.0f} in the end, "
              f"{mib[2]:.0f} at most")  # fmt: skip
        for name, said in (("alone", quiet), ("beside", beside)):
            figures = ", ".join(f"{key} {said[key]}" for key in ("p50_ms", "p99_ms", "max_ms") if key in said)
            print(f"fuzz: the neighbour's answers, {name}: {figures} ({said.get('rounds')} rounds)")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
