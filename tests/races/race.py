"""A race: clients of every kind, trouble at random, and at the end the checker's word on all that they wrote.

    pipe of rounds ──▶ clients (forks) ──▶ notes ─┐
    trouble: SIGKILL, SIGSTOP, SIGCONT            ├──▶ checker
    bus log (`bus tail --since 0`) ───────────────┘

One thread, woken by SIGCHLD or by the next trouble. The supervisor is only ever started as a user sees it: by a command
that finds none.
"""

import contextlib
import heapq
import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from tests.polling import pause
from tests.races import checker
from tests.races.clients import KINDS, Client
from tests.races.clients import Race as Given
from tests.races.processes import call, fork, tracebacks, warm

LAST = "last"  # asks when all is over
LOCK, POOL = "machine/lock", "machine/pool"
UNITS = {LOCK: ("",), POOL: ("0", "1", "2")}
CONFIG = """[bus]
poll_every = "2s"
claim = "5s"
[resources.lock]
[resources.pool]
units = ["0", "1", "2"]
"""
MIX = ("run", "request", "hold", "files", "wait", "hold", "request", "hold")  # client N is the N-th, and so on
TROUBLE_S = (0.03, 0.15)  # between two troubles
END_S = 900.0  # nobody may take so long
CALL_S = 60.0  # nor an answer to one who only looks, when nobody is stopped


class Outcome(NamedTuple):
    """How a race ended.

    Args:
        faults: what broke. served: sections entered. trouble: how often of each kind. cpu_s: of all processes that
            were waited for; took_s: wall clock. told: what clients were told instead of a grant. left: processes.
    """

    faults: list[str]
    served: int
    trouble: Counter[str]
    took_s: float
    cpu_s: float
    told: list[str]
    left: list[str]


