"""A bus of a test's own, driven through the real command: its folder, its home, its port, its repository.

    bus(…) ──▶ Done(code, out, err), from a process that waits ready (ready_command.py)
    bus.start(…) ──▶ Running: lines as they come, signals, an end
    Follower = `bus tail -f --json` ──▶ wait for events instead of sleeping

It never waits for a number of seconds: only for an event, a line or an end, and at most WAIT_S for each.
"""

import contextlib
import http.client
import json
import os
import queue
import random
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import psutil
from tests import polling
from tests.end_to_end.ready_command import ReadyCommand

ROOT = Path(__file__).parents[2]
BUS = ROOT / ".venv" / "bin" / "bus"
PYTHON = ROOT / ".venv" / "bin" / "python"
FIXTURES = ROOT / "tests" / "fixtures"
WAIT_S = polling.WAIT_S  # for anything that must happen; only a test that fails waits so long
READY_BUS = FIXTURES / "ready_bus.py"
READY = ReadyCommand(PYTHON, READY_BUS, BUS)
Event = dict[str, Any]
Answer = TypeVar("Answer")


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Lines:
    """What a process prints, line by line as it comes."""

    def __init__(self, stream: IO[str]) -> None:
        self.seen: list[str] = []
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def until(self, says: str) -> str:
        """The next line (not looked at before) that holds this text."""
        end = time.monotonic() + WAIT_S
        while True:
            try:
                line = self._queue.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line with {says!r} within {WAIT_S:g} s, but {self.seen}") from None
            assert line is not None, f"it ended without a line with {says!r}: {self.seen}"
            if says in line:
                return line

    def first(self, within_s: float = WAIT_S) -> str:
        """The next line; "" where it ends without one."""
        return (self._queue.get(timeout=within_s) or "").rstrip("\n")

    def rest(self) -> str:
        """All of it, once the other end is closed."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), f"somebody still holds the stream open after: {self.seen}"
        return "".join(self.seen)

    def _read(self, stream: IO[str]) -> None:
        with contextlib.suppress(ValueError):
            for line in stream:
                self.seen.append(line)
                self._queue.put(line)
        self._queue.put(None)


class Running:
    """A command under way. Its exit is waited for, never assumed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.pid = process.pid
        self.out = Lines(process.stdout)
        self.err = Lines(process.stderr)

    def kill(self, signum: int = signal.SIGKILL) -> None:
        self.process.send_signal(signum)

    def end(self, within_s: float = WAIT_S) -> Done:
        """Wait for its end."""
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.process.args!r} has not ended: out {self.out.seen} err {self.err.seen}"
            ) from None
        return Done(self.process.returncode, self.out.rest(), self.err.rest())


