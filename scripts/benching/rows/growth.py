"""Growth: 10 to 10,000 connected agents that all wait for one resource, beside a second bus with ten."""

import resource
import statistics

from scripts.benching.bench import Bench, medians
from scripts.benching.bus_talk import BusTalk
from scripts.benching.launching import Failed, Helper
from scripts.benching.own_bus import OwnBus
from scripts.benching.process_cost import cost_of
from scripts.benching.result import Row, Target
from scripts.benching.rows.latency import exchange_ms

SIZES = (10, 100, 1_000, 10_000)
SMALLEST = SIZES[0]
BESIDE = f"the same with {SMALLEST}, on a second bus"
FILES_KEPT = 300  # that the supervisor keeps for other things than connections
# Whoever has it holds it until all have joined, and says nothing meanwhile: that is no part of what is measured.
PATIENT = '[bus]\nclaim = "1h"\npoll_every = "1h"\n'
LATENCY = Target(2.0, "ratio", True, "≤ 2 × the latency with 10")
MEMORY = Target(25.0, "measured", True, "≤ 25 KB an agent")


def measure(bench: Bench) -> list[Row]:
    sizes = SIZES[:2] if bench.quick else SIZES
    rows: list[Row] = []
    with (
        bench.bus(PATIENT) as small, Helper("crowd", small.socket) as ten,
        bench.bus(PATIENT) as large, Helper("crowd", large.socket) as many,
    ):  # fmt: skip
        ten.ask(f"grow {SMALLEST}")
        empty_kb = cost_of(large.pid).resident_kb
        for size in sizes:
            why = too_many(size)
            if why or (rows and rows[-1].failed):
                rows.append(Row(f"growth-{size}", _what(size), failed=why or "it failed with fewer"))
                continue
            bench.say(f"growth: {size:,} agents")
            try:
                rows += _at(bench, size, (small, ten), (large, many), empty_kb)
            except Failed as error:
                rows.append(Row(f"growth-{size}", _what(size), failed=str(error)))
    return rows


def _at(
    bench: Bench, size: int, small: tuple[OwnBus, Helper], large: tuple[OwnBus, Helper], empty_kb: int
) -> list[Row]:  # fmt: skip
    """The two in turn, some hand-overs each."""
    before = cost_of(large[0].pid).cpu_us
    grown = large[1].ask(f"grow {size}")
    joining_us = (cost_of(large[0].pid).cpu_us - before) / grown["new"]
    times = 10 if bench.quick else 30
    rounds = []
    for number in range(bench.rounds):
        figures: dict[str, float] = {}
        for name, (bus, crowd) in (("ten", small), ("many", large)):
            before = cost_of(bus.pid).cpu_us
            figures[name] = statistics.median(crowd.ask(f"hand {times}")["took_ms"])
            figures[f"{name} cpu"] = (cost_of(bus.pid).cpu_us - before) / times
            talk = BusTalk(bus.socket, f"beside-{size}-{number}", "machine/beside")
            took = []
            for _ in range(times):
                took.append(exchange_ms(talk, talk.take()))
                exchange_ms(talk, talk.give())
            talk.sock.close()
            figures[f"{name} beside"] = statistics.median(took)
        figures["ratio"] = figures["many"] / figures["ten"]
        rounds.append(figures)
    found = medians(rounds)
    agent_kb = (cost_of(large[0].pid).resident_kb - empty_kb) / size
    rows = [
        Row(
            f"growth-{size}", _what(size), found["many"], "ms", found["ten"], BESIDE,
            found["ratio"], LATENCY if size > SMALLEST else None,  # ten beside ten is the noise
            {
                "supervisor's CPU a hand-over, µs": found["many cpu"], "with ten, µs": found["ten cpu"],
                "REQUEST → GRANTED of another resource meanwhile, ms": found["many beside"],
                "that with ten, ms": found["ten beside"],
                "joining and queueing, agents/s": grown["new"] / grown["seconds"],
                "supervisor's CPU for that, µs an agent": joining_us,
                "resident memory an agent, KB": agent_kb,
            },
        )
    ]  # fmt: skip
    if size == SIZES[-1]:
        rows.append(Row("memory", f"{size:,} connected agents: resident memory of each", agent_kb, "KB", target=MEMORY))
    return rows


def _what(size: int) -> str:
    return f"{size:,} agents wait for one resource: RELEASE → the next GRANTED, p50"


def raise_file_limit() -> None:
    """As many open files as this machine allows; children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def too_many(size: int) -> str:
    """Why a process cannot have so many connections here; empty: it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= size + FILES_KEPT:
        return ""
    return f"a process may have {hard:,} files open here (ulimit -n), and {size + FILES_KEPT:,} are needed"
