"""The keeper: one launch's shim. It starts one command, reaps its whole tree, stops it when asked, says how it ended.

```text
spec ─▶ up ─▶ GO ─▶ go on disk ─▶ command started ─▶ ended ─▶ … the last descendant … ─▶ gone ─▶ exit 0
         └─ EOF, STOP, SIGTERM or no record: not_started, exit
SIGTERM, STOP (attached: EOF too) ─▶ SIGTERM to every descendant ─ stop_timeout_ms ─▶ SIGKILL until nothing is left
```

Run by path as `python -I -S keeper.py FD`: one file, the standard library only, nothing of interlock, so that it starts
fast and an upgrade under its feet cannot break it. As a sub-reaper it inherits every orphan of its tree, setsid or
double fork or not; "no child left" is therefore the proof that the tree is gone.

What it never does: execute anything before GO is on disk, leave before its tree, signal by a bare pid where the system
has pidfds, hand its control socket to the command, or die of the terminal's signals or of a full disk.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import NamedTuple

DEAF = ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTSTP", "SIGTTIN", "SIGTTOU")
INPUT_BYTES_MAX = 8 * 1024 * 1024  # a spec holds an environment, which the kernel bounds at about 6 MiB
SCAN_MIN_S, SCAN_MAX_S = 0.005, 0.25  # while stopping: a newcomer is found at once, a stuck process not at full speed
PIDFD_SIGNAL_PROCESS_GROUP = 4
FLUSH_S = 5.0  # how long a full disk is waited for once the tree is gone


class Spec(NamedTuple):
    """The parent's one line of JSON; see `launches.LaunchSpec`."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    result: str
    launch: str
    stop_timeout_ms: int
    attached: bool

    def resource(self) -> str:
        """What it runs for: where the database is lost, only the report can tell."""
        return self.env.get("BUS_RESOURCE", "")


class Row(NamedTuple):
    """One process: its parent, session (0: unknown), start (ticks, or seconds where there is no /proc), if a zombie."""

    parent: int
    session: int
    start: int
    dead: bool


def row(pid: int) -> Row | None:
    """One process from /proc; None where it cannot be read."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fields = os.read(fd, 4096).rpartition(b")")[2].split()  # from field 3 on
        finally:
            os.close(fd)
        # A leader whose other threads live on shows as Z too, with more than one thread: that one is not dead.
        parent, session, start = int(fields[1]), int(fields[3]), int(fields[19])
        return Row(parent, session, start, fields[0] in (b"Z", b"X", b"x") and int(fields[17]) <= 1)
    except (OSError, IndexError, ValueError):
        return None


def table() -> dict[int, Row]:
    """Every process that can be seen; what cannot be read now is found by the next scan."""
    try:
        if sys.platform == "linux":
            pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
            return {pid: seen for pid in pids if (seen := row(pid)) is not None}
        import subprocess  # only where there is no /proc

        command = ["ps", "-A", "-o", "pid=,ppid=,state=,lstart="]
        text = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C"}).stdout
        lines = (line.split(None, 3) for line in text.splitlines())
        return {
            int(pid): Row(int(parent), 0, int(time.mktime(time.strptime(start.strip()))), state[0] == "Z")
            for pid, parent, state, start in lines
        }
    except (OSError, ValueError):
        return {}


def descendants() -> list[tuple[int, int]]:
    """Our living descendants as (pid, start), parents first."""
    rows = table()
    children: dict[int, list[int]] = {}
    for pid, seen in rows.items():
        children.setdefault(seen.parent, []).append(pid)
    found: list[int] = [os.getpid()]
    known = set(found)
    for parent in found:  # grows while it is walked
        for pid in children.get(parent, ()):
            # A parent younger than its child is a number that was used again while the table was read.
            if pid not in known and parent in rows and rows[parent].start <= rows[pid].start:
                known.add(pid)
                found.append(pid)
    return [(pid, rows[pid].start) for pid in found[1:] if not rows[pid].dead]


def send(pid: int, start: int, *signums: int) -> None:
    """Signal one descendant if it is still the one that was seen; errors mean it has gone, or is not ours to signal.

    Being a descendant lasts: with a sub-reaper above, an orphan never leaves the tree. So its start is all that has to
    be verified, after the pidfd was opened. SIGKILL takes its whole process group where it left our session: whoever is
    in a session that a descendant made is a descendant too, and a group dies at once, however fast it forks.
    """
    with contextlib.suppress(OSError):
        if sys.platform != "linux":
            for signum in signums:
                os.kill(pid, signum)
            return
        fd = os.pidfd_open(pid)
        try:
            seen = row(pid)
            if seen is None or seen.start != start:
                return
            if signums == (signal.SIGKILL,) and seen.session not in (0, os.getsid(0)):
                with contextlib.suppress(OSError):  # before Linux 6.9 there is no such flag
                    signal.pidfd_send_signal(fd, signal.SIGKILL, None, PIDFD_SIGNAL_PROCESS_GROUP)
            for signum in signums:
                signal.pidfd_send_signal(fd, signum)
        finally:
            os.close(fd)


def identity(pid: int) -> dict[str, object] | None:
    """The fields of interlock's Identity; None where the system has no /proc, or it cannot be read."""
    machine = ""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                machine = machine or file.read().strip()
        except OSError:
            continue
    seen = row(pid)
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        namespace = os.stat("/proc/self/ns/pid").st_ino
        foreign = os.readlink("/proc/self") != str(os.getpid())  # another namespace's /proc: its numbers are not ours
    except OSError:
        return None
    if seen is None or foreign:
        return None
    name = machine or socket.gethostname()
    return {"machine": name, "boot": boot, "pid_namespace": namespace, "pid": pid, "start_ticks": seen.start}


