"""Rounds of the experiment: many try to reserve one thing at once, some of them die of it, and others come after."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from scripts.benching.own_bus import OwnBus
from scripts.experimenting.contender import RESOURCE

from interlock.client import BlockingBus

ROOT = Path(__file__).parents[2]
Kind = Literal["file", "bus"]
STUCK_S = 1.0  # after a death somebody else has it by then, or the round is stuck
KILLS_EVERY = 20  # rounds


class Row(msgspec.Struct):
    """What came of one series of rounds.

    Args:
        one_winner: rounds in which exactly one process had it. matches: of these, where the record named that one.
        kills: processes that ended themselves while they took it, or when they had it.
        stuck: rounds after a kill in which nobody got it within STUCK_S; then it is set free by hand.
        freed_ms: after a kill, from the end of the process until another had it; the middle one, and the longest.
    """

    kind: Kind
    processes: int
    rounds: int
    one_winner: int = 0
    no_winner: int = 0
    more_winners: int = 0
    matches: int = 0
    kills: int = 0
    stuck: int = 0
    freed_ms: tuple[float, float] | None = None
    took_s: float = 0.0


class _Contender:
    def __init__(self, kind: Kind, folder: Path, name: str) -> None:
        self.name = name
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scripts.experimenting.contender", kind, str(folder), name],
            cwd=ROOT, env={**environment, "BUS_AUTOSTART": "0"}, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip

    def tell(self, **words: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The next line. Raises RuntimeError where there is none: it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} has ended with {self.process.wait()}")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class _Outcome(NamedTuple):
    winners: list[str]
    won_at: float


def series(kind: Kind, processes: int, rounds: int, folder: Path, *, kills: bool = True) -> Row:
    """Play so many rounds. Args: folder: empty. kills: before every KILLS_EVERY-th round one dies of it."""
    row, began, freed_ms = Row(kind, processes, rounds), time.monotonic(), list[float]()
    with _bus(kind, folder) as watching, _crowd(kind, folder, processes) as crowd:
        for number in range(rounds):
            victim, died_at = number // KILLS_EVERY % processes, 0.0
            if kills and number % KILLS_EVERY == KILLS_EVERY - 1:
                died_at = _dies(crowd[victim], number, folder, "before" if number // KILLS_EVERY % 2 else "after")
                row.kills += 1
            alive = [each for place, each in enumerate(crowd) if not died_at or place != victim]
            outcome = _round(alive, number, folder, STUCK_S if died_at else 0.0)
            if died_at and not outcome.winners:
                row.stuck += 1
                (folder / "reservation").unlink(missing_ok=True)  # what a person has to do
                outcome = _round(alive, number, folder, 0.0)
            elif died_at:
                freed_ms.append((outcome.won_at - died_at) * 1_000)
            row.one_winner += len(outcome.winners) == 1
            row.no_winner += not outcome.winners
            row.more_winners += len(outcome.winners) > 1
            row.matches += outcome.winners == [_on_record(kind, folder, watching)]
            for each in [each for each in crowd if each.name in outcome.winners]:
                each.tell(do="give back")
                each.hear()
            if died_at:
                crowd[victim] = _Contender(kind, folder, crowd[victim].name)
                crowd[victim].hear()
    row.freed_ms = (sorted(freed_ms)[len(freed_ms) // 2], max(freed_ms)) if freed_ms else None
    row.took_s = time.monotonic() - began
    return row


# --- straight helpers -------------------------------------------------------------------------
def _round(crowd: list[_Contender], number: int, folder: Path, for_s: float, die: str = "") -> _Outcome:
    """All of them at once."""
    barrier = folder / f"barrier-{number}"
    (folder / "won").unlink(missing_ok=True)
    os.mkfifo(barrier)
    for each in crowd:
        each.tell(do="try", barrier=str(barrier), round=number, for_s=for_s, die=die)
    for each in crowd:
        each.hear()
    with barrier.open("wb"):  # opens, for all of them, once there is one
        heard = [(each.name, each.hear()) for each in crowd]
    barrier.unlink()
    won = [(name, said["at"]) for name, said in heard if said["won"]]
    return _Outcome([name for name, _ in won], min((at for _, at in won), default=0.0))


def _dies(victim: _Contender, number: int, folder: Path, when: str) -> float:
    """It takes it alone, and dies of that; when it had ended (monotonic, s)."""
    try:
        _round([victim], number, folder, 0.0, die=when)
    except RuntimeError:
        (folder / f"barrier-{number}").unlink(missing_ok=True)
        ended_at = time.monotonic()
        assert victim.process.returncode == -signal.SIGKILL
        victim.end()
        return ended_at
    raise RuntimeError(f"{victim.name} was to die, and lives")


def _on_record(kind: Kind, folder: Path, watching: BlockingBus | None) -> str:
    """Whom the record names; "" where it cannot be read."""
    if watching is not None:
        holders = [each["agent"] for row in watching.status(RESOURCE) for each in row["holders"]]
        return holders[0] if len(holders) == 1 else ""
    try:
        return str(json.loads((folder / "reservation").read_text())["owner"])
    except (OSError, ValueError, KeyError):
        return ""


@contextmanager
def _bus(kind: Kind, folder: Path) -> Iterator[BlockingBus | None]:
    if kind == "file":
        yield None
        return
    with OwnBus(folder / "bus"), BlockingBus(agent="watching", home=str(folder / "bus")) as watching:
        yield watching


@contextmanager
def _crowd(kind: Kind, folder: Path, processes: int) -> Iterator[list[_Contender]]:
    crowd = [_Contender(kind, folder, f"c{number}") for number in range(processes)]
    try:
        for each in crowd:
            each.hear()
        yield crowd
    finally:
        for each in crowd:
            each.end()
