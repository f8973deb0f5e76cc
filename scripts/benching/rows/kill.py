"""kill -9 of the process that an owner is bound to → the next one is told GRANTED."""

import subprocess
import time

from scripts.benching.bench import Bench, medians
from scripts.benching.bus_talk import asks, connect, says
from scripts.benching.own_bus import OwnBus
from scripts.benching.result import Row, Target
from scripts.benching.waiting import Reader

TARGET = Target(200.0, "measured", True, "≤ 200 ms")
RESOURCE = "machine/kill"


def measure(bench: Bench) -> list[Row]:
    rounds = []
    with bench.bus() as bus:
        heir = Reader(connect(bus.socket, "heir"))
        for number in range(3 if bench.quick else 2 * bench.rounds):
            owner = bound_owner(bus, f"owner{number}")
            try:
                heir.say(asks(f"REQUEST {RESOURCE} - bench"))
                heir.until(says("QUEUED", RESOURCE))
                heir.say(b'{"to":"supervisor","body":{"type":"WAIT","resource":"machine/kill","follow":true}}\n')
                heir.until(says("QUEUED", RESOURCE))
                begun = time.perf_counter()
                owner.kill()
                heir.until(says("GRANTED", RESOURCE))
                rounds.append({"ms": (time.perf_counter() - begun) * 1000, "floor": bench.floors.both_ms()})
            finally:
                owner.kill()
                owner.wait()
            heir.say(asks(f"RELEASE {RESOURCE}"))
            heir.until(says("RELEASED", RESOURCE))
    found = medians(rounds)
    return [
        Row(
            "kill", "kill -9 of a bound owner → the next GRANTED", found["ms"], "ms", found["floor"],
            "one fdatasync of 256 bytes + one echo", found["ms"] / found["floor"], TARGET,
            {"slowest, ms": max(each["ms"] for each in rounds)},
        )
    ]  # fmt: skip


def bound_owner(bus: OwnBus, name: str) -> "subprocess.Popen[bytes]":
    """A process that does nothing, to which an agent is bound that has the lock."""
    owner = subprocess.Popen(["sleep", "600"])
    try:
        bus.say("join", name, "--pid", str(owner.pid))
        bus.say("--as", name, "request", RESOURCE)
    except BaseException:
        owner.kill()
        owner.wait()
        raise
    return owner
