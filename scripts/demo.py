"""The demo: one dev server, two worktrees, three agents, and nothing but the command `bus`.

It makes a small real git repository with a small real web server and a bus of its own, plays the main job through, and
ends by checking that no process it started is left. It exits non-zero if anything it prints as proved is not so.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUS = str(ROOT / ".venv" / "bin" / "bus")
SERVER = ROOT / "tests" / "fixtures" / "web_server.py"


class Demo:
    """One run, in a folder of its own. `proved` collects what was seen to be true."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "bus"
        self.port = _free_port()
        self.proved: list[str] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
        self.environment = {**kept, "BUS_HOME": str(self.home), "NO_COLOR": "1"}
        self.started: list[subprocess.Popen[str]] = []

    def play(self) -> None:
        """The whole story."""
        one, two, three = self.worktrees()
        self.say(f"$ cat {self.home}/bus.toml")
        print((self.home / "bus.toml").read_text(), end="")
        self.bus("up")

        self.say("\n# A asks, waits, is granted, and sees its own commit")
        self.bus("--as", "A", "join", "A")
        self.bus("--as", "A", "request", "server-loop", "--for", "try the login page", "--wait", "20s", cwd=one)
        self.prove("A's grant came with a server from A's worktree", self.fetch() == _page(one))

        self.say("\n# B asks for the same server from another worktree")
        sleeper = subprocess.Popen(["sleep", "600"], text=True)  # stands for the client that B's agent runs in
        self.started.append(sleeper)
        self.bus("--as", "B", "join", "B", "--pid", str(sleeper.pid))
        queued = self.bus(
            "--as", "B", "send", "coordinator", "REQUEST", "server-loop", str(two), "check the new header, 5m", code=75
        )
        self.prove("B was QUEUED at position 1", "QUEUED server-loop position 1" in queued)
        self.bus("status")

        self.say("\n# A is polled, and says that it still needs it")
        polled = self.until("--as", "A", "inbox", "--peek", "--wait", "10s", says="STILL USING? server-loop")
        self.prove("A was asked STILL USING?", "STILL USING? server-loop" in polled)
        self.bus("--as", "A", "extend", "--for", "one more test, 1m")
        self.prove("the page is still A's", self.fetch() == _page(one))

        self.say("\n# A releases: the old server is stopped with proof, B's is started, then B hears GRANTED")
        self.bus("--as", "A", "release")
        self.bus("--as", "B", "wait", "server-loop", "--timeout", "20s")
        self.prove("the same URL now serves B's commit", self.fetch() == _page(two))

        self.say("\n# C waits; then B's process is killed with -9")
        self.bus("--as", "C", "request", "server-loop", "--for", "take over", cwd=three, code=75)
        self.say(f"$ kill -9 {sleeper.pid}")
        sleeper.send_signal(signal.SIGKILL)
        sleeper.wait()
        self.bus("--as", "C", "wait", "server-loop", "--timeout", "20s")
        self.prove("C got it, with C's commit", self.fetch() == _page(three))
        self.bus("--as", "B", "check", "server-loop", code=77)

        self.say("\n# bus run does all of it in one line")
        self.bus("--as", "C", "release")
        page = self.bus(
            "--as", "A", "run", "--resource", "server-loop", "--",
            "sh", "-c", 'curl -fsS "$BUS_RESOURCE_URL" || exec python3 -c "import os,urllib.request as u;'
            "print(u.urlopen(os.environ['BUS_RESOURCE_URL']).read().decode(),end='')\"", cwd=one,
        )  # fmt: skip
        self.prove("bus run saw its own worktree's page", page == _page(one))
        self.bus("status")
        self.say("\n# the log of all this")
        self.bus("tail", "-n", "24")
        self.nothing_left()

    def worktrees(self) -> tuple[Path, Path, Path]:
        """A repository with the server in it, and three worktrees with different commits."""
        main = self.folder / "shop"
        main.mkdir()
        shutil.copy(SERVER, main / "server.py")
        self.git(main, "init", "--quiet", "--initial-branch=main")
        self.git(main, "add", ".")
        self.git(main, "commit", "--quiet", "--message", "a shop")
        places = []
        for name in ("login", "header", "footer"):
            place = self.folder / f"shop-{name}"
            self.git(main, "worktree", "add", "--quiet", "-b", name, str(place))
            (place / f"{name}.html").write_text(f"<h1>{name}</h1>\n")
            self.git(place, "add", ".")
            self.git(place, "commit", "--quiet", "--message", f"the {name}")
            places.append(place)
        self.home.mkdir(mode=0o700)
        (self.home / "bus.toml").write_text(
            "[bus]\n"
            'poll_every = "3s"\n\n'
            "[resources.server-loop]\n"
            'kind = "server"\n'
            f'start = "python3 server.py {self.port}"\n'
            f'url = "http://127.0.0.1:{self.port}/"\n'
            f'health = "http://127.0.0.1:{self.port}/healthz/live"\n'
            'ready_line = "Step 3/3"\n'
            f"ports = [{self.port}]\n"
        )
        return places[0], places[1], places[2]

    def git(self, place: Path, *words: str) -> None:
        identity = ["-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, "-C", str(place), *words], check=True, env=self.environment)

    def bus(self, *words: str, cwd: Path | None = None, code: int = 0) -> str:
        """Run one `bus` command as an agent would; show it, its output, and its exit code if it is not 0."""
        shown = " ".join(f"'{word}'" if " " in word else word for word in words)
        where = f"({cwd.name}) " if cwd is not None else ""
        self.say(f"{where}$ bus {shown}")
        done = subprocess.run(
            [BUS, *words], cwd=cwd or self.folder, env=self.environment, text=True, capture_output=True,
            timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        print(done.stderr + done.stdout, end="")
        if done.returncode:
            print(f"[exit {done.returncode}]")
        if done.returncode != code:
            self.prove(f"exit {done.returncode} of {words[:4]} is {code}", False)
        return done.stdout

    def until(self, *words: str, says: str) -> str:
        """Run a command until its output says something, for 15 s at most."""
        end = time.monotonic() + 15
        while time.monotonic() < end:
            out = self.bus(*words)
            if says in out:
                return out
        return ""

    def fetch(self) -> str:
        """The page, without any proxy."""
        self.say(f"$ curl http://127.0.0.1:{self.port}/")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}/", timeout=5) as answer:
            page: str = answer.read().decode()
        print(page, end="")
        return page

    def nothing_left(self) -> None:
        """Take the bus down with its servers, and look for anything that was started here."""
        self.say("\n# down, and nothing is left")
        pid = json.loads(self.quiet("up", "--json"))["pid"]
        self.bus("down", "--stop-servers")
        self.prove("the port is free", _is_free(self.port))
        left = [found for found in _processes(str(self.folder)) if found != os.getpid()]
        self.prove(f"the supervisor (pid {pid}) and every process of this demo are gone {left or ''}", not left)

    def quiet(self, *words: str) -> str:
        return subprocess.run(
            [BUS, *words], env=self.environment, text=True, capture_output=True, timeout=60, check=True
        ).stdout

    def prove(self, what: str, so: bool) -> None:
        if not so:
            print(f"\nNOT SO: {what}", flush=True)
            raise SystemExit(1)
        self.proved.append(what)

    def clean_up(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        subprocess.run(
            [BUS, "down", "--stop-servers"], env=self.environment, capture_output=True, timeout=90, check=False
        )

    @staticmethod
    def say(line: str) -> None:
        print(line, flush=True)


def _page(worktree: Path) -> str:
    """What a server that runs from this worktree serves."""
    head = subprocess.run(
        ["git", "-C", str(worktree), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return f"worktree {os.path.realpath(worktree)}\ncommit {head}\n"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _processes(mark: str) -> list[int]:
    """Processes whose command line, directory or environment holds this demo's folder."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            traces = [*process.cmdline(), process.cwd(), process.environ().get("BUS_HOME", "")]
        except (psutil.Error, OSError):
            continue
        if any(mark in trace for trace in traces):
            found.append(process.pid)
    return found


def main() -> int:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="interlock-demo-") as folder:
        demo = Demo(Path(os.path.realpath(folder)))
        try:
            demo.play()
        finally:
            demo.clean_up()
    print(f"\nProved in {time.monotonic() - begun:.1f} s:")
    for what in demo.proved:
        print(f"  - {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
