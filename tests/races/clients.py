"""The clients of a race: one agent each, one process each, and each its own way to the bus.

Each takes rounds until there are none left: it says that it asks, gets what it asked for, is inside for a moment,
leaves, and gives it back. All of that goes into the notes, which `checker.py` reads. One that is told no asks again.
"""

import errno
import json
import os
import random
import select
import shlex
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from tests.fixtures.sandboxed import deny
from tests.polling import pause
from tests.races.processes import Ended, call

SERVER = "machine/web"
NOT_YET, LOST, UNAVAILABLE, BUS_FAILED = 75, 77, 69, 125
INSIDE_S = 0.01  # at most
TRIES_MAX = 60  # of one that is told that no supervisor answers …
AGAIN_S = 0.5  # … so far apart: a sandbox cannot start one, it waits until somebody outside does


class Race(NamedTuple):
    """What all clients know.

    Args:
        home: BUS_HOME. notes: the file that sections write to. keys: what to ask for, one of them a round.
        rounds: end of a pipe with a byte for each round that is left. seed: of the race.
    """

    home: Path
    notes: Path
    keys: tuple[str, ...]
    rounds: int
    seed: int


class Client:
    """One agent. Args: name: of the agent; this process is its life."""

    def __init__(self, race: Race, name: str) -> None:
        self.race = race
        self.name = name
        self.chance = random.Random(f"{race.seed} {name}")
        self._notes = os.open(race.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._confine: Callable[[], object] = lambda: None  # done first in each command's process
        self._fence = 0  # of its last grant: a letter may tell of one that is over
        os.environ.update(BUS_AGENT=name, BUS_HOME=str(race.home))

    def play(self, kind: str) -> int:
        """Take rounds until there are none."""
        begin, one = KINDS[kind]
        begin(self)
        while os.read(self.race.rounds, 1):
            one(self, self.chance.choice(self.race.keys))
        return 0

    def note(self, *words: object) -> None:
        os.write(self._notes, (" ".join(map(str, words)) + "\n").encode())

    def ask(self, key: str, *pids: int) -> None:
        """Args: pids: whose death ends the wish; this process's, where none is given."""
        self.note("ask", key, self.name, ",".join(map(str, pids or (os.getpid(),))))

    def inside(self, key: str, unit: str, fence: int) -> None:
        """The critical section."""
        self.note("enter", key, unit or "-", fence, self.name, os.getpid())
        select.select([], [], [], self.chance.uniform(0, INSIDE_S))  # what it does there takes a moment
        self.note("leave", key, unit or "-", fence, self.name, os.getpid())

    # --- the kinds ----------------------------------------------------------------------------
    def join(self) -> None:
        """As an agent client does whose process is known: it is this one."""
        self._surely(["join", "--pid", str(os.getpid())])

    def join_with_folder(self) -> None:
        self._surely(["join", "--pid", str(os.getpid()), "--files"])

    def join_in_sandbox(self) -> None:
        """Its commands may not use Unix sockets: they go through files."""
        self.join()
        self._confine = lambda: deny("socket", errno.EPERM)

    def serve(self, key: str) -> None:
        """A server, from one of two worktrees, so that it is handed over most of the time."""
        del key
        place = self.race.home.parent / self.chance.choice(["w1", "w2"])
        self._step_by_step(SERVER, ["request", SERVER, "--worktree", str(place), "--wait", "60s", "--json"])

    def talk(self, key: str) -> None:
        """Messages to itself and to another agent, some read and some not."""
        del key
        other = f"c{self.chance.randrange(8)}"
        self._call(["send", self.chance.choice([self.name, other]), "a word", "--as", self.name])
        self._call(["inbox"])

    def run(self, key: str) -> None:
        """`bus run`: the section is a command; its wrapper's death is the end of it."""
        where = shlex.quote(str(self.race.notes))
        said = f"{key} ${{BUS_UNIT:--}} $BUS_FENCE {self.name} $$"
        section = f"echo enter {said} >>{where}; sleep 0.00{self.chance.randrange(1, 10)}; echo leave {said} >>{where}"
        me = os.getpid()
        for _ in range(TRIES_MAX):
            done = call(
                ["run", "--resource", key, "--", "sh", "-c", section], first=lambda: self.ask(key, os.getpid(), me)
            )
            if done.code != BUS_FAILED:  # it says why, and a user would say the same again
                break
            self.said_no("run failed")
        if done.code:
            self.note("gone", key, self.name, done.pid, done.code)

    def request(self, key: str) -> None:
        """`bus request --wait`, `bus release`."""
        self._step_by_step(key, ["request", key, "--wait", "60s", "--json"])

    def wait(self, key: str) -> None:
        """`bus request`, then `bus wait` until it comes, as an agent does whose tool calls are short."""
        self._step_by_step(key, ["request", key, "--json"])

    def hold(self, key: str) -> None:
        """A Python program."""
        from interlock.client import BlockingBus, BusError, Lost

        for _ in range(TRIES_MAX):
            self.ask(key)
            try:
                with BlockingBus(agent=self.name) as bus, bus.hold(key) as grant:
                    self.inside(key, grant.unit, grant.fence)
                return
            except Lost:  # revoked, at the very end; it was inside
                return
            except BusError as error:
                self.said_no(str(error))

    def files(self, key: str) -> None:
        """Nothing but files: REQUEST into out/, GRANTED in new/."""
        folder = self.race.home / "inboxes" / self.name
        self.ask(key)
        self._post(folder, f"REQUEST {key} - a race, 1m\n")
        body = self._letter(folder, "GRANTED", key)
        self.inside(key, body.get("unit", ""), body["fence"])
        self._post(folder, f"RELEASE {key} fence={body['fence']}\n")
        self._letter(folder, "RELEASED", key)

    # --- helpers ------------------------------------------------------------------------------
    def _step_by_step(self, key: str, words: list[str]) -> None:
        code = UNAVAILABLE
        for _ in range(TRIES_MAX):
            self.ask(key)
            code, said, _ = self._call(words)
            while code == NOT_YET:
                code, said, _ = self._call(["wait", key, "--timeout", "5s", "--json"])
            if code == 0:
                body = json.loads(said.splitlines()[-1])["body"]
                self.inside(key, body.get("unit", ""), body["fence"])
                self._surely(["release", key], {0, LOST})
                return
            self.said_no(f"{words[0]} {code} {said}", code)
        self.note("gone", key, self.name, os.getpid(), code)

    def said_no(self, why: str, code: int = 0) -> None:
        os.write(2, f"{self.name} was told: {why}\n".encode())
        if code == UNAVAILABLE:
            pause(AGAIN_S)

    def _call(self, words: list[str]) -> Ended:
        return call(words, first=self._confine)

    def _surely(self, words: list[str], done: Collection[int] = (0,)) -> None:
        """A command that is killed is given again."""
        for _ in range(TRIES_MAX):
            if (code := self._call(words).code) in done:
                return
            self.said_no(f"{words[0]} {code}", code)
        raise AssertionError(f"{self.name} could not {words[0]}")

    def _post(self, folder: Path, text: str) -> None:
        name = os.urandom(6).hex()
        (folder / "tmp" / name).write_text(text)
        (folder / "tmp" / name).rename(folder / "out" / name)

    def _letter(self, folder: Path, kind: str, key: str) -> Any:
        """The body of the next message of that type; everything that comes is read, by moving it to cur/."""
        while True:
            for path in sorted((folder / "new").iterdir()):
                body = json.loads(path.read_text())["body"]
                path.rename(folder / "cur" / path.name)
                old = body["type"] == "GRANTED" and body["fence"] <= self._fence
                if body["type"] == kind and body.get("key", key) == key and not old:
                    self._fence = max(self._fence, body["fence"])
                    return body
                if body["type"] == "REFUSED":
                    self.said_no(body["why"])
                    if kind == "RELEASED":
                        return body
                    self._post(folder, f"REQUEST {key} - a race, 1m\n")
            pause()


KINDS: dict[str, tuple[Callable[[Client], None], Callable[[Client, str], None]]] = {
    "run": (Client.join, Client.run),
    "request": (Client.join, Client.request),
    "wait": (Client.join, Client.wait),
    "hold": (lambda _: None, Client.hold),
    "files": (Client.join_with_folder, Client.files),
    "sandbox": (Client.join_in_sandbox, Client.request),
    "server": (Client.join, Client.serve),
    "talk": (Client.join, Client.talk),
}
