"""Homes that somebody has spoilt: a supervisor starts on each, or says why not, and then `--recover` helps."""

import os
from pathlib import Path

from tests.end_to_end.playground import Bus
from tests.fuzz.commands import CODES
from tests.fuzz.parsers import REPORT, toml
from tests.fuzz.values import Garbage, printable

from interlock.protocol.codes import Exit

PLACES = (
    "bus.db",
    "bus.db-wal",
    "state",
    ".numbers",
    "bus.toml",
    "trusted.json",
    "bus.lock",
    "bus.down",
    "report",
    "inbox",
)


def spoil(bus: Bus, garbage: Garbage) -> str:
    """Do one thing to what lies in a home that nobody uses. Returns what."""
    place, home = garbage.random.choice(PLACES), bus.home
    states = sorted((home / "shared-resources").glob("*.md"))
    path = {
        "state": states[0] if states else home / "shared-resources" / "a.md",
        ".numbers": home / "shared-resources" / ".numbers",
        "report": home / "launches" / f"x{garbage.random.randrange(99)}.result",
        "inbox": home / "inboxes" / "coordinator" / "new" / "x",
    }.get(place, home / place)
    data = path.read_bytes() if path.is_file() else {"report": REPORT, "bus.toml": b""}.get(place, b"{}")
    new = toml(garbage) if place == "bus.toml" else garbage.spoilt(data)
    path.parent.mkdir(exist_ok=True, parents=True)
    kind = garbage.random.randrange(8)
    if kind == 0 and place not in {"bus.toml", "bus.lock"}:
        path.unlink(missing_ok=True)
        return f"{place} is gone"
    if kind == 1 and place not in {"bus.toml", "bus.lock"}:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        return f"{place} is a FIFO"
    path.write_bytes(new)
    return f"{place} is {printable(new, 120)}"


def try_one(bus: Bus, seed: str, number: int) -> str:
    """Spoil a home, start on it. What went wrong; "" where nothing did. Nothing runs when it returns."""
    garbage = Garbage(f"{seed}/home/{number}")
    for path in (bus.home / "bus.toml", bus.home / "bus.down"):
        _remove(path)
    done = bus("up")
    if done.code != 0:
        done = bus("up", "--recover")
    bus("--as", "h", "request", f"machine/h{number % 3}", "--for", "x", "--no-wait")
    bus("down", "--stop-servers")
    if done.code != 0:
        return f"home {number}: not even a sound start: {done}"
    what = spoil(bus, garbage)
    up = bus("up")
    wrong = _wrong(up.code, up.out + up.err)
    if not wrong and up.code != 0:
        if "bus.toml" in what or "FIFO" in what:
            for each in PLACES:
                _remove(bus.home / each, only_odd=each != "bus.toml")
        again = bus("up", "--recover")
        wrong = "" if again.code == 0 else f"and --recover does not help: {again.err}"
    if not wrong:
        asked = bus("--as", "h", "status")
        wrong = _wrong(asked.code, asked.out + asked.err) or ("" if asked.code == 0 else f"status: {asked.err}")
    bus("down", "--stop-servers")
    for folder in ("launches", "shared-resources", "inboxes/coordinator/new"):
        for path in (bus.home / folder).glob("*"):
            _remove(path, only_odd=True)
    return f"home {number}: {what}: {wrong}" if wrong else ""


def _wrong(code: int, said: str) -> str:
    if "Traceback" in said:
        return f"a traceback: {said[-500:]}"
    if code not in CODES:
        return f"exit code {code}: {said[-300:]}"
    return "without a word" if code and not said.strip() else "" if code != Exit.RUN_BUS_FAILED else said


def _remove(path: Path, *, only_odd: bool = False) -> None:
    if not os.path.lexists(path) or (only_odd and path.is_file()):
        return
    if not path.is_dir():
        path.unlink()
