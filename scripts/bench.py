"""The bench: what the promises cost, as ratios beside a floor that is measured in the same run.

    one client      durable REQUEST → GRANTED, p50, over (one fdatasync of 256 bytes + one echo, same socket, same loop)
    64 clients      durable REQUEST + RELEASE pairs a second, each on a resource of its own
    one lock        hand-overs a second with 64 waiters, over 1 / (fdatasync + echo)
    bus send        whole process, over `python -c pass`
    kill -9         of a bound owner → the next GRANTED

Rounds alternate between the floor and the bus; the median of the rounds is printed.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

ROOT = Path(__file__).parents[1]
BUS = str(ROOT / ".venv" / "bin" / "bus")
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def floor_server(path: str, file: str) -> None:
    """Answer each line after one fdatasync of 256 bytes, and do nothing else."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    os.pwrite(fd, b"\0" * (1 << 20), 0)
    os.fsync(fd)
    at = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal at
        while line := await reader.readline():
            os.pwrite(fd, b"x" * 256, at)
            at = (at + 256) % (1 << 20)
            os.fdatasync(fd)
            writer.write(line)

    server = await asyncio.start_unix_server(serve, path)
    print("READY", flush=True)
    await server.serve_forever()


class Client:
    """One connection that speaks for one agent."""

    def __init__(self, pair: Pair, name: str) -> None:
        self.reader, self.writer = pair
        self.name = name

    async def ask(self, text: str, resource: str) -> dict[str, Any]:
        self.writer.write(
            json.dumps({"from": self.name, "to": "coordinator", "text": f"{text} {resource}"}).encode() + b"\n"
        )
        answer: dict[str, Any] = json.loads(await self.reader.readline())
        return answer

    async def pair(self, resource: str) -> None:
        granted = await self.ask("REQUEST", f"{resource} - bench")
        assert granted["body"]["type"] == "GRANTED", granted
        released = await self.ask("RELEASE", resource)
        assert released["body"]["type"] == "RELEASED", released


async def connect(path: str, name: str) -> Client:
    client = Client(await asyncio.open_unix_connection(path), name)
    await client.ask("REQUEST", f"machine/warm-{name} - warm")  # joins, and defines nothing that is measured
    await client.ask("RELEASE", f"machine/warm-{name}")
    return client


async def p50_ms(work: Callable[[], Awaitable[object]], times: int) -> float:
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        await work()
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took)


async def one_client(bus: str, floor: str, rounds: int) -> tuple[float, float, float]:
    """Median over rounds of (bus p50, floor p50, ratio)."""
    client = await connect(bus, "solo")
    reader, writer = await asyncio.open_unix_connection(floor)

    async def echo() -> None:
        writer.write(b"x" * 120 + b"\n")
        await reader.readline()

    async def request() -> None:
        await client.ask("REQUEST", "machine/solo - bench")

    rows = []
    for _ in range(rounds):
        low = await p50_ms(echo, 200)
        took = []
        for _ in range(200):
            begun = time.perf_counter()
            await request()
            took.append((time.perf_counter() - begun) * 1000)
            await client.ask("RELEASE", "machine/solo")
        high = statistics.median(took)
        rows.append((high, low, high / low))
    return median_row(rows)


def median_row(rows: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    first, second, third = (statistics.median(column) for column in zip(*rows, strict=True))
    return first, second, third


async def many_clients(bus: str, clients: int, seconds: float) -> float:
    """REQUEST + RELEASE pairs a second, each client on a resource of its own."""
    made = [await connect(bus, f"many{n}") for n in range(clients)]
    done, until = 0, time.perf_counter() + seconds

    async def work(client: Client, resource: str) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await client.pair(resource)
            done += 1

    begun = time.perf_counter()
    await asyncio.gather(*(work(client, f"machine/many{n}") for n, client in enumerate(made)))
    return done / (time.perf_counter() - begun)


async def one_lock(bus: str, clients: int, seconds: float) -> float:
    """Hand-overs a second on one lock on which all the others wait, each told by a push."""
    made = [await connect(bus, f"lock{n}") for n in range(clients)]
    until, handed = time.perf_counter() + seconds, 0

    async def work(client: Client) -> None:
        nonlocal handed
        client.writer.write(json.dumps({"hello": {"agent": client.name, "how": "bench"}}).encode() + b"\n")
        await client.reader.readline()
        while time.perf_counter() < until:
            client.writer.write(b'{"to":"coordinator","text":"REQUEST machine/one - bench"}\n')
            client.writer.write(b'{"to":"supervisor","body":{"type":"WAIT","resource":"machine/one","follow":true}}\n')
            while True:
                frame = json.loads(await client.reader.readline())
                if frame["body"]["type"] == "GRANTED":
                    break
            client.writer.write(b'{"to":"coordinator","text":"RELEASE machine/one"}\n')
            while json.loads(await client.reader.readline())["body"]["type"] != "RELEASED":
                pass
            handed += 1

    begun = time.perf_counter()
    tasks = [asyncio.create_task(work(client)) for client in made]
    await asyncio.wait(tasks, timeout=seconds + 2)
    took = time.perf_counter() - begun
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return handed / took


def whole_process(environment: dict[str, str], rounds: int) -> tuple[float, float, float]:
    """Median (bus send, python -c pass, ratio) in ms; the two in turn."""
    rows = []
    for _ in range(rounds + 1):
        row = []
        for words in ([BUS, "send", "coordinator", "STATUS machine/solo"], [sys.executable, "-c", "pass"]):
            begun = time.perf_counter()
            subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, check=True)
            row.append((time.perf_counter() - begun) * 1000)
        rows.append((row[0], row[1], row[0] / row[1]))
    return median_row(rows[1:])


