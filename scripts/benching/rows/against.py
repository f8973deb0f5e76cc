"""Others, asked for the same: a durable take-and-give-back by 64 clients, each of a thing of its own."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import ModuleType

from scripts.benching.bench import Bench, medians
from scripts.benching.load_process import LoadProcess
from scripts.benching.others import etcd, nats, postgres, redis
from scripts.benching.others.server import NotInstalled
from scripts.benching.pairs import CLIENTS, one_round
from scripts.benching.result import Row, Target

OTHERS: dict[str, ModuleType] = {"redis": redis, "postgres": postgres, "etcd": etcd, "nats": nats}
Loads = dict[str, tuple[LoadProcess, Callable[[], list[int]]]]  # name → its clients, and its server's processes
TARGET = Target(2.0, "ratio", False, "the bus ≥ 2 × it")


def measure(bench: Bench, names: Sequence[str]) -> list[Row]:
    """All are up together, and have their rounds in turn: what does not work meanwhile only waits."""
    rows: list[Row] = []
    loads: Loads = {}
    with ExitStack() as up:
        for name in names:
            try:
                loads[name] = _opened(bench, name, up)
            except NotInstalled as error:
                rows.append(Row(f"against-{name}", _what(name), failed=f"not installed ({error})"))
            except Exception as error:  # somebody else's program: whatever it does, the other rows are still worth it
                rows.append(Row(f"against-{name}", _what(name), failed=f"{type(error).__name__}: {error}"))
        rows += _beside(bench, loads, up) if loads else []
    return sorted(rows, key=lambda row: list(names).index(row.name.removeprefix("against-")))


def _opened(bench: Bench, name: str, up: ExitStack) -> tuple[LoadProcess, Callable[[], list[int]]]:
    """A server that is up, and the load that is connected to it."""
    bench.say(f"against: {OTHERS[name].NAME}")
    folder = bench.folder / name
    folder.mkdir()
    server, address = OTHERS[name].start(folder)
    up.enter_context(server)
    return up.enter_context(LoadProcess(name, address, CLIENTS)), server.pids


def _beside(bench: Bench, loads: Loads, up: ExitStack) -> list[Row]:
    bus = up.enter_context(bench.bus())
    every: Loads = {"bus": (up.enter_context(LoadProcess("bus", bus.socket, CLIENTS)), lambda: [bus.pid]), **loads}
    rounds: list[dict[str, float]] = []
    for _ in range(bench.rounds):
        figures: dict[str, float] = {}
        for name, (load, pids) in every.items():
            each = one_round(load, pids(), bench.seconds)
            figures |= {name: each.a_second, f"{name} cpu": each.server_us, f"{name} p50": each.p50_ms}
        rounds.append(figures)
    found = medians(rounds)
    return [
        Row(
            f"against-{name}", _what(name), found["bus"], "/s", found[name], OTHERS[name].OPERATION,
            found["bus"] / found[name], TARGET,
            {
                "its CPU a pair, µs": found[f"{name} cpu"], "the bus's, µs": found["bus cpu"],
                "its p50 of a pair, ms": found[f"{name} p50"], "the bus's, ms": found["bus p50"],
            },
        )
        for name in loads
    ]  # fmt: skip


def _what(name: str) -> str:
    return f"{CLIENTS} clients, the bus's pairs beside {OTHERS[name].NAME}'s"
