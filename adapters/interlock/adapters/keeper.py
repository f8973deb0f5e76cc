"""The keeper: one launch's shim. It starts one command, reaps its whole tree, stops it when asked, says how it ended.

```text
spec ─▶ up ─▶ GO ─▶ go on disk ─▶ command started ─▶ ended ─▶ … the last descendant … ─▶ gone ─▶ exit 0
         └─ EOF, STOP, SIGTERM or no record: not_started, exit
SIGTERM, STOP (attached: EOF too) ─▶ SIGTERM to every descendant ─ stop_timeout_ms ─▶ SIGKILL until nothing is left
in a window:  command ◀─▶ a terminal of its own ◀─ keeper ─▶ the window, and the log      window closed ─▶ as SIGTERM
```

Run by path as `python -I -S keeper.py FD`, in a window without FD: one file, the standard library only, nothing of
interlock, so that it starts fast and an upgrade under its feet cannot break it. As a sub-reaper it inherits every
orphan of its tree, setsid or double fork or not; "no child left" is therefore the proof that the tree is gone. What is
spared by name (daemons that outlive builds) is neither counted nor signalled, and told of.

What it never does: execute anything before GO is on disk, leave before its tree, signal by a bare pid where the system
has pidfds, hand its control socket to the command, or die of the terminal's signals or of a full disk.
"""

