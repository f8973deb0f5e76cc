"""What a process has cost so far, as the kernel counts it: all of its threads, also those that have ended."""

import os
from dataclasses import dataclass
from pathlib import Path

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Args: cpu_us: user and system time. wakes: voluntary context switches. resident_kb: now."""

    cpu_us: int
    wakes: int
    resident_kb: int


def cost_of(pid: int) -> Cost:
    """Read /proc. Raises FileNotFoundError where there is no such process (or no /proc: the bench wants Linux)."""
    folder = Path("/proc", str(pid))
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    cpu_us = (int(fields[11]) + int(fields[12])) * TICK_US
    wakes = 0
    for task in (folder / "task").iterdir():
        wakes += _number(task / "status", "voluntary_ctxt_switches:")
    return Cost(cpu_us, wakes, _number(folder / "status", "VmRSS:"))


def _number(file: Path, name: str) -> int:
    """A number of a status file; 0 where the thread has just ended."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
