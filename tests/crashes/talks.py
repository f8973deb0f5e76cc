"""Conversations whose every write is a point to fail at: small, and together all that a bus keeps on disk.

    server    a web server is handed over between two worktrees; messages between agents
    lock      a queue, a `bus run` under its keeper, and `bus down` and `bus up` in the middle of a hold
    folders   agents that only have files: posts, letters, answers, what is no message
    care      snapshots, checkpoints, pruning, a backup

Clients are as patient as `bus` is: they ask again with the same id where a supervisor has gone, or says that it cannot
write. Whatever they are told is kept, and judged afterwards by promises.py.
"""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.crashes.faults import Watched
from tests.end_to_end.playground import WAIT_S, Bus, Event, Running, ends, fetch
from tests.polling import until

from interlock.adapters.cli.connection import Connection, Lost
from interlock.adapters.cli.options import Failure, Options
from interlock.adapters.paths import Home

LOCK = "machine/lock"
PATIENT = {69, 73, 74, 75, 125}  # exit codes after which a command may simply be said again
AGAIN_S = 0.05
Answer = TypeVar("Answer")


class Talk:
    """One conversation under way.

    `said` is what clients were told, in order; `no` is every sentence that was not yes.
    """

    def __init__(self, bus: Bus, watched: Watched, port: int) -> None:
        self.bus, self.watched, self.port = bus, watched, port
        self.said: list[Event] = []
        self.no: list[str] = []
        self.ran: list[str] = []  # agents whose `bus run` ended with 0
        self._open: dict[str, Connection] = {}

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()

    # --- what clients do ----------------------------------------------------------------------
    def ask(self, agent: str, text: str, *, to: str = "coordinator", id_: str = "") -> Event:
        """A message and its answer, which is no refusal."""
        return self._told(agent, to, id_ or f"{agent}-{len(self.said)}", {"text": text})

    def question(self, asker: str, kind: str, **fields: Any) -> Event:
        """A question to the bus itself, and its answer."""
        return self._told(asker, "supervisor", "", {"body": {"type": kind, **fields}})

    def wait(self, agent: str, resource: str, *, again: str = "") -> Event:
        """Ask what is true until it is GRANTED, woken by whatever comes.

        Args:
            again: what is said once more where the disk kept a server from being started: then the ticket has ended.
        """
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            body = self.question(agent, "WAIT", resource=resource, follow=True)
            if body["type"] == "GRANTED":
                return body
            if again and "PREPARE_FAILED" in body.get("why", "") and self.watched.met:
                self.no.append(body["why"])
                self.ask(agent, again)
                continue
            assert body["type"] == "QUEUED", body
            with contextlib.suppress(Lost):
                self._open[agent].receive(AGAIN_S if self.watched.failing else 2.0)
            self.watched.tick()
        raise AssertionError(f"{agent} was never granted {resource}")

    def read(self, agent: str, sender: str) -> list[str]:
        """Unread texts from that sender, acked."""
        found = self.question(agent, "INBOX")["messages"]
        letters = [each for each in found if each["from"] == sender]
        self.question(agent, "ACK", ids=[each["id"] for each in letters])
        return [each["text"] for each in letters]

    def run(self, agent: str, resource: str) -> "Run":
        """`bus run` of a command that notes its fence."""
        return Run(self, agent, resource)

    def down_and_up(self) -> None:
        """`bus down`, and a watched supervisor after it."""
        running = self.watched.running
        assert running is not None
        down = Home(self.bus.home).down
        down.touch()  # as `bus down` does; else a `bus run` that waits starts one at once, and nobody watches that
        self.patiently(lambda: self._going_down(stop_servers=False))
        self.close()
        self._open.clear()
        running.end()
        self.watched.up()
        down.unlink()  # where it fails, or dies, the next command starts another

    def down(self) -> None:
        """In order, servers and all; by then nothing fails any more."""
        self._going_down(stop_servers=True)
        self.close()
        self._open.clear()

    def patiently(self, act: Callable[[], Answer]) -> Answer:
        """Do it again for as long as the bus says no with a code that promises that this may help."""
        answers: list[Answer] = []

        def once() -> bool:
            try:
                answers.append(act())
                return True
            except Failure as failure:
                self.no.append(f"{failure.exit_code}: {failure}")
                if failure.exit_code not in PATIENT:
                    raise AssertionError(f"a client gave up: {failure.exit_code}: {failure}") from None
            except Lost:
                self.no.append("the connection was lost")
            self.watched.met_by_a_client()
            return False

        until(once, lambda: self.no[-1])
        return answers[0]

    def find(self, folder: Path, pattern: str) -> Path:
        """The first such file, once it is there. Whoever waits for files keeps a supervisor running."""
        found: list[Path] = []

        def there() -> bool:
            with contextlib.suppress(OSError):
                found.extend(sorted(folder.glob(pattern)))
            if not found:
                self._keep_going()
            return bool(found)

        until(there, lambda: f"{pattern} in {folder}")
        return found[0]

    def is_empty(self, *folders: Path) -> None:
        """All that lay there has been taken."""

        def taken() -> bool:
            left = any(path.is_file() for folder in folders for path in folder.rglob("*"))
            if left:
                self._keep_going()
            return not left

        until(taken, lambda: f"all of {folders} taken")

    # --- straight helpers ---------------------------------------------------------------------
    def _keep_going(self) -> None:
        """Who waits for files asks now and then: it keeps a supervisor running."""
        self.question("nobody", "PING")
        self.watched.tick()

    def _told(self, agent: str, to: str, id_: str, content: Event) -> Event:
        def once() -> Event:
            connection = self._connection(agent)
            body: Event = connection.ask(to, message_id=id_, **content)["body"]
            if body["type"] == "REFUSED" and body["code"] in {"JOURNAL_UNAVAILABLE", "QUEUE_FULL"}:
                raise Failure(74, body["why"])
            assert body["type"] != "REFUSED", f"{agent}: {content}: {body}"
            return body

        body = self.patiently(once)
        self.said.append({**body, "agent": agent, "asked": content, "id": id_})
        return body

    def _connection(self, agent: str) -> Connection:
        if agent not in self._open:
            connection = Connection(Options(agent, "--as", str(self.bus.home)), notices=False)
            connection.open()
            self._open[agent] = connection
        return self._open[agent]

    def _going_down(self, *, stop_servers: bool) -> None:
        connection = Connection(Options("", "", str(self.bus.home)), notices=False)
        with contextlib.suppress(Failure):
            connection.open(start=False)
            going = connection.ask("supervisor", again=False, body={"type": "DOWN", "stop_servers": stop_servers})
            connection.close()
            assert ends(going["body"]["pid"]), "it does not go down"