import contextlib
import json
import os
import re
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
SPARED_LOOK_S = 1.0  # a program shows that it is a daemon by no signal: while only such may be left, we look
LAST_WORDS_S = 1.0  # how long the last output of a tree that has gone is waited for
UNSEEN_BYTES_MAX = 256 * 1024  # output kept for a window that does not take it; the log has all of it
PARTIAL_BYTES_MAX = 4096  # an escape sequence that is longer is none
# What is meant for the screen (colours, titles, cursor) is not for the log; neither is the \r of a terminal's \r\n.
ESCAPE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-OQ-WYZ\\`a-~])|\r+(?=\n)"
)
PARTIAL = re.compile(rb"(?:\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)|\r+)\Z")


class Spec(NamedTuple):
    """The parent's one line of JSON; see `launches.LaunchSpec`."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    result: str
    launch: str
    stop_timeout_ms: int
    attached: bool
    log: str = ""
    spare: tuple[list[str], ...] = ()

    def resource(self) -> str:
        """What it runs for: where the database is lost, only the report can tell."""
        return self.env.get("BUS_RESOURCE", "")


class Row(NamedTuple):
    """One process: its parent, session (0: unknown), start (ticks, or seconds where there is no /proc), if a zombie.

    And the name of what it executes, empty where that is not known: it changes with exec.
    """

    parent: int
    session: int
    start: int
    dead: bool
    name: bytes = b""


def row(pid: int) -> Row | None:
    """One process from /proc; None where it cannot be read."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            head, _, tail = os.read(fd, 4096).rpartition(b")")
            fields = tail.split()  # from field 3 on
        finally:
            os.close(fd)
        # A leader whose other threads live on shows as Z too, with more than one thread: that one is not dead.
        parent, session, start = int(fields[1]), int(fields[3]), int(fields[19])
        dead = fields[0] in (b"Z", b"X", b"x") and int(fields[17]) <= 1
        return Row(parent, session, start, dead, head.partition(b"(")[2])
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


def descendants() -> dict[int, Row]:
    """Our living descendants, parents first."""
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
    return {pid: rows[pid] for pid in found[1:] if not rows[pid].dead}


def words_of(pid: int) -> list[str]:
    """A process's command line; empty where it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read(65536).rstrip(b"\0").split(b"\0")]
    except OSError:
        return []


def matches(pid: int, spare: tuple[list[str], ...]) -> bool:
    """Whether a process is a program to spare: by its file's or its own name, and the arguments that are asked for."""
    words, names = words_of(pid), set()
    with contextlib.suppress(OSError):
        names.add(os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")))
    names |= {os.path.basename(word) for word in words[:1]}
    given = {form for word in words[1:] for form in (word, os.path.basename(word))}
    return any(name in names and given.issuperset(rest) for name, *rest in spare)


def send(pid: int, start: int, *signums: int, alone: bool = False) -> None:
    """Signal one descendant if it is still the one that was seen; errors mean it has gone, or is not ours to signal.

    Being a descendant lasts: with a sub-reaper above, an orphan never leaves the tree. So its start is all that has to
    be verified, after the pidfd was opened. SIGKILL takes its whole process group where it left our session: whoever is
    in a session that a descendant made is a descendant too, and a group dies at once, however fast it forks.

    Args: alone: never its group: somebody who is to be spared may be in it.
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
            if signums == (signal.SIGKILL,) and not alone and seen.session not in (0, os.getsid(0)):
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


def for_log(partial: bytes, chunk: bytes) -> tuple[bytes, bytes]:
    """Output without what is meant for the screen: the text, and a last sequence that is not whole yet.

    Args: partial: what the last call kept. chunk: what came; empty: nothing comes any more.
    """
    text = ESCAPE.sub(b"", partial + chunk)
    found = PARTIAL.search(text) if chunk else None
    cut = found.start() if found is not None and len(text) - found.start() <= PARTIAL_BYTES_MAX else len(text)
    return text[:cut], text[cut:]


class Window:
    """The window that we run in (fds 0 to 2), the command's own terminal, and the log that has what it prints.

    Closing the window ends our terminal, not the command's: it is stopped in order, and its last words reach the log.
    """

    def __init__(self, log: str) -> None:
        """Make the terminal. Raises OSError."""
        import termios
        import tty

        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.master, self.slave = os.openpty()
        self.closed = False  # the window
        self.silent = False  # nobody has the command's terminal open any more
        self.partial = b""
        self.unseen = b""
        try:
            tty.setraw(0)  # keys go to the command's terminal as they are, Ctrl-C too
        except termios.error as error:
            raise OSError(*error.args) from None
        for fd in (0, self.master):
            os.set_blocking(fd, False)
        self.resize()
        signal.signal(signal.SIGWINCH, self.resize)
        signal.signal(signal.SIGHUP, self.close)

    def close(self, *_: object) -> None:
        """The window has been closed."""
        self.closed, self.unseen = True, b""

    def resize(self, *_: object) -> None:
        """Give the command's terminal the size that the window has now."""
        import fcntl
        import termios

        with contextlib.suppress(OSError):
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))

    def actions(self) -> list[tuple[int, int, str, int, int] | tuple[int, int, int]]:
        """What the command does first, in a session of its own: opening that terminal makes it the session's."""
        opened = (os.POSIX_SPAWN_OPEN, 0, os.ttyname(self.slave), os.O_RDWR, 0)
        return [opened, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]

    def register(self, poller: select.poll) -> None:
        """Ask to be woken by output, keys, room for what was not shown yet, or the window's end."""
        if not self.closed:
            poller.register(0, select.POLLIN | (select.POLLOUT if self.unseen else 0))
        if not self.silent:
            poller.register(self.master, select.POLLIN)

    def take(self, fd: int) -> None:
        """Carry on what came on one of both sides."""
        if fd == self.master:
            self.copy_output()
            return
        self.show(b"")
        try:
            keys = os.read(0, 4096)
        except BlockingIOError:
            return
        except OSError:
            keys = b""
        if not keys:
            self.close()
        with contextlib.suppress(OSError):  # whoever does not read what is typed has not seen it
            os.write(self.master, keys)

    def copy_output(self) -> bool:
        """Some of what the command printed, into the window and the log; False where there is nothing now."""
        try:
            chunk = os.read(self.master, 65536)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.silent = True
        self.show(chunk)
        text, self.partial = for_log(self.partial, chunk)
        with contextlib.suppress(OSError):  # a full disk costs words of the log, nothing else
            while text:
                text = text[os.write(self.log, text) :]
        return bool(chunk)

    def show(self, chunk: bytes) -> None:
        """Print into the window; what a stopped tmux does not take is kept for a while."""
        if self.closed:
            return
        self.unseen = (self.unseen + chunk)[-UNSEEN_BYTES_MAX:]
        with contextlib.suppress(OSError):
            while self.unseen:
                self.unseen = self.unseen[os.write(0, self.unseen) :]

    def drain(self, timeout_s: float) -> None:
        """Take in what has been printed so far; waits for more until nobody can print any more, or the time is over."""
        until = time.monotonic() + timeout_s
        poller = select.poll()
        poller.register(self.master, select.POLLIN)
        while not self.silent and (left_s := until - time.monotonic()) > 0:
            if not self.copy_output() and not poller.poll(left_s * 1000):
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
        self.window: Window | None = None
        self.spare: tuple[list[str], ...] = ()
        self.leader = 0
        self.session = 0  # the leader's
        self.status: int | None = None  # the leader's wait status
        self.stage = ""  # "", "term", "kill"
        self.kill_at = 0.0
        self.asked: set[tuple[int, int, bytes]] = set()
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
        if self.window is not None:
            self.window.register(poller)
        for fd, _ in poller.poll(None if timeout_s is None else timeout_s * 1000):
            if fd == self.wake:
                os.read(self.wake, 4096)
            elif fd == self.control.fileno():
                self.receive()
            elif self.window is not None:
                self.window.take(fd)
        if self.window is not None and self.window.closed and not self.terminated:
            self.terminated = True
            self.report.say("closed", tell=False)

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
            self.window = Window(spec.log) if spec.log else None
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
            if self.window is None:
                detach_output()
            self.report.say("started", leader=identity(self.leader))
            self.keep(spec.stop_timeout_ms / 1000, spec.attached)
        if self.window is not None:
            self.window.drain(LAST_WORDS_S)
        spared = [{"pid": pid, "command": " ".join(words_of(pid))[:200]} for pid in self.divide()[1]]
        self.report.say("gone", spared=spared)
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
        actions = []
        if self.window is not None:
            environment.setdefault("TERM", os.environ.get("TERM", "screen"))
            actions = self.window.actions()
        apart = self.window is not None or without_terminal()
        self.spare = tuple(spec.spare)
        os.chdir(spec.cwd)
        try:
            self.leader = os.posix_spawnp(
                spec.argv[0], spec.argv, environment,
                file_actions=actions, setsigmask=(), setsigdef=ignored, setsid=apart,
            )  # fmt: skip
        finally:
            os.chdir("/")
            if self.window is not None:
                os.close(self.window.slave)  # the command has it open now: its last close is the end of all output
        self.session = self.leader if apart else os.getsid(0)

    def keep(self, stop_timeout_s: float, attached: bool) -> None:
        """Reap until there is no child left, or none but those that are spared."""
        while self.reap() and not self.only_spared():
            while (line := self.line()) is not None:
                self.obey(line)
            # What a command that has ended leaves in the background goes on, and keeps what it was admitted to.
            abandoned = attached and not self.open and self.status is None
            if not self.stage and (self.terminated or abandoned):
                self.stage, self.kill_at = "term", time.monotonic() + stop_timeout_s
            look_s = SPARED_LOOK_S if self.spare and self.status is not None else None
            self.sleep(self.strike() if self.stage else look_s)

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

    def divide(self) -> tuple[dict[int, Row], dict[int, Row]]:
        """Our living descendants, parents first: those that count, and those that are spared.

        A daemon has left the command's session, so the command itself, and whatever it runs as its own, always counts;
        so does what a spared daemon has started, unless that goes by a spared name too.
        """
        counted, spared = descendants(), {}
        for pid, seen in list(counted.items()) if self.spare else ():
            if pid != self.leader and seen.session not in (0, self.session) and matches(pid, self.spare):
                spared[pid] = counted.pop(pid)
        return counted, spared

    def only_spared(self) -> bool:
        """Whether the command has ended and nothing is left that counts.

        Twice in a row, with nothing ended meanwhile: whoever forks and dies while the table is read leaves its child to
        us, where the second look finds it, or its end is ours to reap.
        """
        if not self.spare or self.status is None or self.divide()[0] or self.divide()[0]:
            return False
        try:
            return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

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
            left = len(self.divide()[0]) if children else 0
            if self.window is not None:
                self.window.drain(SCAN_MAX_S / 5)  # whoever hears of the end looks into the log for the reason
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
        counted, spared = self.divide()
        # By name too: a child that was asked between fork and exec had its parent's handler, and may have lost it.
        living = [(pid, seen.start, seen.name) for pid, seen in counted.items()]
        newcomers = [seen for seen in living if seen not in self.asked]
        for pid, start, _ in living if self.stage == "kill" else newcomers:
            if self.stage == "kill":
                send(pid, start, signal.SIGKILL, alone=bool(spared))
            else:
                send(pid, start, signal.SIGTERM, signal.SIGCONT)
        self.asked.update(newcomers)
        self.pause = SCAN_MIN_S if newcomers else min(self.pause * 2, SCAN_MAX_S)
        return self.pause if self.stage == "kill" else max(0.0, min(self.pause, self.kill_at - now))


def main() -> int:
    """Keep the launch whose control socket is the file descriptor given; in a window, the one that waits for us."""
    if len(sys.argv) > 1:
        control = socket.socket(fileno=int(sys.argv[1]))
    else:
        control = socket.socket(socket.AF_UNIX)
        control.connect(os.environ["INTERLOCK_CONTROL"])
    control.set_inheritable(False)
    control.setblocking(False)
    return Keeper(control).run()


if __name__ == "__main__":
    sys.exit(main())
