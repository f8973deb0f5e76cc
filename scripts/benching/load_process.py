"""The load in a process of its own: what it costs does not count as the server's, nor as the bench's."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

from scripts.benching.bus_talk import BusTalk
from scripts.benching.fixed_talk import FloorTalk
from scripts.benching.handover_talk import HandoverTalk, Turns
from scripts.benching.launching import Failed, Helper, answer
from scripts.benching.load import Load, Talk, Wrong, drive
from scripts.benching.others import etcd, nats, postgres, redis

# What a server is spoken to with, and how: (address in its own words, number of the client).
DOORS: dict[str, Callable[[str, int], Talk]] = {
    "bus": lambda path, n: BusTalk(path, f"bench{n}", f"machine/bench{n}"),
    "floor": lambda path, n: FloorTalk(path),
    "redis": redis.RedisTalk,
    "postgres": postgres.PostgresTalk,
    "etcd": etcd.EtcdTalk,
    "nats": nats.connect,
}


def open_talks(door: str, address: str, clients: int) -> tuple[Sequence[Talk], Counter[str]]:
    """So many clients, and what they count besides pairs."""
    tally: Counter[str] = Counter()
    if door == "one-lock":
        turns = Turns(tally)
        return [HandoverTalk(address, f"lock{n}", turns) for n in range(clients)], tally
    return [DOORS[door](address, n) for n in range(clients)], tally


def serve_load(words: Sequence[str]) -> int:
    """The helper's side: `DOOR ADDRESS CLIENTS`, then a line with seconds for each run, until its input ends."""
    door, address, clients = words
    try:
        talks, tally = open_talks(door, address, int(clients))
        answer(ready=True)
        for line in sys.stdin:
            tally.clear()
            load = drive(talks, float(line))
            load.tally.update(tally)
            answer(**asdict(load))
    except (Wrong, OSError) as error:
        answer(failed=f"{type(error).__name__}: {error}")
        return 1
    return 0


class LoadProcess(Helper):
    """Clients that are connected and wait for their run.

    Args: door: of DOORS, or "one-lock". address: where the server listens, in that door's words. clients: how many.
    """

    def __init__(self, door: str, address: str, clients: int) -> None:
        super().__init__("load", door, address, str(clients))

    def run(self, seconds: float) -> Load:
        """Raises Failed."""
        return Load(**self.ask(str(seconds)))


__all__ = ["DOORS", "Failed", "LoadProcess", "serve_load"]
