"""The supervisor at rest: how often anything in it wakes up, and how much memory it takes."""

import time

from scripts.benching.bench import Bench
from scripts.benching.process_cost import cost_of
from scripts.benching.result import Row, Target

SETTLE_S = 1.0  # what follows from a start or a join has been done by then


def measure(bench: Bench) -> list[Row]:
    seconds = 2.0 if bench.quick else 15.0
    with bench.bus() as bus:
        nothing = wakes_a_second(bus.pid, seconds)
        resident_mb = cost_of(bus.pid).resident_kb / 1024
        bus.say("join", "bench", "--files")
        folder = wakes_a_second(bus.pid, seconds)
    how = "voluntary context switches of all its threads"
    return [
        Row(
            "rest", "at rest, nothing in use: wake-ups", nothing, "/s", 0.0, how, None,
            Target(0.0, "measured", True, "none"),
        ),
        Row(
            "rest-folder", "at rest, one inbox folder in use: wake-ups", folder, "/s", 0.0, how, None,
            Target(5.0, "measured", True, "≤ 5 /s"),
        ),
        Row(
            "rest-memory", "at rest: resident memory", resident_mb, "MB", None, "", None,
            Target(60.0, "measured", True, "≤ 60 MB"),
        ),
    ]  # fmt: skip


def wakes_a_second(pid: int, seconds: float) -> float:
    """Over so long, after it has settled."""
    time.sleep(SETTLE_S)
    before, begun = cost_of(pid).wakes, time.perf_counter()
    time.sleep(seconds)
    return (cost_of(pid).wakes - before) / (time.perf_counter() - begun)
