"""The load: many clients in one process, one loop, and as little work as can be: the server is what is measured.

    take ──▶ server ──▶ hear: was that the answer? ──▶ give ──▶ server ──▶ hear ──▶ a pair, and again

Every answer is compared with what it must be; anything else ends the row. It never waits for anything but its sockets.
"""

import os
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

READ_BYTES = 65536
SILENCE_S_MAX = 20.0  # a server that says nothing for so long has failed


class Wrong(Exception):
    """The server answered something else than what was asked for; the text is that answer."""


class Talk(Protocol):
    """One client of one server, on a connection of its own, which takes a thing and gives it back.

    Args: sock: connected, and whatever the protocol wants first is done. pairs: how many were taken and given back.
    """

    sock: socket.socket
    pairs: int

    def take(self) -> bytes:
        """What to send to take it."""

    def hear(self, data: bytes) -> bytes:
        """Take what came in; returns what to send next, b"" where an answer is not whole yet. Raises Wrong."""


@dataclass
class Load:
    """What a run came to. Args: seconds: it took. cpu_us: of this process. latencies_ms: of each pair, in no order.
    tally: what the clients counted besides."""

    pairs: int
    seconds: float
    cpu_us: int
    latencies_ms: list[float] = field(default_factory=list)
    tally: dict[str, int] = field(default_factory=dict)


def drive(talks: Sequence[Talk], seconds: float) -> Load:
    """Have every client take and give back as fast as it is answered, for so long; then all have given back.

    Raises:
        Wrong: an answer that is none of the expected, a connection that was closed, or silence.
    """
    selector = selectors.DefaultSelector()
    before = os.times()
    begun = time.perf_counter()
    until, under_way = begun + seconds, len(talks)
    sent_at = dict.fromkeys(range(len(talks)), begun)
    latencies: list[float] = []
    counted = sum(talk.pairs for talk in talks)
    for number, talk in enumerate(talks):
        talk.sock.setblocking(False)
        selector.register(talk.sock, selectors.EVENT_READ, (number, talk))
        talk.sock.send(talk.take())
    while under_way:
        ready = selector.select(SILENCE_S_MAX)
        if not ready:
            raise Wrong(f"nothing was heard for {SILENCE_S_MAX:.0f} s")
        for key, _ in ready:
            number, talk = key.data
            done = talk.pairs
            data = talk.sock.recv(READ_BYTES)
            if not data:
                raise Wrong("the connection was closed")
            answer = talk.hear(data)
            if talk.pairs != done:
                now = time.perf_counter()
                latencies.append((now - sent_at[number]) * 1000)
                sent_at[number] = now
                if now >= until:
                    selector.unregister(talk.sock)
                    under_way -= 1
                    continue
            if answer:
                talk.sock.send(answer)
    took = time.perf_counter() - begun
    selector.close()
    after = os.times()
    cpu_us = round((after.user - before.user + after.system - before.system) * 1e6)
    return Load(sum(talk.pairs for talk in talks) - counted, took, cpu_us, latencies)
