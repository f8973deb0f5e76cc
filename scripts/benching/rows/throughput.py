"""64 clients: durable pairs a second, each with a resource of its own; the floor's server under the same load."""

from scripts.benching.bench import Bench, medians
from scripts.benching.load_process import LoadProcess
from scripts.benching.pairs import CLIENTS, one_round
from scripts.benching.result import Row, Target

TARGET = Target(10_000, "measured", False, "≥ 10,000 pairs/s on two quiet cores")


def measure(bench: Bench) -> list[Row]:
    rounds = []
    with (
        bench.bus() as bus,
        LoadProcess("bus", bus.socket, CLIENTS) as load,
        LoadProcess("floor", str(bench.folder / "both.sock"), CLIENTS) as lowest,
    ):
        for _ in range(bench.rounds):
            low = one_round(lowest, [bench.floors.pid], bench.seconds)
            ours = one_round(load, [bus.pid], bench.seconds)
            rounds.append(
                {
                    "pairs": ours.a_second, "floor": low.a_second, "ratio": ours.a_second / low.a_second,
                    "cpu": ours.server_us, "client": ours.client_us, "p50": ours.p50_ms, "p99": ours.p99_ms,
                }
            )  # fmt: skip
    found = medians(rounds)
    return [
        Row(
            "pairs", f"{CLIENTS} clients, own resources: durable REQUEST + RELEASE pairs", found["pairs"], "/s",
            found["floor"], "the same load on a server that only makes durable: one fdatasync for all that came in",
            found["ratio"], TARGET,
            {
                "supervisor's CPU a pair, µs": found["cpu"], "clients' CPU a pair, µs": found["client"],
                "a pair's p50, ms": found["p50"], "a pair's p99, ms": found["p99"],
            },
        )
    ]  # fmt: skip
