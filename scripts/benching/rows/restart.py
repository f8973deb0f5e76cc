"""Restart with a long journal: from the start of the supervisor's process until it serves, less a bare interpreter."""

import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from scripts.benching.bench import Bench
from scripts.benching.bus_talk import BusTalk
from scripts.benching.journal_maker import lengthen
from scripts.benching.own_bus import OwnBus
from scripts.benching.result import Row, Target

SIZES = (10_000, 100_000, 1_000_000)
TARGET = Target(1_000.0, "measured", True, "≤ 1 s after the interpreter is up")
READY_S_MAX = 60.0


def measure(bench: Bench) -> list[Row]:
    rows = []
    for size in SIZES[:1] if bench.quick else SIZES:
        home = bench.new_home()
        bus = OwnBus(home)
        with bus:
            BusTalk(bus.socket, "long", "machine/long0").sock.close()
        bench.say(f"restart: a journal of {size:,} rows is made")
        begun = time.perf_counter()
        lengthen(home / "bus.db", size, "long")
        made_s = time.perf_counter() - begun
        bench.say(f"restart: {size:,} rows")
        rows.append(_with(bench, bus, size, made_s))
        shutil.rmtree(home)
    return rows


def _with(bench: Bench, bus: OwnBus, size: int, made_s: float) -> Row:
    """It is killed each time, so that the next start finds the same long way since the last snapshot."""
    ready, bare, cpu = [], [], []
    for _ in range(2 if bench.quick else 5):
        bare.append(bench.floors.bare_ms())
        with started(bus) as (took_ms, cpu_ms):
            ready.append(took_ms)
            cpu.append(cpu_ms)
            with BusTalk(bus.socket, "long", "machine/long0").sock:
                pass  # it serves, and goes on where the journal ended
    floor = statistics.median(bare)
    measured = statistics.median(ready) - floor
    size_mb = (bus.home / "bus.db").stat().st_size / 2**20
    return Row(
        f"restart-{size}", f"restart after kill -9 with {size:,} journal rows: ready after the interpreter is up",
        measured, "ms", floor, "the same interpreter, `python -c pass`", measured / floor, TARGET,
        {
            "CPU until then, with the interpreter's start, ms": statistics.median(cpu), "the journal, MB": size_mb,
            "the journal was made in, s": made_s,
        },
    )  # fmt: skip


@contextmanager
def started(bus: OwnBus) -> Iterator[tuple[float, float]]:
    """A supervisor's process as `bus up` starts it: ms until it says READY, ms of CPU until then. Killed at the end."""
    reading, writing = os.pipe()
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.adapters.cli.daemon", str(bus.home), str(writing)],
        env=bus.environment, pass_fds=(writing,), start_new_session=True, cwd="/",
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writing)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        with os.fdopen(reading) as pipe:
            word = pipe.readline().strip()
        took_ms = (time.perf_counter() - begun) * 1000
        process.wait(READY_S_MAX)  # it has detached: what it did until then is counted as this child's
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        before_s = now.ru_utime + now.ru_stime - ended.ru_utime - ended.ru_stime
        if word != "READY":
            raise RuntimeError(f"the supervisor did not come up: {word}")
    except BaseException:
        process.kill()
        raise
    supervisor = psutil.Process(_pid_of(bus.home))
    try:
        times = supervisor.cpu_times()
        yield took_ms, (before_s + times.user + times.system) * 1000
    finally:
        supervisor.send_signal(signal.SIGKILL)
        psutil.wait_procs([supervisor], timeout=READY_S_MAX)


def _pid_of(home: Path) -> int:
    return int(json.loads((home / "bus.lock").read_text())["pid"])
