"""One client: a durable REQUEST → GRANTED beside the parts of which nobody can do without."""

import statistics
import time
from collections.abc import Callable
from functools import partial

from scripts.benching.bench import Bench, medians
from scripts.benching.bus_talk import BusTalk, read_line
from scripts.benching.process_cost import cost_of
from scripts.benching.result import Row, Target

TARGET = Target(2.0, "ratio", True, "≤ 2.0 × (fdatasync + echo)")


def measure(bench: Bench) -> list[Row]:
    """The parts and the whole in turn, one of each, so that whatever else the machine does meets all of them."""
    rounds, floors = [], bench.floors
    with bench.bus() as bus:
        for number in range(bench.rounds):
            talk = BusTalk(bus.socket, f"solo{number}", "machine/solo")  # a name has a rate of its own
            before = cost_of(bus.pid).cpu_us
            took: dict[str, list[float]] = {name: [] for name in ("sync", "echo", "both", "granted", "released")}
            parts: dict[str, Callable[[], float]] = {
                "sync": floors.sync_ms, "echo": floors.echo_ms, "both": floors.both_ms,
                "granted": partial(exchange_ms, talk, talk.take()),
                "released": partial(exchange_ms, talk, talk.give()),
            }  # fmt: skip
            for _ in range(20 if bench.quick else 200):
                for name, part in parts.items():
                    took[name].append(part())
            talk.sock.close()
            cpu_us = (cost_of(bus.pid).cpu_us - before) / len(took["both"])
            rounds.append({name: statistics.median(each) for name, each in took.items()})
            rounds[-1]["cpu"] = cpu_us
            rounds[-1]["ratio"] = rounds[-1]["granted"] / rounds[-1]["both"]
    found = medians(rounds)
    return [
        Row(
            "one-client", "one client, idle bus: durable REQUEST → GRANTED, p50", found["granted"], "ms", found["both"],
            "one fdatasync of 256 bytes + one echo, the same socket, the same loop", found["ratio"], TARGET,
            {
                "fdatasync alone, ms": found["sync"], "echo alone, ms": found["echo"],
                "RELEASE → RELEASED, ms": found["released"], "supervisor's CPU a pair, µs": found["cpu"],
            },
        )
    ]  # fmt: skip


def exchange_ms(talk: BusTalk, question: bytes) -> float:
    begun = time.perf_counter()
    talk.sock.send(question)
    answer = read_line(talk.sock)
    took = (time.perf_counter() - begun) * 1000
    talk.hear(answer)
    return took