class Race:
    """Args: folder: empty, of its own, short. clients: how many at once. rounds: of all. calm: no trouble at all."""

    mix: tuple[str, ...] = MIX
    trouble_s: tuple[float, float] = TROUBLE_S
    kills_supervisor = True

    def __init__(self, folder: Path, clients: int, rounds: int, seed: int, *, calm: bool = False) -> None:
        self._home = folder / "bus"
        self._home.mkdir(mode=0o700)
        (self._home / "bus.toml").write_text(CONFIG)
        self._told = folder / "told"
        self._err = os.open(self._told, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._chance = random.Random(seed)
        self._clients = clients
        self._calm = calm
        reading, self._feed = os.pipe()
        os.write(self._feed, b"." * rounds)
        self._given = Given(self._home, folder / "notes", (LOCK, LOCK, POOL), reading, seed)
        self._running: dict[int, int] = {}  # pid → which client
        self._lives: Counter[int] = Counter()
        self._pids: dict[str, int] = {}  # agent → its process
        self._killed: set[int] = set()
        self._trouble_at = 0.0
        self._resume: list[tuple[float, int, psutil.Process]] = []  # SIGCONT at that time
        self._trouble: Counter[str] = Counter()
        self._left: list[str] = []
        self._broken: list[str] = []

    def run(self) -> Outcome:
        """To its end. Everything of it is gone then."""
        begun, cpu = time.monotonic(), _cpu_s()
        self._prepare()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            call(["up"], err=self._err)
            for number in range(self._clients):
                self._start(number)
            os.close(self._feed)
            self._play(begun + END_S)
            self._ends_free()
            log = [json.loads(line) for line in call(["tail", "--json", "--since", "0"]).said.splitlines()]
        finally:
            self._stop_all()
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.close(self._given.rounds)
            os.close(self._err)
        events = tuple(event for event in log if event.get("agent") != LAST)
        lines, said = tuple(self._given.notes.read_text().splitlines()), self._told.read_text().splitlines()
        story = checker.Story(lines, events, frozenset(self._killed), UNITS)
        self._broken += tracebacks(said)
        return Outcome(
            [*self._broken, *checker.faults(story)], checker.served(story), self._trouble, time.monotonic() - begun,
            _cpu_s() - cpu, [line for line in said if " was told: " in line], self._left,
        )  # fmt: skip

    def _prepare(self) -> None:
        """This process becomes one that only knows this bus, and has all imported."""
        for name in [name for name in os.environ if name.startswith("BUS_")]:
            del os.environ[name]
        os.environ["BUS_HOME"] = str(self._home)
        os.chdir(self._home.parent)
        warm()

    # --- clients ------------------------------------------------------------------------------
    def _name(self, number: int) -> str:
        return f"c{number}.{self._lives[number]}"

    def _start(self, number: int) -> None:
        """A client; after its death its successor, which is another agent."""
        self._lives[number] += 1
        name, kind = self._name(number), self.mix[number % len(self.mix)]

        def play() -> int:
            with contextlib.suppress(OSError):
                os.close(self._feed)  # else the rounds would never end
            return Client(self._given, name).play(kind)

        pid = self._pids[name] = fork(play, err=self._err)
        self._running[pid] = number

    def _play(self, until: float) -> None:
        while self._running:
            if time.monotonic() > until:
                waiting = sorted(map(self._name, self._running.values()))
                stands = self._where()
                shown = call(["status"], limit_s=CALL_S).said + call(["agents"], limit_s=CALL_S).said
                self._broken.append(f"{', '.join(waiting)} had no end:\n{shown}{stands}")
                return
            self._turn()

    def _turn(self) -> None:
        """Make the trouble that is due, let go on who was stopped for long enough, see who has ended; wait for more."""
        now = time.monotonic()
        if now >= self._trouble_at:
            self._trouble_at = now + self._chance.uniform(*self.trouble_s)
            if not self._calm:
                self._make_trouble(now)
        while self._resume and self._resume[0][0] <= now:
            _signal(heapq.heappop(self._resume)[2], signal.SIGCONT)
        next_at = min([self._trouble_at, *(at for at, _, _ in self._resume[:1])])
        signal.sigtimedwait({signal.SIGCHLD}, max(0.0, next_at - time.monotonic()))
        self._reap()

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._running.pop(pid, None)
            code = os.waitstatus_to_exitcode(status)
            if number is None:
                self._other_ended(pid)
                continue
            if code == -signal.SIGKILL and pid in self._killed:
                self._start(number)
            elif code:
                self._broken.append(f"client {self._name(number)} (pid {pid}) ended with {code}")

    def _other_ended(self, pid: int) -> None:
        """A child that is no client has ended."""

    # --- trouble ------------------------------------------------------------------------------
    def _make_trouble(self, now: float) -> None:
        what, supervisor = self._chance.random(), self._supervisor()
        client = psutil.Process(self._chance.choice(list(self._running)))
        if what < 0.015 and supervisor is not None and self.kills_supervisor:
            self._count("supervisor killed", _signal(supervisor, signal.SIGKILL))
        elif what < 0.04 and supervisor is not None:
            self._pause("supervisor paused", supervisor, now + self._chance.uniform(0, 0.5))
        elif what < 0.08:
            self._kill("client killed", client)
        elif what < 0.16:
            for wrapper in _children(client)[:1]:
                self._kill("wrapper or command killed", wrapper)
        elif what < 0.22:
            for inside in self._inside():
                self._kill("holder killed inside", inside)
        elif what < 0.45:
            victim = self._chance.choice([client, *_children(client)])
            self._pause("process paused", victim, now + self._chance.uniform(0, 0.3))
        elif what < 0.46:
            self._pause("client paused past two polls", client, now + 6)
        elif what < 0.50 and supervisor is None:
            call(["status"], limit_s=CALL_S)  # where only file-only agents are left, it is a user who looks in

    def _kill(self, what: str, victim: psutil.Process) -> None:
        self._killed.add(victim.pid)
        self._count(what, _signal(victim, signal.SIGKILL))

    def _pause(self, what: str, victim: psutil.Process, until: float) -> None:
        if _signal(victim, signal.SIGSTOP):
            heapq.heappush(self._resume, (until, len(self._resume) + victim.pid * 1000, victim))
            self._trouble[what] += 1

    def _where(self) -> str:
        """Where each client and each command of it stands now, as it says itself."""
        before = self._told.stat().st_size
        me = psutil.Process().cmdline()
        for pid in self._running:
            for each in [psutil.Process(pid), *_children(psutil.Process(pid))]:
                with contextlib.suppress(psutil.Error):
                    if each.cmdline() == me:  # a fork of this; what it executed does not know the signal
                        os.write(self._err, f"pid {each.pid}, a child of {each.ppid()}:\n".encode())
                        _signal(each, signal.SIGUSR1)
                        pause(0.2)  # one after the other, so that the lines do not mix
        return self._told.read_bytes()[before:].decode(errors="replace")

    def _count(self, what: str, done: bool) -> None:
        self._trouble[what] += done

    def _supervisor(self) -> psutil.Process | None:
        with contextlib.suppress(OSError, ValueError, KeyError, psutil.Error):
            pid = int(json.loads((self._home / "bus.lock").read_text())["pid"])
            process = psutil.Process(pid)
            if str(self._home) in process.cmdline():
                return process
        return None

    def _inside(self) -> list[psutil.Process]:
        """Who is inside now, if it is a client or a command of one."""
        try:
            last = self._given.notes.read_text()[-4096:].splitlines()[-1].split(" ")
        except (OSError, IndexError):
            return []
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(int(last[5])) if last[0] == "enter" and len(last) == 6 else None
            if process is not None and (
                process.pid in self._running or str(self._given.notes) in str(process.cmdline())
            ):
                return [process]
        return []

    # --- the end ------------------------------------------------------------------------------
    def _ends_free(self) -> None:
        """Whatever happened: everything is free again, nobody waits, and the next one who asks has it."""
        for key in UNITS:
            words = ["--as", LAST, "run", "--resource", key, "--wait", "60s", "--", "true"]
            if call(words, err=self._err, limit_s=2 * CALL_S).code:
                self._broken.append(f"{key} did not become free: {call(['status', key], limit_s=CALL_S).said}")
            row = json.loads(call(["status", key, "--json"], limit_s=CALL_S).said)["resources"][0]
            waits = [each for each in row["queue"] if not self._is_dead_and_absent(each)]
            if waits or row["state"] != "free":
                self._broken.append(f"{key} is {row['state']}, and there wait {waits}")

    def _is_dead_and_absent(self, waiter: dict[str, Any]) -> bool:
        """What it asked for came to the bus after its death: it counts as unknown, and keeps its place for a while."""
        return bool(waiter.get("absent")) and self._pids.get(waiter["agent"]) in self._killed

    def _stop_all(self) -> None:
        for _, _, process in self._resume:
            _signal(process, signal.SIGCONT)
        for pid in self._running:  # where it broke: else there are none
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        call(["down", "--stop-servers"], limit_s=2 * CALL_S)
        for process in psutil.wait_procs(self._ours(), timeout=10)[1]:
            with contextlib.suppress(psutil.Error):
                self._left.append(f"pid {process.pid}: {' '.join(process.cmdline())}")
            _signal(process, signal.SIGKILL)

    def _ours(self) -> list[psutil.Process]:
        return [each for each in psutil.process_iter() if each.pid != os.getpid() and self._is_ours(each)]

    def _is_ours(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE:
                traces = [*process.cmdline(), process.environ().get("BUS_HOME", "")]
                return any(str(self._home.parent) in trace for trace in traces)
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        children: list[psutil.Process] = process.children()
        return children
    return []


def _signal(process: psutil.Process, signum: int) -> bool:
    """Whether it was there to get it; never to another process of that pid."""
    with contextlib.suppress(psutil.Error):
        process.send_signal(signum)
        return True
    return False


def _cpu_s() -> float:
    """Of this process and all that it has waited for."""
    return sum(os.times()[:4])


assert set(MIX) <= set(KINDS)
