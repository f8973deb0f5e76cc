"""The keeper's loop: it starts one command, reaps its whole tree, stops it when asked, and says how it ended."""

import _signal as signal  # type: ignore[import-not-found]  # what `signal` is made of, without its dear enums
import os
import select
import time

from interlock.adapters.keeper.own_process import become_subreaper, detach_output, without_terminal
from interlock.adapters.keeper.report import Report
from interlock.adapters.keeper.spec import Spec
from interlock.adapters.keeper.tree import Row, descendants, identity, matches, nearest_descendants, row, send, words_of
from interlock.adapters.lean import loads, suppress

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

    from interlock.adapters.keeper.window import Window

DEAF = ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTSTP", "SIGTTIN", "SIGTTOU")
INPUT_BYTES_MAX = 8 * 1024 * 1024  # a spec holds an environment, which the kernel bounds at about 6 MiB
CHASES_MAX = 64  # some milliseconds
SCAN_MIN_S, SCAN_MAX_S = 0.005, 0.25  # while stopping: a newcomer is found at once, a stuck process not at full speed
FLUSH_S = 5.0  # how long a full disk is waited for once the tree is gone
SPARED_LOOK_S = 1.0  # a program shows that it is a daemon by no signal: while only such may be left, we look
LAST_WORDS_S = 1.0  # how long the last output of a tree that has gone is waited for


class Keeper:
    """The loop: sleeps until a child ends, a signal or a line comes, or the next step of a stop is due."""

    def __init__(self, control: "_socket.socket", in_window: "type[Window] | None" = None) -> None:
        """Args: in_window: of a keeper that was started in a window: what carries on between that and the command."""
        self.control = control
        self.in_window = in_window
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
        self.struck = False  # the stop has had its first step
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
            spec = Spec(**loads(self.wait_line() or b"{}"))
            self.report.open(spec.result)
            if spec.log and self.in_window is not None:
                self.window = self.in_window(spec.log)
        except (OSError, ValueError, TypeError) as error:
            return self.leave(f"{type(error).__name__}: {error}")
        subreaper = become_subreaper()
        me, resource, unit = identity(os.getpid()), spec.resource(), spec.unit()
        # Durable while whoever hears of it makes its own record durable: GO is taken on what is on disk.
        self.report.say("up", early=True, identity=me, subreaper=subreaper, resource=resource, unit=unit)
        if not self.report.name_durable() or not self.report.flush():
            return self.leave("the result file cannot be written")
        if self.wait_line() != b"GO":
            return self.leave("")
        # With the whole command line, for a person who has to find out what runs: it is on no other record.
        if not self.report.say("go", tell=False, argv=spec.argv, cwd=spec.cwd):
            return self.leave("the result file cannot be written")
        try:
            self.start(spec)
        except (OSError, ValueError, IndexError) as error:
            code = 127 if isinstance(error, FileNotFoundError | NotADirectoryError) else 126
            why = getattr(error, "strerror", "") or str(error)
            self.report.say("ended", code=code, signal=None, left=0, error=f"{type(error).__name__}: {why}")
        else:
            if self.window is None:
                detach_output()
            self.report.say("started", leader=identity(self.leader))
            self.keep(spec.stop_timeout_ms / 1000, spec.attached)
        if self.window is not None:
            self.window.drain(LAST_WORDS_S)
        left = self.divide()[1] if self.spare else ()
        spared = [{"pid": pid, "command": " ".join(words_of(pid))[:200]} for pid in left]
        durable = self.report.say("gone", spared=spared)
        until = time.monotonic() + FLUSH_S
        while not durable and time.monotonic() < until:
            time.sleep(SCAN_MAX_S)
            durable = self.report.flush()
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
            self.signal(int(rest))

    def signal(self, signum: int) -> None:
        """To the command and what is in its group, as a terminal would: a shell alone would leave its child behind."""
        leader = row(self.leader) if self.status is None else None  # not reaped: its number is still its own
        if leader is None:
            return
        group = os.getpgid(self.leader)
        for pid, seen in {**descendants(), self.leader: leader}.items():
            with suppress(OSError):  # it has ended
                if os.getpgid(pid) == group:
                    send(pid, seen.start, signum)

    def divide(self, look: "Callable[[], dict[int, Row]]" = descendants) -> tuple[dict[int, Row], dict[int, Row]]:
        """Our living descendants as `look` finds them, parents first: those that count, and those that are spared.

        A daemon has left the command's session, so the command itself, and whatever it runs as its own, always counts;
        so does what a spared daemon has started, unless that goes by a spared name too.
        """
        counted, spared = look(), dict[int, Row]()
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
        if not hasattr(os, "waitid"):  # macOS, with an older Python: what is spared there is no child of ours anyway
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
            exited, signum = (code, None) if code >= 0 else (None, -code)
            # Without a child it is `gone` that follows at once, and makes both durable.
            self.report.say("ended", durable=children, code=exited, signal=signum, left=left)
        return children

    def chase(self) -> None:
        """Kill whoever forks and ends faster than every process can be looked at: an orphan of the tree is our own
        child at once, and those the kernel names."""
        for _ in range(CHASES_MAX):
            counted, _ = self.divide(nearest_descendants)
            for pid, seen in counted.items():  # who is to be spared may be missing here, so no group is taken
                send(pid, seen.start, signal.SIGKILL, alone=bool(self.spare))
            if not counted:
                return

    def strike(self) -> float:
        """One step of the stop. Returns the seconds until the next."""
        now = time.monotonic()
        if self.stage == "term" and now >= self.kill_at:
            self.stage = "kill"
            self.asked.clear()
            with suppress(OSError):  # where we may: a tree that forks without end leaves us little time
                os.setpriority(os.PRIO_PROCESS, 0, -20)
        if self.stage == "kill":
            self.chase()
        if self.stage == "term" and not self.struck and not self.spare:
            # At once; whoever is not among these is found by the next step, which looks at every process.
            counted, spared = nearest_descendants(), dict[int, Row]()
        else:
            counted, spared = self.divide()
        self.struck = True
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