class Run:
    """A `bus run` under way; said again where the bus failed it before it ran."""

    def __init__(self, talk: Talk, agent: str, resource: str) -> None:
        self._talk, self._agent = talk, agent
        self._words = ("run", "--resource", resource, "--", "sh", "-c", "echo $BUS_FENCE >> ran")
        self._running = self._start()

    def is_queued(self) -> None:
        """It has its place."""

        def waits() -> bool:
            status = self._talk.question("nobody", "STATUS", resource=LOCK)["resources"][0]
            if self._agent in [each["agent"] for each in status["queue"]]:
                return True
            if self._running.process.poll() is not None:
                self._again()
            self._talk.watched.tick()
            return False

        until(waits, lambda: f"the bus run of {self._agent} in the queue")

    def end(self) -> None:
        """It has run, once."""
        for _ in range(20):
            done = self._running.end(2 * WAIT_S)
            if done.code == 0:
                self._talk.ran.append(self._agent)
                return
            self._running = self._start() if self._no(done.code, done.err) else self._running
        raise AssertionError("bus run never ran")

    def _again(self) -> None:
        done = self._running.end()
        self._no(done.code, done.err)
        self._running = self._start()

    def _no(self, code: int, err: str) -> bool:
        self._talk.no.append(f"bus run ended with {code}: {err.strip()}")
        assert code in PATIENT, f"bus run: {code}: {err}"
        self._talk.watched.met_by_a_client()
        return True

    def _start(self) -> Running:
        return self._talk.bus.start(*self._words, agent=self._agent)


# --- the conversations ------------------------------------------------------------------------
def server(talk: Talk) -> None:
    one, two = talk.bus.folder / "w1", talk.bus.folder / "w2"
    talk.ask("A", f"REQUEST web {one} the login page, 20m")
    talk.wait("A", "web", again=f"REQUEST web {one} the login page, 20m")
    assert fetch(talk.port, "/page") == "w1"
    talk.ask("B", f"REQUEST web {two} the header")
    talk.ask("A", "are you there?", to="B")
    talk.ask("A", "EXTEND web a little more, 5m")
    talk.ask("A", "RELEASE web")
    talk.wait("B", "web", again=f"REQUEST web {two} the header")
    assert fetch(talk.port, "/page") == "w2"
    talk.ask("B", "RELEASE web")