class Bus:
    """The command `bus` in an environment of its own. Call it to run one to its end; `start` for one under way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "bus"
        self.started: list[subprocess.Popen[str]] = []
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "NO_COLOR": "1"}
        self.environment = {**kept, **quiet, "HOME": str(folder), "BUS_HOME": str(self.home)}

    def __call__(
        self,
        *words: str,
        cwd: Path | None = None,
        agent: str = "",
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> Done:
        done = READY.run(
            words, cwd or self.folder, self.environment_of(agent, env), (stdin or "").encode(), within_s=2 * WAIT_S
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *words: str, cwd: Path | None = None, agent: str = "", env: Mapping[str, str] | None = None) -> str:
        """Run one that must end with 0; its stdout."""
        done = self(*words, cwd=cwd, agent=agent, env=env)
        assert done.code == 0, f"bus {' '.join(words)}: {done}"
        return done.out

    def start(
        self,
        *words: str,
        cwd: Path | None = None,
        agent: str = "",
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> Running:
        """Start one, in a session of its own; it is killed at the end of the test if it still runs."""
        return self.launch([str(BUS), *words], cwd=cwd, env=self.environment_of(agent, env), stdin=stdin)

    def launch(
        self, argv: list[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> Running:  # fmt: skip
        """Start any program of the test's own."""
        process = subprocess.Popen(
            argv, cwd=cwd or self.folder, env=self.environment if env is None else env, text=True, stdin=stdin,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return Running(process)

    def environment_of(self, agent: str = "", env: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**self.environment, **({"BUS_AGENT": agent} if agent else {}), **(env or {})}

    def tell(self, agent: str, text: str) -> Any:
        """A message to the coordinator; its answer's body."""
        with Client(self, agent) as client:
            return client.ask("coordinator", text=text)

    def status(self, resource: str) -> Any:
        """One resource as `bus status --json` has it."""
        with Client(self) as client:
            return client.ask("supervisor", body={"type": "STATUS", "resource": resource})["resources"][0]

    def status_of(self, name: str, cwd: Path) -> Any:
        """The same, as that name means it in a worktree."""
        return self("--json", "status", name, cwd=cwd).json["resources"][0]

    def supervisor(self) -> int:
        """Its pid, from the lock file; 0 where none was ever there."""
        try:
            return int(json.loads((self.home / "bus.lock").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return 0

    def kill_supervisor(self) -> int:
        """SIGKILL, and wait for its end. The pid that it had."""
        pid = self.supervisor()
        kill(pid)
        return pid

    def up_and_dying(self, when: str, number: int, text: str = "") -> Running:
        """Start a supervisor that kills itself at an append; see tests/fixtures/dying_supervisor.py."""
        argv = [str(PYTHON), str(FIXTURES / "dying_supervisor.py"), str(self.home), when, str(number), text]
        supervisor = self.launch(argv, cwd=Path("/"))
        supervisor.out.until("READY")
        return supervisor

    def inbox(self, agent: str) -> list[Event]:
        """Unread messages, left unread."""
        with Client(self, agent) as client:
            messages: list[Event] = client.ask("supervisor", body={"type": "INBOX"})["messages"]
            return messages

    def processes(self) -> list[psutil.Process]:
        """Living processes whose command line, directory or environment holds the test's folder; not the caller."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def clean_up(self) -> list[str]:
        """Take everything down. Returns what was left all the same, in words; it is killed then."""
        for process in self.started:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGCONT)
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError, ValueError):
                        stream.close()
        begun = (self.home / "bus.db").exists() and bool(self.processes())
        if begun and self("down", "--stop-servers").out == "not running\n":  # killed by the test: servers may live
            self("up")
            self("down", "--stop-servers")
        left = [each for each in self.processes() if not ends(each.pid)]
        said = [_describe(each) for each in left]
        for each in left:
            kill(each.pid)
        return said

    def _is_ours(self, process: psutil.Process) -> bool:
        mark = str(self.folder)
        if process.pid == os.getpid():
            return False
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            traces = [*process.cmdline(), process.cwd(), process.environ().get("BUS_HOME", "")]
            if str(READY_BUS) in traces:  # its command line does not say what it became
                traces += [file.path for file in process.open_files()]
        except (psutil.Error, OSError):
            return False
        return any(mark in trace for trace in traces)


class Client:
    """One connection to the bus, as a program has it: for what a test needs beside the command, in a millisecond."""

    def __init__(self, bus: Bus, agent: str = "") -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT_S)
        self._socket.connect(str(bus.home / "bus.sock"))
        self._lines = self._socket.makefile("rb")
        self._say({"hello": {"agent": agent, "notices": False}})
        self._lines.readline()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()

    def ask(self, to: str, **content: Any) -> Any:
        """One message and its answer's body."""
        message_id = os.urandom(8).hex()
        self._say({"id": message_id, "to": to, **content})
        while line := self._lines.readline():
            frame = json.loads(line)
            if frame.get("reply_to") == message_id:
                return frame["body"]
        raise AssertionError("the bus went away")

    def _say(self, value: Event) -> None:
        self._socket.sendall(json.dumps(value).encode() + b"\n")


class Follower:
    """`bus tail -f --json` from the first event on. Its numbers must go up by one: no gap, no repeat."""

    def __init__(self, bus: Bus) -> None:
        self._process = subprocess.Popen(
            [str(BUS), "tail", "-f", "--json", "--since", "0"], cwd=bus.folder, text=True,
            env={**bus.environment, "BUS_AUTOSTART": "0"},  # it waits for a supervisor that somebody else starts
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        bus.started.append(self._process)
        self.events: list[Event] = []
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def until(
        self, type_: str, *, after: int = 0, where: Callable[[Event], bool] | None = None, **fields: Any
    ) -> Event:
        """The first event of that type with number > `after` and these fields; waits for it."""

        def found() -> Event | None:
            for event in self.events:
                if event["seq"] <= after or event["type"] != type_:
                    continue
                if all(event.get(name) == value for name, value in fields.items()) and (where is None or where(event)):
                    return event
            return None

        with self._news:
            event = self._news.wait_for(found, WAIT_S)
            assert event is not None, f"no {type_} {fields} after {after}, but {self.told()}"
            return event

    def all(self, type_: str) -> list[Event]:
        with self._news:
            return [event for event in self.events if event["type"] == type_]

    def last_seq(self) -> int:
        with self._news:
            return self.events[-1]["seq"] if self.events else 0

    def is_whole(self) -> bool:
        """Every number from 1 on, once, in order."""
        with self._news:
            return [event["seq"] for event in self.events] == list(range(1, len(self.events) + 1))

    def told(self) -> list[str]:
        """All of it in short, for a failure's message."""
        return [f"{e['seq']} {e['actor'].rpartition('/')[2]} {e['type']} {e.get('agent', '')}" for e in self.events]

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):
            for line in self._process.stdout:
                with self._news:
                    self.events.append(json.loads(line))
                    self._news.notify_all()


class Repository:
    """A real git repository with the little web server in it, and worktrees at different commits.

    The server notes each of its executions in `started` of its worktree, so that a test can count them.
    """

    def __init__(self, bus: Bus, name: str = "shop") -> None:
        self._bus = bus
        self.main = bus.folder / name
        self.main.mkdir()
        shutil.copy(FIXTURES / "web_server.py", self.main / "server.py")
        self._git(self.main, "init", "--quiet", "--initial-branch=main")
        (self.main / ".gitignore").write_text("started\n")
        self._git(self.main, "add", ".")
        self._git(self.main, "commit", "--quiet", "--message", "a shop")

    def worktrees(self, count: int) -> list[Path]:
        return [self.worktree(f"w{number}") for number in range(1, count + 1)]

    def worktree(self, name: str, folder: str = "") -> Path:
        """A worktree on a branch of that name. Args: folder: its name, where that is another."""
        place = self._bus.folder / (folder or name)
        self._git(self.main, "worktree", "add", "--quiet", "-b", name, str(place))
        (place / f"{name}.html").write_text(f"<h1>{name}</h1>\n")
        self._git(place, "add", ".")
        self._git(place, "commit", "--quiet", "--message", f"the {name}")
        return place

    def page(self, worktree: Path) -> str:
        """What a server that runs from this worktree serves."""
        return f"worktree {os.path.realpath(worktree)}\ncommit {self._git(worktree, 'rev-parse', 'HEAD').strip()}\n"

    def _git(self, place: Path, *words: str) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *identity, "-C", str(place), *words], check=True, env=self._bus.environment, text=True,
            capture_output=True, timeout=WAIT_S,
        ).stdout  # fmt: skip


def executions(worktree: Path) -> int:
    """How often the server was executed from this worktree."""
    try:
        return len((worktree / "started").read_text().splitlines())
    except FileNotFoundError:
        return 0


def server_config(
    port: int, *, options: str = "", start: str = "", bus: str = "", name: str = "server-loop", more: str = ""
) -> str:
    """A bus.toml with the little web server as one resource.

    Args:
        options: of the server (`--deaf --escape --build-s 1`). start: the whole command instead.
        bus: lines for `[bus]`. more: lines for the resource.
    """
    start = start or f"echo $$ >> started; exec python3 server.py {port} {options}".rstrip()
    return (
        f"[bus]\n{bus}\n\n[resources.{name}]\n"
        'kind = "server"\n'
        f'start = "{start}"\n'
        f'url = "http://127.0.0.1:{port}/"\n'
        f'health = "http://127.0.0.1:{port}/healthz/live"\n'
        'ready_line = "Step 3/3"\n'
        f"ports = [{port}]\n{more}\n"
    )


def fetch(port: int, path: str = "/") -> str:
    """The page that is served there now."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


_claims: list[socket.socket] = []


def free_port() -> int:
    """A TCP port that nobody has, below those that outgoing connections get, and that no other test is given.

    Between the look and the server's own bind another test might take it, of this run or of another on the machine: so
    each holds the UDP port of the same number, which nothing here uses, for as long as its process lives.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000), 200):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.ExitStack() as unless_free:
            unless_free.callback(claim.close)
            with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
                claim.bind(("127.0.0.1", port))
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                probe.bind(("::", port))
                unless_free.pop_all()
                _claims.append(claim)
                return port
    raise AssertionError("no port is free")


