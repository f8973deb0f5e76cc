"""A soak: a mixed load with faults on a real bus for minutes, and what it takes up at rest before and after.

    warm up ── rest (files and database begin) ── load, the supervisor killed now and then ── rest (all else begins)
    ── load under one supervisor, everything else killed and stopped ── rest ── compare

One life of a supervisor is compared with itself; files and database over all lives.
"""

import array
import contextlib
import fcntl
import os
import signal
import termios
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.races.processes import bus, call, fork, tracebacks
from tests.races.race import CALL_S, Outcome, Race
from tests.soak.comparing import Row, compare
from tests.soak.sampler import Sample, files_of, sample

from interlock.adapters.state_files import IDLE_KEPT_S

CONFIG = """[bus]
poll_every = "2s"
claim = "5s"
time_max = "10s"
keep = "1m"
[resources.lock]
[resources.pool]
units = ["0", "1", "2"]
[resources.web]
kind = "server"
start = "exec python3 -m http.server {port} --bind 127.0.0.1"
url = "http://127.0.0.1:{port}/"
health = "http://127.0.0.1:{port}/"
ports = [{port}]
"""
MIX = ("run", "request", "hold", "files", "wait", "server", "sandbox", "talk")
KEYS = ("machine/lock", "machine/pool", "machine/web")
SAMPLE_S = 5.0
REST_S = IDLE_KEPT_S + 60.0  # the last to go are the files of idle resources
MOVED_BY_LOOKING = {"memory MB", "threads", "descriptors: socket"}  # the last look's connection closes a moment later
SAME_MIN = 5  # samples in a row, a second apart
PACE = 3.0  # rounds a second, of all clients
FOLDERS_OF_ALL_LIVES = ("files", "database", "log MB")