def lock(talk: Talk) -> None:
    talk.ask("A", f"REQUEST {LOCK} - first")
    for agent in ("B", "C"):
        talk.ask(agent, f"REQUEST {LOCK} - {agent} wants it too, 5m")
    talk.ask("C", f"CANCEL {LOCK}")
    talk.ask("A", f"RELEASE {LOCK}")
    fence = talk.wait("B", LOCK)["fence"]
    run = talk.run("D", LOCK)
    run.is_queued()
    talk.down_and_up()
    held = talk.question("B", "CHECK", resource=LOCK)
    assert (held["type"], held["fence"]) == ("GRANTED", fence), f"8: B held it under {fence}, and then: {held}"
    talk.ask("B", f"RELEASE {LOCK}")
    run.end()


def folders(talk: Talk) -> None:
    inboxes = talk.bus.home / "inboxes"
    folder = inboxes / "F"
    talk.patiently(lambda: _with_a_folder(talk.question("F", "JOIN", agent="F", files=True)))
    _post(folder / "tmp", folder / "out", "ask", f"REQUEST {LOCK} - by a file\n")
    talk.find(folder / "new", "answer.ask.*.json")
    talk.ask("A", "a letter", to="F")
    letter = talk.find(folder / "new", "[0-9]*.json")
    _read(folder, letter)
    _post(folder / "tmp", folder / "out", "none", b"\xff\xfe\n")
    talk.find(folder / "rejected", "none")
    talk.find(folder / "rejected", "none.why")
    _post(folder / "tmp", inboxes / "coordinator" / "new", "give", f"From: F\n\nRELEASE {LOCK}\n")
    talk.find(folder / "new", "answer.give.*.json")
    talk.is_empty(folder / "out", inboxes / "coordinator" / "sorted")


def care(talk: Talk) -> None:
    talk.question("B", "JOIN", agent="B")
    talk.ask("A", f"REQUEST {LOCK} - first")
    for number in range(8):
        talk.ask("A", f"letter {number} {'x' * 600}", to="B", id_=f"letter-{number}")
    texts = talk.read("B", "A")
    assert [each[:8] for each in texts] == [f"letter {number}" for number in range(8)], texts
    made = talk.patiently(lambda: _back_up(talk))
    Path(made["path"]).rename(talk.bus.folder / "backup.db")
    talk.down_and_up()
    talk.ask("B", f"REQUEST {LOCK} - then")
    talk.ask("A", f"RELEASE {LOCK}")
    talk.wait("B", LOCK)
    talk.ask("B", f"RELEASE {LOCK}")


TALKS: dict[str, Callable[[Talk], None]] = {each.__name__: each for each in (server, lock, folders, care)}


def prepare(talk: str, bus: Bus, port: int) -> None:
    """A home and its neighbours as that conversation wants them."""
    bus.home.mkdir(mode=0o700)
    if talk == "server":
        for name in ("w1", "w2"):
            (bus.folder / name).mkdir()
            (bus.folder / name / "page").write_text(name)
        start = f"echo $$ >> started; exec python3 -m http.server {port} --bind 127.0.0.1"
        (bus.home / "bus.toml").write_text(
            f'[resources.web]\nkind = "server"\nstart = "{start}"\nurl = "http://127.0.0.1:{port}/page"\n'
            f'health = "http://127.0.0.1:{port}/page"\nports = [{port}]\n'
        )
    if talk == "care":
        (bus.home / "bus.toml").write_text('[bus]\nkeep = "1ms"\n')


def _post(through: Path, into: Path, name: str, content: str | bytes) -> None:
    (through / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (through / name).rename(into / name)


def _read(folder: Path, letter: Path) -> None:
    assert json.loads(letter.read_text())["from"] in {"A", "coordinator"}
    letter.rename(folder / "cur" / letter.name)


def _with_a_folder(joined: Event) -> None:
    """Who was told that the folder cannot be made joins again, as the note says."""
    if not joined.get("folder"):
        raise Failure(74, joined["note"])


def _back_up(talk: Talk) -> Event:
    connection = Connection(Options("", "", str(talk.bus.home)), notices=False)
    connection.open()  # anew: what it is asked is not asked again by itself
    connection.tell("supervisor", body={"type": "BACKUP"})
    while frame := connection.receive(WAIT_S):
        body: Event = frame.get("body", {})
        if body.get("type") == "REFUSED":
            raise Failure(74, body["why"])
        if body.get("type") == "BACKED_UP":
            return body
    raise AssertionError("nobody answers: BACKUP")
