"""The load in a process of its own: what it costs does not count as the server's, nor as the bench's.

start_load ──▶ python bench.py load {door, address, clients, …} ──▶ connected: READY ──▶ GO ──▶ the result, as JSON
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from scripts.benching.bus_talk import BusTalk
from scripts.benching.load import Load, Talk, Wrong, drive

BENCH = str(Path(__file__).parents[1] / "bench.py")
Opener = Callable[[str, int], Sequence[Talk]]


def open_bus(address: str, clients: int) -> list[Talk]:
    return [BusTalk(address, f"bench{n}", f"machine/bench{n}") for n in range(clients)]


DOORS: dict[str, Opener] = {"bus": open_bus}


def serve_load(words: Sequence[str]) -> int:
    """The child's side: `DOOR ADDRESS CLIENTS`, then a line with seconds for each run, until its input ends."""
    door, address, clients = words
    try:
        talks = DOORS[door](address, int(clients))
        print("READY", flush=True)
        for line in sys.stdin:
            print(json.dumps(asdict(drive(talks, float(line)))), flush=True)
    except (Wrong, OSError) as error:
        print(json.dumps({"wrong": f"{type(error).__name__}: {error}"}), flush=True)
        return 1
    return 0


class LoadProcess:
    """Clients that are connected and wait for their run.

    Args: door: of DOORS. address: where the server listens, in that door's words. clients: how many.
    """

    def __init__(self, door: str, address: str, clients: int) -> None:
        self._words = [door, address, str(clients)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, BENCH, "load", *self._words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read("READY")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def run(self, seconds: float) -> Load:
        """Raises Wrong, with what the child met."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        result: dict[str, Any] = json.loads(self._read())
        return Load(**result)

    def _read(self, expected: str = "") -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line.startswith('{"wrong"') or not line or (expected and line != expected):
            raise Wrong(json.loads(line)["wrong"] if line.startswith("{") else f"the load ended: {line!r}")
        return line