def owner_of_the_lock(environment: dict[str, str], name: str) -> "subprocess.Popen[bytes]":
    """A process that an agent is bound to which holds the lock."""
    owner = subprocess.Popen(["sleep", "600"])
    for words in (["join", name, "--pid", str(owner.pid)], ["--as", name, "request", "machine/kill"]):
        subprocess.run([BUS, *words], env=environment, capture_output=True, check=True)
    return owner


async def after_kill(bus: str, environment: dict[str, str], rounds: int) -> float:
    """Median ms from kill -9 of a bound owner until the next one is told GRANTED."""
    took = []
    waiter = await connect(bus, "heir")
    waiter.writer.write(b'{"hello": {"agent": "heir", "how": "bench"}}\n')
    await waiter.reader.readline()
    for n in range(rounds):
        owner = await asyncio.to_thread(owner_of_the_lock, environment, f"owner{n}")
        waiter.writer.write(b'{"to":"coordinator","text":"REQUEST machine/kill - bench"}\n')
        waiter.writer.write(b'{"to":"supervisor","body":{"type":"WAIT","resource":"machine/kill","follow":true}}\n')
        for _ in range(2):
            await waiter.reader.readline()
        begun = time.perf_counter()
        owner.send_signal(signal.SIGKILL)
        while json.loads(await waiter.reader.readline())["body"]["type"] != "GRANTED":
            pass
        took.append((time.perf_counter() - begun) * 1000)
        owner.wait()
        await waiter.ask("RELEASE", "machine/kill")
    return statistics.median(took)


async def measure(bus: str, floor: str, environment: dict[str, str], quick: bool) -> None:
    """Everything, printed as it comes."""
    rounds, seconds = (3, 1.0) if quick else (9, 3.0)
    high, low, ratio = await one_client(bus, floor, rounds)
    print(f"one client: REQUEST → GRANTED p50 {high:.3f} ms, floor {low:.3f} ms, ratio {ratio:.2f}")
    pairs = [await many_clients(bus, 64, seconds) for _ in range(rounds)]
    print(f"64 clients: {statistics.median(pairs):,.0f} durable pairs/s (min {min(pairs):,.0f}, max {max(pairs):,.0f})")
    handed = [await one_lock(bus, 64, seconds) for _ in range(rounds)]
    share = statistics.median(handed) * low / 1000
    print(f"one lock, 64 waiters: {statistics.median(handed):,.0f} hand-overs/s, {share:.2f} of 1/(fdatasync + echo)")
    print(f"kill -9 of a bound owner → next GRANTED: {await after_kill(bus, environment, rounds * 2):.1f} ms")
    send, bare, ratio = whole_process(environment, 6 if quick else 20)
    print(f"bus send, whole process: {send:.1f} ms, python -c pass {bare:.1f} ms, ratio {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--floor", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.floor:
        uvloop.run(floor_server(*given.floor))
        return
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("BENCH_DIR")) as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
        environment = {**kept, "BUS_HOME": f"{folder}/bus", "BUS_AGENT": "bench"}
        subprocess.run([BUS, "up"], env=environment, check=True, stdout=subprocess.DEVNULL)
        path = f"{folder}/floor.sock"
        floor = subprocess.Popen(
            [sys.executable, __file__, "--floor", path, f"{folder}/floor.dat"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert floor.stdout is not None
            floor.stdout.readline()
            print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, {folder}")
            uvloop.run(measure(f"{folder}/bus/bus.sock", path, environment, given.quick))
        finally:
            floor.kill()
            floor.wait()
            subprocess.run([BUS, "down"], env=environment, stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    main()
