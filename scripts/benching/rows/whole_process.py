"""`bus send`, the whole process, beside an interpreter that does nothing."""

from scripts.benching.bench import Bench, medians
from scripts.benching.floors import process_ms
from scripts.benching.own_bus import BUS
from scripts.benching.result import Row, Target

TARGET = Target(2.5, "ratio", True, "≤ 2.5 × `python -c pass`")


def measure(bench: Bench) -> list[Row]:
    rounds = []
    with bench.bus() as bus:
        words = [BUS, "--as", "bench", "send", "coordinator", "STATUS machine/none"]
        process_ms(words, bus.environment)  # its modules are compiled
        for _ in range(3 if bench.quick else 6 * bench.rounds):
            ours, bare = process_ms(words, bus.environment), bench.floors.bare_ms()
            rounds.append({"ours": ours, "bare": bare, "ratio": ours / bare})
    found = medians(rounds)
    return [
        Row(
            "send", "`bus send`, the whole process", found["ours"], "ms", found["bare"],
            "the same interpreter, `python -c pass`", found["ratio"], TARGET,
        )
    ]  # fmt: skip