def ends(pid: int, within_s: float = WAIT_S) -> bool:
    """Wait for the end of a process that is not our child; a zombie has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], within_s)[0])
    finally:
        os.close(fd)


def kill(pid: int, signum: int = signal.SIGKILL) -> None:
    """SIGKILL to one process, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)
    assert ends(pid), f"pid {pid} lives {WAIT_S:g} s after signal {signum}"


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def together(works: list[Callable[[], Answer]]) -> list[Answer]:
    """Do all of them at once; their answers in order. The first failure is raised once all have ended."""
    answers: dict[int, Answer] = {}
    faults: list[BaseException] = []
    gate = threading.Barrier(len(works))

    def do(number: int, work: Callable[[], Answer]) -> None:
        try:
            gate.wait(WAIT_S)
            answers[number] = work()
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=do, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return [answers[number] for number in range(len(works))]


@contextlib.contextmanager
def stranger(port: int) -> Iterator[int]:
    """A process of somebody else that listens on a port; its pid. It is gone at the end."""
    program = (
        "import socket,sys; s=socket.socket(socket.AF_INET); s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1);"
        f"s.bind(('127.0.0.1',{port})); s.listen(); print('up',flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        ["python3", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def _describe(process: psutil.Process) -> str:
    try:
        return f"pid {process.pid}: {' '.join(process.cmdline())}"
    except psutil.Error:
        return f"pid {process.pid}"
