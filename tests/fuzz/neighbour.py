"""A good neighbour, in a process of its own: two agents that hand one lock to each other, and time every answer.

It ends when its standard input does, and prints how long answers took, and which promise was broken, as JSON.
"""

import json
import select
import sys
import time
from typing import Any

from tests.adapters.peer import Peer

PACE_S = 0.004  # between two rounds: it samples, it does not load
KEY = "machine/between-good-neighbours"


class Agent:
    """One of the two."""

    def __init__(self, path: str, name: str) -> None:
        self.peer = Peer(path)
        self.peer.hello(name)
        self.peer.ask(to="supervisor", id="w", body={"type": "WAIT", "resource": "*", "follow": True})
        self.took_ms: list[float] = []
        self._number = 0

    def ask(self, text: str) -> dict[str, Any]:
        self._number += 1
        id_ = f"{id(self):x}.{self._number}"
        begun = time.perf_counter()
        self.peer.send({"to": "coordinator", "id": id_, "text": text})
        while (frame := self.peer.receive()).get("reply_to") != id_:
            assert frame, "the session was ended"
        self.took_ms.append((time.perf_counter() - begun) * 1_000)
        return dict(frame["body"])

    def hears(self, kind: str) -> dict[str, Any]:
        while (frame := self.peer.receive())["body"]["type"] != kind:
            pass
        return dict(frame["body"])


def round_(one: Agent, two: Agent, fence: int) -> int:
    """One takes it, two waits, one gives it back, two has it. Returns the last fence."""
    first = one.ask(f"REQUEST {KEY} - a round")
    assert first["type"] == "GRANTED", first
    assert first["fence"] > fence, (first, fence)
    waits = two.ask(f"REQUEST {KEY} - a round")
    assert (waits["type"], waits["position"]) == ("QUEUED", 1), waits
    assert one.ask(f"RELEASE {KEY}")["type"] == "RELEASED"
    second = two.hears("GRANTED")
    assert second["fence"] > first["fence"], (first, second)
    assert two.ask(f"RELEASE {KEY}")["type"] == "RELEASED"
    return int(second["fence"])


def main(path: str) -> int:
    one, two, fence, rounds, broken = Agent(path, "good-one"), Agent(path, "good-two"), 0, 0, ""
    print("ready", flush=True)
    try:
        while not select.select([sys.stdin], [], [], PACE_S)[0]:
            fence = round_(one, two, fence)
            rounds += 1
    except (AssertionError, OSError, KeyError) as error:
        broken = f"{type(error).__name__}: {error}"
    took = sorted([*one.took_ms, *two.took_ms])
    print(json.dumps({"rounds": rounds, "broken": broken, **percentiles(took)}), flush=True)
    return 1 if broken else 0


def percentiles(took_ms: list[float]) -> dict[str, float]:
    """Args: took_ms: in order."""
    if not took_ms:
        return {}
    at = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
    return {name: round(took_ms[min(len(took_ms) - 1, int(len(took_ms) * part))], 2) for name, part in at.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
