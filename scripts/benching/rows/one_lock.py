"""One lock that 64 want: hand-overs a second, who is woken for each, and how many records each takes."""

import sqlite3
import statistics
from contextlib import closing
from pathlib import Path

from scripts.benching.bench import Bench, medians
from scripts.benching.handover_talk import RESOURCE
from scripts.benching.load_process import LoadProcess
from scripts.benching.pairs import CLIENTS
from scripts.benching.process_cost import cost_of
from scripts.benching.result import Row, Target

from interlock.coordinator import records
from interlock.protocol.resource_events import HoldGranted, HoldReleased, Requested

TARGET = Target(0.5, "ratio", False, "≥ 0.5 of 1 / (fdatasync + echo)")
ONE = Target(1.0, "measured", True, "1")


def measure(bench: Bench) -> list[Row]:
    rounds = []
    with bench.bus() as bus, LoadProcess("one-lock", bus.socket, CLIENTS) as load:
        for _ in range(bench.rounds):
            low_ms = statistics.median(bench.floors.both_ms() for _ in range(100))
            before = cost_of(bus.pid).cpu_us
            ran = load.run(bench.seconds)
            rate = ran.pairs / ran.seconds
            rounds.append(
                {
                    "rate": rate, "floor": 1000 / low_ms, "ratio": rate * low_ms / 1000,
                    "cpu": (cost_of(bus.pid).cpu_us - before) / ran.pairs,
                    # The first of a round finds it free, and is answered; all others are told.
                    "wakes": ran.tally.get("GRANTED pushed", 0) / max(1, ran.tally["grants"] - 1),
                    "other": ran.tally.get("QUEUED pushed", 0) / ran.tally["grants"],
                }
            )  # fmt: skip
    found = medians(rounds)
    handed, together = count_handovers(bus.home / "bus.db")
    share = together / max(1, handed)
    return [
        Row(
            "one-lock", f"one lock, {CLIENTS} waiters: hand-overs", found["rate"], "/s", found["floor"],
            "1 / (one fdatasync of 256 bytes + one echo)", found["ratio"], TARGET,
            {"supervisor's CPU a hand-over, µs": found["cpu"], "QUEUED at 1 told, a grant": found["other"]},
        ),
        Row("one-lock-wakes", "one lock: agents told GRANTED, a grant", found["wakes"], target=ONE),
        Row(
            "one-lock-records", "one lock: records of RELEASE and the next grant", 2 - share, target=ONE,
            also={"hand-overs counted in the journal": handed},
        ),
    ]  # fmt: skip


def count_handovers(database: Path) -> tuple[int, int]:
    """Of a bus that is down: how often the lock was given back while others waited, and granted in the same record."""
    handed = together = waiting = released_in = 0
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for index, body in connection.execute("SELECT idx, body FROM record ORDER BY idx"):
            for entry in records.decode(body).entries:
                for event in entry.events if entry.actor == RESOURCE else ():
                    if isinstance(event, Requested):
                        waiting += 1
                    elif isinstance(event, HoldReleased) and waiting:
                        handed, released_in = handed + 1, index
                    elif isinstance(event, HoldGranted):
                        waiting, together, released_in = waiting - 1, together + (released_in == index), 0
    return handed, together
