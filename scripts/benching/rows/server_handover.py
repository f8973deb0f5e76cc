"""A server changes hands: RELEASE → the next GRANTED, less what the server itself takes to stop and to start."""

import http.client
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

from scripts.benching.bench import Bench, medians
from scripts.benching.bus_talk import asks, connect, says
from scripts.benching.others.server import free_port
from scripts.benching.result import Row, Target
from scripts.benching.waiting import Reader

from interlock.adapters.resources.launching import login_shell

TARGET = Target(50.0, "measured", True, "≤ 50 ms beyond the server's own stop and start")
SERVER = Path(__file__).with_name("tiny_server.py")
RESOURCE = "web"


def measure(bench: Bench) -> list[Row]:
    """Two agents hand the server to and fro, each in a worktree. Its start is its own word, its stop is measured alone.

    A login shell takes some hundred milliseconds, and never the same: a start that was measured beside the hand-over
    would have more noise than what it is taken from has to show.
    """
    port, alone, own_start = free_port(), free_port(), bench.folder / "own-start"
    worktrees = [bench.folder / name for name in ("one", "two")]
    for worktree in worktrees:
        worktree.mkdir()
    configuration = (
        f'[resources.{RESOURCE}]\nkind = "server"\nstart = {json.dumps(command(port, own_start))}\n'
        f'url = "http://127.0.0.1:{port}/"\nhealth = "http://127.0.0.1:{port}/"\nports = [{port}]\n'
    )
    rounds = []
    with bench.bus(configuration) as bus:
        readers = [Reader(connect(bus.socket, f"in-{worktree.name}")) for worktree in worktrees]
        _request(readers[0], worktrees[0])
        _follow(readers[0])
        readers[0].until(says("GRANTED", RESOURCE))
        for number in range(4 if bench.quick else 2 * bench.rounds):
            owner, heir = readers[number % 2], readers[1 - number % 2]
            _request(heir, worktrees[1 - number % 2])
            _follow(heir)
            begun = time.perf_counter()
            owner.say(asks(f"RELEASE {RESOURCE}"))
            heir.until(says("GRANTED", RESOURCE))
            whole = (time.perf_counter() - begun) * 1000
            start, stop = float(own_start.read_text()), stop_ms(alone, bench.folder / "alone")
            shell = shell_ms()
            rounds.append(
                {"whole": whole, "stop": stop, "start": start, "beyond": whole - stop - start, "shell": shell}
            )
    found = medians(rounds)
    return [
        Row(
            "server", "RELEASE → the next GRANTED, beyond the server's own stop and start", found["beyond"], "ms",
            found["stop"] + found["start"], "its start in a login shell until it listens, by its word; a stop alone",
            found["whole"] / (found["stop"] + found["start"]), TARGET,
            {
                "whole, ms": found["whole"], "its own stop, ms": found["stop"], "its own start, ms": found["start"],
                "a login shell that does nothing, ms": found["shell"],
            },
        )
    ]  # fmt: skip


def _follow(reader: Reader) -> None:
    """Once it is queued."""
    reader.until(says("QUEUED", RESOURCE))
    reader.say(b'{"to":"supervisor","body":{"type":"WAIT","resource":"%s","follow":true}}\n' % RESOURCE.encode())
    reader.until(says("QUEUED", RESOURCE))


def _request(reader: Reader, worktree: Path) -> None:
    reader.say(asks(f"REQUEST {RESOURCE} {worktree} bench"))


def stop_ms(port: int, file: Path) -> float:
    """How long it takes to end, when nobody else has to do with it."""
    server = subprocess.Popen([login_shell(), "-lc", command(port, file)], stdin=subprocess.DEVNULL)
    try:
        while not _answers(port):
            time.sleep(0.0005)
        begun = time.perf_counter()
        server.terminate()
        server.wait(10)
        return (time.perf_counter() - begun) * 1000
    finally:
        server.kill()
        server.wait()


def command(port: int, file: Path) -> str:
    return shlex.join(["exec", sys.executable, str(SERVER), str(port), str(file)])


def _answers(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except OSError:
        return False


def shell_ms() -> float:
    begun = time.perf_counter()
    subprocess.run([login_shell(), "-lc", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return (time.perf_counter() - begun) * 1000