def become_subreaper() -> bool:
    """Inherit every orphan of our tree; False where the system cannot."""
    try:
        import ctypes

        prctl, word = ctypes.CDLL(None).prctl, ctypes.c_ulong
        prctl(15, b"bus-keeper", word(0), word(0), word(0))  # PR_SET_NAME, for people who look at ps
        return bool(prctl(36, word(1), word(0), word(0), word(0)) == 0)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        return False


def without_terminal() -> bool:
    """Whether we lead a session that has no terminal: then the command gets one of its own, and `send` its groups."""
    if sys.platform == "linux" and os.getsid(0) == os.getpid():
        try:
            os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError:
            return True
    return False


def detach_output() -> None:
    """Let go of the command's stdin, stdout and stderr: whoever reads them would wait for us as well."""
    try:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in (0, 1, 2):
            os.dup2(null, fd, inheritable=False)
    except OSError:
        return


class Report:
    """Every line to the result file first, durably, then to the control socket while somebody listens."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.file = -1
        self.unwritten = b""

    def open(self, path: str) -> None:
        """Create the file, and make its name durable. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self.file = os.open(path, flags, 0o600)
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def say(self, event: str, *, tell: bool = True, **fields: object) -> bool:
        """Report one event; False if it is not durable yet (it is tried again with the next)."""
        line = json.dumps({"event": event, **fields}).encode() + b"\n"
        self.unwritten += line
        durable = self.flush()
        if tell:
            with contextlib.suppress(OSError):  # nobody listens, or reads: the file has it
                self.control.send(line)
        return durable

    def flush(self) -> bool:
        """Write what is not written; False after any error."""
        try:
            while self.unwritten:
                self.unwritten = self.unwritten[os.write(self.file, self.unwritten) :]
            os.fsync(self.file)
        except OSError:
            return False
        return True


