"""`bus run -- true`, the whole of it, beside the command alone and the two interpreters that it starts."""

from scripts.benching.bench import Bench, medians
from scripts.benching.floors import process_ms
from scripts.benching.own_bus import BUS
from scripts.benching.result import Row, Target

TARGET = Target(40.0, "measured", True, "≤ 40 ms beyond two interpreters' starts")


def measure(bench: Bench) -> list[Row]:
    """All parts in turn, one of each, so that whatever else the machine does meets all of them."""
    rounds = []
    with bench.bus() as bus:
        words = [BUS, "--as", "bench", "run", "--", "true"]
        process_ms(words, bus.environment)  # its modules are compiled
        for _ in range(3 if bench.quick else 6 * bench.rounds):
            ours, alone = process_ms(words, bus.environment), process_ms(["true"], bus.environment)
            bare = bench.floors.bare_ms()
            rounds.append({"ours": ours, "bare": bare, "alone": alone, "adds": ours - 2 * bare - alone})
    found = medians(rounds)
    return [
        Row(
            "run", "`bus run -- true`: what it adds to the command and two interpreters' starts", found["adds"], "ms",
            2 * found["bare"], "the same interpreter, `python -c pass`, twice: the wrapper's and the keeper's", None,
            TARGET, {"the whole, ms": found["ours"], "`true` alone, ms": found["alone"]},
        )
    ]  # fmt: skip
