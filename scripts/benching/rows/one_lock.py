"""One lock that 64 want: hand-overs a second, who is woken for each, and how many records each takes."""

import sqlite3
import statistics
from pathlib import Path

from scripts.benching.bench import Bench, medians
from scripts.benching.handover_talk import RESOURCE
from scripts.benching.load_process import LoadProcess
from scripts.benching.pairs import CLIENTS
from scripts.benching.process_cost import cost_of
from scripts.benching.result import Row, Target

from interlock.coordinator import records
from interlock.protocol.resource_events import HoldGranted, HoldReleased

TARGET = Target(0.5, "ratio", False, "≥ 0.5 of 1 / (fdatasync + echo); one wake a grant; one record a hand-over")


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
    return [
        Row(
            "one-lock", f"one lock, {CLIENTS} waiters: hand-overs", found["rate"], "/s", found["floor"],
            "1 / (one fdatasync of 256 bytes + one echo)", found["ratio"], TARGET,
            {
                "wakes a grant": found["wakes"], "QUEUED at 1 told, a grant": found["other"],
                "release and next grant in one record, of all hand-overs": together / max(1, handed),
                "records a hand-over": 2 - together / max(1, handed), "supervisor's CPU a hand-over, µs": found["cpu"],
            },
        )
    ]  # fmt: skip


def count_handovers(database: Path) -> tuple[int, int]:
    """Of a bus that is down: how many grants of the lock followed a release, and how many of these in one record."""
    handed = together = 0
    released_in = 0
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        for index, body in connection.execute("SELECT idx, body FROM record ORDER BY idx"):
            for entry in records.decode(body).entries:
                for event in entry.events if entry.actor == RESOURCE else ():
                    if isinstance(event, HoldReleased):
                        released_in = index
                    elif isinstance(event, HoldGranted) and released_in:
                        handed, together = handed + 1, together + (released_in == index)
                        released_in = 0
    connection.close()
    return handed, together
