"""The machine and what runs on it: without that a figure says nothing."""

import datetime
import os
import platform
import sqlite3
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def describe(folder: Path) -> dict[str, str]:
    """Args: folder: where the bench writes; its file system is named."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": file_system(folder),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load before": " ".join(f"{each:.2f}" for each in os.getloadavg()),
    }


def file_system(folder: Path) -> str:
    """The kind of file system that a folder is on, "" where nobody can tell."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return ""
    above = [mount for mount in mounts if folder.is_relative_to(mount[1])]
    return max(above, key=lambda mount: len(mount[1]))[2] if above else ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str:
    """The short hash, with a + where the checkout differs from it."""

    def git(*words: str) -> str:
        try:
            done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "--short", "HEAD")
    return f"{commit}{'+' if git('status', '--porcelain', '-uno') else ''}" if commit else "no checkout"
