"""Pairs: durable REQUEST + RELEASE of many clients, each with a resource of its own, and what a pair costs."""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.benching.load_process import LoadProcess
from scripts.benching.own_bus import OwnBus
from scripts.benching.process_cost import cost_of

CLIENTS = 64


@dataclass(frozen=True)
class Pairs:
    """One round. Args: server_us, client_us: CPU for each pair."""

    a_second: float
    server_us: float
    client_us: float
    p50_ms: float
    p99_ms: float


def one_round(load: LoadProcess, pids: Sequence[int], seconds: float) -> Pairs:
    """Args: pids: of the server's processes."""
    before = sum(cost_of(pid).cpu_us for pid in pids)
    ran = load.run(seconds)
    cpu_us = sum(cost_of(pid).cpu_us for pid in pids) - before
    ordered = sorted(ran.latencies_ms)
    return Pairs(
        ran.pairs / ran.seconds, cpu_us / ran.pairs, ran.cpu_us / ran.pairs, statistics.median(ordered),
        ordered[len(ordered) * 99 // 100],
    )  # fmt: skip


def command(words: Sequence[str]) -> int:
    """The `pairs` command: this one row alone, for whoever works on the hot path."""
    parser = argparse.ArgumentParser(prog="bench pairs", description=__doc__)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(words)
    with (
        tempfile.TemporaryDirectory(prefix="ilb-") as folder,
        OwnBus(Path(folder, "bus")) as bus,
        LoadProcess("bus", bus.socket, given.clients) as load,
    ):
        rounds = []
        for _ in range(given.rounds):
            rounds.append(one_round(load, [bus.pid], given.seconds))
            print(_line(rounds[-1]), flush=True)
    fields = Pairs.__dataclass_fields__
    print("median: " + _line(Pairs(*(statistics.median(getattr(each, name) for each in rounds) for name in fields))))
    return 0


def _line(each: Pairs) -> str:
    return (
        f"{each.a_second:9,.0f} pairs/s   supervisor {each.server_us:6.1f} µs CPU a pair   clients "
        f"{each.client_us:5.1f} µs   p50 {each.p50_ms:6.2f} ms   p99 {each.p99_ms:6.2f} ms"
    )
