"""The arena: a real bus under fuzz, a good neighbour beside it, and an eye on the supervisor all the while.

It must stay the same process, log no fault of its own, and keep its promises to the neighbour.
"""

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

from tests.adapters.folder_user import joined
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import PYTHON, ROOT, Bus
from tests.fuzz import commands, conversations
from tests.fuzz.conversations import Files
from tests.fuzz.posts import Post

from interlock.adapters.cli.relay import connect

TOML = '[resources.flat]\n[resources.pool]\nunits = ["0", "1"]\n'
EXPECTED_ERRORS = {"configuration_kept"}  # what an operator's file does
POSTS_A_LOOK = 100


class Arena:
    """Args: bus: that runs."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.path = str(bus.home / "bus.sock")
        self.pid = self._pid()
        self.began_kib = self.memory_kib("VmRSS")
        (bus.folder / "work").mkdir(exist_ok=True)

    # --- what is looked at ------------------------------------------------------------------------
    def memory_kib(self, which: str) -> int:
        """Of the supervisor. Args: which: VmRSS now, VmHWM the most there was."""
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(which))

    def faults(self) -> list[str]:
        """What is wrong with the supervisor as a whole."""
        found = (
            [] if self._pid() == self.pid and os.path.exists(f"/proc/{self.pid}") else ["the supervisor is another one"]
        )
        for line in (self.bus.home / "log" / "supervisor.log").read_text(errors="replace").splitlines():
            entry = json.loads(line)
            if entry.get("level") in {"error", "critical"} and entry.get("event") not in EXPECTED_ERRORS:
                found.append(f"log: {entry['event']} {entry.get('why', '')} {entry.get('exception', '')[-800:]}")
        return found

    @contextlib.contextmanager
    def neighbour(self, said: dict[str, Any]) -> Iterator[None]:
        """Two good agents work meanwhile. Args: said: takes what they report."""
        process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.fuzz.neighbour", self.path], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            out, _ = process.communicate(timeout=60)
            said.update(json.loads(out) if out else {"broken": f"it ended with {process.returncode}"})

    # --- doors ----------------------------------------------------------------------------------
    def over_socket(self, seed: str, first: int, inputs: int) -> Iterator[tuple[int, list[str]]]:
        yield from self._talks(lambda: _open(self.path), seed, first, inputs)

    def over_relay(self, seed: str, first: int, inputs: int) -> Iterator[tuple[int, list[str]]]:
        yield from self._talks(lambda: Files(connect(str(self.bus.home), "")), f"{seed}/relay", first, inputs)

    def _talks(self, door: Any, seed: str, first: int, inputs: int) -> Iterator[tuple[int, list[str]]]:
        said = 0
        for count, faults in conversations.sweep(door, seed, first, max(1, inputs // conversations.LINES)):
            said += count
            yield count, faults

    def over_folders(self, seed: str, first: int, inputs: int) -> Iterator[tuple[int, list[str]]]:
        """Posts into the coordinator's folder and into an agent's own."""
        user, coordinator = joined(self.bus, "filer"), self.bus.home / "inboxes" / "coordinator"
        both = (Post(coordinator / "new", coordinator / "tmp", f"{seed}/new/{first}"),
                Post(user.folder / "out", user.folder / "tmp", f"{seed}/out/{first}"))  # fmt: skip
        for number in range(0, inputs, 2 * POSTS_A_LOOK):
            for _ in range(POSTS_A_LOOK):
                for each in both:
                    each.put()
            left = [name for each in both for name in each.drained()]
            faults = [f"posts {number}: neither taken in nor rejected: {left[:5]}"] if left else []
            faults += [f"posts {number}: a link was written through" for each in both if each.touched()]
            yield 2 * POSTS_A_LOOK, faults

    def over_commands(self, seed: str, first: int, inputs: int) -> Iterator[tuple[int, list[str]]]:
        work = self.bus.folder / "work"
        for fault in commands.sweep(seed, first, inputs, self.bus.environment, work):
            yield 1, [fault] if fault else []

    def _pid(self) -> int:
        return int(json.loads((self.bus.home / "bus.lock").read_text())["pid"])


@contextlib.contextmanager
def arena() -> Iterator[Arena]:
    """A bus for as long as it is needed."""
    with shared_bus(TOML) as bus:
        yield Arena(bus)


def _open(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(conversations.WAIT_S)
    made.connect(path)
    return made