class Soak(Race):
    """Args: folder: empty, of its own. minutes: of load. port: for the server. clients: how many at once."""

    mix = MIX
    trouble_s = (0.5, 2.5)

    def __init__(self, folder: Path, minutes: float, seed: int, port: int, clients: int = 16) -> None:
        super().__init__(folder, clients, 0, seed)
        (self._home / "bus.toml").write_text(CONFIG.format(port=port))
        for name in ("w1", "w2"):
            (folder / name).mkdir()
        self._minutes = minutes
        self._seen: list[Sample] = []
        self._fed = self._sampled = self._visited = 0.0
        self._acts = 0
        self._watcher = self._visitor = 0
        self.rows: list[Row] = []

    def run(self) -> Outcome:
        begun = time.monotonic()
        self._prepare()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        load_s = self._minutes * 60
        try:
            call(["up"], err=self._err)
            for number in range(self._clients):
                self._start(number)
            self._load(load_s / 10)
            first = self._rest(lambda _: True)
            self._load(load_s * 3 / 10)
            self.kills_supervisor = False
            start = {name: value for name, value in self._rest(lambda _: True).items() if not _is_file(name)}
            start |= {name: value for name, value in first.items() if _is_file(name)}
            self._seen.clear()
            self._load(load_s * 6 / 10)
            end = self._rest(lambda now: all(row.ok for row in compare(start, [], now, self._kills())))
            self.rows = compare(start, self._seen, end, self._kills())
            for row in self.rows:
                if not row.ok and row.name.startswith("files: "):
                    self._broken.append(f"{row.name} are {', '.join(files_of(self._home, row.name))}")
            self._calm = True
            os.close(self._feed)
            self._play(time.monotonic() + REST_S)
        finally:
            self._stop_all()
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        told = self._told.read_text().splitlines()
        served = sum(line.startswith("enter ") for line in self._given.notes.read_text().splitlines())
        return Outcome(
            [*self._broken, *tracebacks(told)], served, self._trouble, time.monotonic() - begun, 0.0, told, self._left
        )

    def _kills(self) -> int:
        return sum(often for what, often in self._trouble.items() if "killed" in what)

    def _name(self, number: int) -> str:
        return f"c{number}"  # the successor of a dead one is the same agent's next incarnation

    # --- load and rest ------------------------------------------------------------------------
    def _load(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._fed = time.monotonic()
        while (now := time.monotonic()) < until:
            rounds = int((now - self._fed) * PACE)
            if rounds:
                self._fed += rounds / PACE
                if self._rounds_left() < self._clients:
                    os.write(self._feed, b"." * rounds)
            self._look(now)
            if now - self._visited > 2:
                self._visited = now
                self._visit()
            self._turn()

    def _rest(self, is_well: Callable[[Sample], bool]) -> Sample:
        """Nothing is asked for any more, and nobody is stopped; the sample, once that is well, or after a minute."""
        self._calm = True
        until, last, same, moves = time.monotonic() + REST_S, dict[str, float](), 0, Counter[str]()
        while time.monotonic() < until:
            self._turn()
            at_rest = not self._rounds_left() and not self._resume and not self._visitor
            now = sample(self._home) if at_rest else None
            if now is not None:
                moved = {row for row in {*now, *last} - MOVED_BY_LOOKING if now.get(row) != last.get(row)}
                same, last = 0 if moved else same + 1, now
                moves.update(moved)
                if same >= SAME_MIN and is_well(now):
                    break
            elif self._supervisor() is None:  # it was killed
                call(["status"], limit_s=CALL_S)
            signal.sigtimedwait({signal.SIGCHLD}, 1.0)
        else:
            if same < SAME_MIN:  # else the table says what did not come back
                shown = call(["status"], limit_s=CALL_S).said + call(["status", "--json"], limit_s=CALL_S).said
                why = f"{self._rounds_left()} rounds left, visitor {self._visitor}, what changed: {moves.most_common()}"
                self._broken.append(f"not at rest after {REST_S:g} s, {why}:\n{shown}{self._where()}")
        self._calm = False
        return last

    def _look(self, now: float) -> None:
        if now - self._sampled > SAMPLE_S and not self._resume:  # who is stopped may be whom it asks
            self._sampled = now
            seen = sample(self._home)
            if seen is not None:
                self._seen.append(seen)

    def _rounds_left(self) -> int:
        left = array.array("i", [0])
        fcntl.ioctl(self._given.rounds, termios.FIONREAD, left)
        return left[0]

    # --- what people do -----------------------------------------------------------------------
    def _visit(self) -> None:
        """One act of a person or of a tool that looks on, in turn; whatever it answers."""
        self._acts += 1
        acts = (
            self._back_up, self._look_on, self._reconfigure, self._watch, self._agents, self._status, self._logs,
            self._stranger,
        )  # fmt: skip
        acts[self._acts % len(acts)]()

    def _say(self, *lines: list[str]) -> None:
        """Give these commands, one after the other, in a process of its own: whoever is stopped is let go by this one.

        Where the last visitor is not through yet, nobody comes.
        """

        def visit() -> int:
            with contextlib.suppress(OSError):
                os.close(self._feed)
            for words in lines:
                call(words, err=self._err, limit_s=CALL_S)
            return 0

        if not self._visitor:
            self._visitor = fork(visit, err=self._err)

    def _other_ended(self, pid: int) -> None:
        if pid == self._visitor:
            self._visitor = 0
        if pid == self._watcher:
            self._watcher = 0

    def _back_up(self) -> None:
        copy = self._home.parent / "copy.db"
        copy.unlink(missing_ok=True)
        self._say(["backup", str(copy)])

    def _look_on(self) -> None:
        self._say(["tail", "-n", "20", "--json"])

    def _reconfigure(self) -> None:
        """A new version of the file, with one resource more or less."""
        toml = (self._home / "bus.toml").read_text()
        extra = "[resources.extra]\n"
        (self._home / "new.toml").write_text(toml.replace(extra, "") if extra in toml else toml + extra)
        (self._home / "new.toml").rename(self._home / "bus.toml")

    def _watch(self) -> None:
        """Somebody follows the log, and is killed over it by the next trouble, or at the latest by the next watcher."""
        self._unwatch()
        self._watcher = bus(["tail", "-f", "--json"], first=lambda: os.close(self._feed), err=self._err)

    def _unwatch(self) -> None:
        if self._watcher:
            os.kill(self._watcher, signal.SIGKILL)
            os.waitpid(self._watcher, 0)
            self._watcher = 0

    def _agents(self) -> None:
        self._say(["agents", "--json"])

    def _status(self) -> None:
        self._say(["status"])

    def _logs(self) -> None:
        self._say(["logs", "machine/web", "-n", "5"])

    def _stranger(self) -> None:
        """A new agent that comes once, asks for something new, and leaves."""
        name = f"guest{self._acts}"
        self._say(
            ["--as", name, "request", f"machine/of-{name}"],
            ["--as", name, "send", name, "remember the milk"],
            ["--as", name, "leave"],
        )

    def _stop_all(self) -> None:
        self._unwatch()
        if self._visitor:
            os.kill(self._visitor, signal.SIGKILL)
            os.waitpid(self._visitor, 0)
        super()._stop_all()


def _is_file(name: str) -> bool:
    return name.startswith(FOLDERS_OF_ALL_LIVES)