class Keeper:
    """The loop: sleeps until a child ends, a signal or a line comes, or the next step of a stop is due."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.report = Report(control)
        self.input = b""
        self.open = True  # the other end of the control socket
        self.terminated = False
        self.leader = 0
        self.status: int | None = None  # the leader's wait status
        self.stage = ""  # "", "term", "kill"
        self.kill_at = 0.0
        self.asked: set[tuple[int, int]] = set()
        self.pause = SCAN_MIN_S
        self.wake, wake = os.pipe()
        for fd in (self.wake, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.terminate)
        # A caller that ignored SIGHUP (nohup) meant its command too.
        self.meant = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
        for name in DEAF:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def terminate(self, *_: object) -> None:
        """SIGTERM, or STOP: end before GO, stop the tree after it."""
        self.terminated = True

    def sleep(self, timeout_s: float | None) -> None:
        """Sleep until something comes, and take it in."""
        poller = select.poll()
        poller.register(self.wake, select.POLLIN)
        if self.open:
            poller.register(self.control, select.POLLIN)
        for fd, _ in poller.poll(None if timeout_s is None else timeout_s * 1000):
            if fd == self.wake:
                os.read(self.wake, 4096)
            else:
                self.receive()

    def receive(self) -> None:
        """Take in what the control socket has; its end closes it."""
        try:
            chunk = self.control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self.open = bool(chunk) and len(self.input) + len(chunk) <= INPUT_BYTES_MAX
        self.input += chunk

    def line(self) -> bytes | None:
        """The next whole line that has come in, or None."""
        line, newline, rest = self.input.partition(b"\n")
        if not newline:
            return None
        self.input = rest
        return line

    def wait_line(self) -> bytes | None:
        """The next line; None if the other end closed, or we were told to end."""
        while not self.terminated:
            if (line := self.line()) is not None:
                return line
            if not self.open:
                return None
            self.sleep(None)
        return None

    def run(self) -> int:
        """The whole life; the exit code is 0 unless something could not be read or written."""
        try:
            spec = Spec(**json.loads(self.wait_line() or b"{}"))
            self.report.open(spec.result)
        except (OSError, ValueError, TypeError) as error:
            return self.leave(f"{type(error).__name__}: {error}")
        subreaper = become_subreaper()
        if not self.report.say("up", identity=identity(os.getpid()), subreaper=subreaper, resource=spec.resource()):
            return self.leave("the result file cannot be written")
        if self.wait_line() != b"GO":
            return self.leave("")
        if not self.report.say("go", tell=False):
            return self.leave("the result file cannot be written")
        try:
            self.start(spec)
        except (OSError, ValueError, IndexError) as error:
            code = 127 if isinstance(error, FileNotFoundError | NotADirectoryError) else 126
            self.report.say("ended", code=code, signal=None, left=0, error=f"{type(error).__name__}: {error}")
        else:
            detach_output()
            self.report.say("started", leader=identity(self.leader))
            self.keep(spec.stop_timeout_ms / 1000, spec.attached)
        self.report.say("gone")
        until = time.monotonic() + FLUSH_S
        while not (durable := self.report.flush()) and time.monotonic() < until:
            time.sleep(SCAN_MAX_S)
        return 0 if durable else 1

    def leave(self, error: str) -> int:
        """End without having executed anything."""
        self.report.say("not_started", error=error)
        return 1 if error else 0

    def start(self, spec: Spec) -> None:
        """Execute the command. Raises OSError, ValueError or IndexError where that cannot be done."""
        environment = dict(spec.env)
        outer = environment.get("BUS_LAUNCH")
        environment["BUS_LAUNCH"] = f"{outer}:{spec.launch}" if outer else spec.launch
        os.environ.pop("PATH", None)
        if "PATH" in environment:
            os.environ["PATH"] = environment["PATH"]  # where posix_spawnp looks
        ignored = [s for s in signal.valid_signals() if signal.getsignal(s) is signal.SIG_IGN and s not in self.meant]
        os.chdir(spec.cwd)
        try:
            self.leader = os.posix_spawnp(
                spec.argv[0], spec.argv, environment, setsigmask=(), setsigdef=ignored, setsid=without_terminal()
            )
        finally:
            os.chdir("/")

    def keep(self, stop_timeout_s: float, attached: bool) -> None:
        """Reap until there is no child left."""
        while self.reap():
            while (line := self.line()) is not None:
                self.obey(line)
            # What a command that has ended leaves in the background goes on, and keeps what it was admitted to.
            abandoned = attached and not self.open and self.status is None
            if not self.stage and (self.terminated or abandoned):
                self.stage, self.kill_at = "term", time.monotonic() + stop_timeout_s
            self.sleep(self.strike() if self.stage else None)

    def obey(self, line: bytes) -> None:
        """STOP, KILL, or SIGNAL and a number; anything else is passed over."""
        word, _, rest = line.partition(b" ")
        if word == b"STOP":
            self.terminated = True
        elif word == b"KILL":
            self.stage = "kill"
        elif word == b"SIGNAL" and rest.isdigit() and int(rest) in signal.valid_signals():
            leader = row(self.leader) if self.status is None else None  # not reaped: its number is still its own
            if leader is not None:
                send(self.leader, leader.start, int(rest))

    def reap(self) -> bool:
        """Reap whatever has ended; False once there is no child left."""
        children = True
        ended = False
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self.leader and self.status is None:
                    ended, self.status = True, found[1]
        except ChildProcessError:
            children = False
        if ended and self.status is not None:
            code = os.waitstatus_to_exitcode(self.status)
            left = len(descendants()) if children else 0
            exited = code >= 0
            self.report.say("ended", code=code if exited else None, signal=None if exited else -code, left=left)
        return children

    def strike(self) -> float:
        """One step of the stop. Returns the seconds until the next."""
        now = time.monotonic()
        if self.stage == "term" and now >= self.kill_at:
            self.stage = "kill"
            self.asked.clear()
            with contextlib.suppress(OSError):  # where we may: a tree that forks without end leaves us little time
                os.setpriority(os.PRIO_PROCESS, 0, -20)
        living = descendants()
        newcomers = [seen for seen in living if seen not in self.asked]
        for pid, start in living if self.stage == "kill" else newcomers:
            if self.stage == "kill":
                send(pid, start, signal.SIGKILL)
            else:
                send(pid, start, signal.SIGTERM, signal.SIGCONT)
        self.asked.update(newcomers)
        self.pause = SCAN_MIN_S if newcomers else min(self.pause * 2, SCAN_MAX_S)
        return self.pause if self.stage == "kill" else max(0.0, min(self.pause, self.kill_at - now))


def main() -> int:
    """Keep the launch whose control socket is the file descriptor given."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    control.setblocking(False)
    return Keeper(control).run()


if __name__ == "__main__":
    sys.exit(main())
