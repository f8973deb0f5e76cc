"""One process of the experiment: it tries to reserve when it is told to, and says whether it has.

    python -m scripts.experimenting.contender file FOLDER NAME      exclusive creation of a file, its owner in it
    python -m scripts.experimenting.contender bus  FOLDER NAME      a resource of the bus, asked for without a queue

It reads JSON lines and writes one for each. `try`: once everybody is at the barrier, which is a named pipe that opens
for all at once. `die`: it ends itself by SIGKILL: "before" its record is there, or "after".
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from interlock.client import BlockingBus, BlockingGrant, Refused

RESOURCE = "machine/experiment"
WITHOUT_EXCLUSION = "EXPERIMENT_WITHOUT_EXCLUSION" in os.environ  # a planted fault: whoever comes writes
AGAIN_S = 0.005
DIES_WITHIN_S = 0.002  # of asking the bus: before, while, or after it has granted


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FileTry:
    """The seed's: mode "x" makes the file, or says that it is there."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file, self._name = folder / "reservation", name

    def take(self, number: int, die: str) -> bool:
        try:
            with self._file.open("w" if WITHOUT_EXCLUSION else "x") as file:
                if die == "before":
                    kill_myself()
                json.dump({"owner": self._name, "round": number}, file)
        except FileExistsError:
            return False
        if die == "after":
            kill_myself()
        return True

    def give_back(self) -> None:
        self._file.unlink(missing_ok=WITHOUT_EXCLUSION)


class BusTry:
    """Ours: who is granted it is on record before anybody is told."""

    def __init__(self, folder: Path, name: str) -> None:
        self._bus = BlockingBus(agent=name, home=str(folder / "bus"))
        self._bus.__enter__()

    def take(self, number: int, die: str) -> bool:
        if die == "before":
            threading.Timer(DIES_WITHIN_S * (number % 10) / 10, kill_myself).start()
        try:
            got = self._bus.request(RESOURCE, purpose=f"round {number}", queue=False)
        except Refused:
            return False
        if die == "before":
            time.sleep(1)
        if die == "after":
            kill_myself()
        return isinstance(got, BlockingGrant)

    def give_back(self) -> None:
        self._bus.release(RESOURCE)


def main(kind: str, folder: Path, name: str) -> None:
    mine: FileTry | BusTry = FileTry(folder, name) if kind == "file" else BusTry(folder, name)
    say({"ready": name})
    for line in sys.stdin:
        told: dict[str, Any] = json.loads(line)
        if told["do"] == "give back":
            mine.give_back()
            say({"given": True})
            continue
        say({"here": True})
        with Path(told["barrier"]).open("rb"):
            pass
        until = time.monotonic() + told["for_s"]
        while not (won := mine.take(told["round"], told["die"])) and time.monotonic() < until:
            if (folder / "won").exists():
                break
            time.sleep(AGAIN_S)
        if won and told["for_s"]:
            (folder / "won").touch()
        say({"won": won, "at": time.monotonic()})


def say(words: dict[str, Any]) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
