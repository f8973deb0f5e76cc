"""`bus run`, the short way: waits, prepares, runs, gives back, whatever happens. Exit codes as those of timeout(1).

    COVER ─▶ every resource granted ─▶ keeper up ─▶ ADMIT (durable) ─▶ GO ─▶ the command ─▶ its tree gone ─▶ released
               ▲                                     │ STALE_POLICY, RESERVATION_EXPIRED, in use: begun again
               └─────────────────────────────────────┘

The command keeps this terminal, directory, environment and standard streams. If this process is killed while the
command runs, the keeper ends the command's tree, and the bus sees it. Nothing of the command but its program's name, a
digest and the directory leaves this process, other than to its keeper.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # as run_signals.py has it
import os
import time

from interlock.adapters.cli.connection import Connection, Lost
from interlock.adapters.cli.options import Failure, Options, fail, say_err
from interlock.adapters.cli.run_asked import Asked, inside
from interlock.adapters.cli.run_keeper import RunKeeper
from interlock.adapters.cli.run_signals import Signals, Told
from interlock.adapters.cli.run_tickets import BUS_FAILED, TIMED_OUT, Tickets
from interlock.adapters.keeper_start import STOP_TIMEOUT_MS
from interlock.adapters.lean import suppress

WAIT_MS = 300_000  # where the bus does not say
LEAVE_S = 2.0  # how long a command's last processes may take to go before it is said that they stay
TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from interlock.adapters.cli.frames import Frame
    from interlock.adapters.cli.run_lease import RunLease


def run(words: list[str], options: Options) -> int:
    """Run one command line; the exit code. Args: words: after `bus run`."""
    try:
        return _run(Asked(words), options)
    except Failure as failure:
        ours = failure.exit_code in {64, 78} or failure.exit_code >= TIMED_OUT
        code = failure.exit_code if ours else BUS_FAILED
        return fail(Failure(code, str(failure), failure.code), options.json)


def _run(asked: Asked, options: Options) -> int:
    signals = Signals()
    try:
        directory = os.getcwd()
    except OSError:
        raise Failure(64, "the current directory is gone: cd into one that exists") from None
    try:
        with Connection(options, quiet_about=asked.resources[0] if asked.resources else "") as connection:
            connection.agent()
            _check_launches(connection)
            asked.look(connection.welcome.get("builds", ()))
            return _under_tickets(connection, asked, directory, signals)
    except Told as told:
        return 128 + told.signum
    except Failure as failure:
        if failure.exit_code != 69 or not asked.runs_anyway:
            raise
        say_err(f"bus: {failure}; {asked.program} runs all the same, and no bus knows of it")
    return _execute(asked)


def _under_tickets(connection: Connection, asked: Asked, directory: str, signals: Signals) -> int:
    """Until it has run under what is true when it begins, or there is no more time."""
    limit_ms = connection.welcome.get("run_wait_ms", WAIT_MS) if asked.wait_ms is None else asked.wait_ms
    until = time.monotonic() + limit_ms / 1000
    tickets = Tickets(connection, asked, until, quiet=limit_ms == 0)
    lease = _lease(connection, asked, until, quiet=limit_ms == 0) if asked.leases else None
    try:
        while True:
            signals.end_the_wait()
            leased = lease.take() if lease is not None else None
            granted = tickets.take()
            signals.keep()
            command = _Command(connection, asked, directory, signals, granted, tickets.epochs, leased)
            refused = command.begin()
            if refused is None:
                return command.follow()
            if not tickets.may_ask_again(refused["body"].get("code", "")):
                raise Failure(BUS_FAILED, refused.get("text", "the command was not admitted"))
            signals.end_the_wait()
            tickets.give_back(afresh=True)
            tickets.pause(", ".join(want.called for want in tickets.wants) or "the policy")
    except Told as told:
        signals.keep()  # a second one does not keep us from giving back
        tickets.give_back()
        return 128 + told.signum
    except Failure:
        tickets.give_back()
        raise
    finally:
        if lease is not None:
            lease.give_back()


def _lease(connection: Connection, asked: Asked, until: float, *, quiet: bool) -> RunLease:
    from interlock.adapters.cli.run_lease import RunLease

    return RunLease(connection, asked, until, quiet=quiet)


class _Command:
    """One attempt to have it executed. Args: granted: what it runs under, in key order. epochs: as COVERED said.

    leased: the lease that it runs under.
    """

    def __init__(
        self, connection: Connection, asked: Asked, directory: str, signals: Signals, granted: list[Frame],
        epochs: dict[str, int], leased: Frame | None = None,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._asked = asked
        self._directory = directory
        self._signals = signals
        self._granted = granted
        self._epochs = epochs
        self._leased = leased
        self._passed_on = 0  # signals
        self._launch = f"run-{granted[0]['fence'] if granted else 0}-{os.urandom(6).hex()}"
        self._keeper: RunKeeper

    def begin(self) -> Frame | None:
        """Have it admitted and let it go; else the refusal, and nothing was executed. Raises Failure, Told."""
        connection, asked = self._connection, self._asked
        self._keeper = keeper = RunKeeper(self._spec())
        try:
            self._end_if_told()
            frame = connection.ask("supervisor", body={
                "type": "ADMIT", "launch": self._launch, "keeper": keeper.identity, "command": asked.program,
                "holds": {each["key"]: each["fence"] for each in self._granted}, "epochs": self._epochs,
                "digest": asked.digest(self._directory), "directory": self._directory,
                "recognised": asked.recognised, "inside": inside(),
                "task": asked.task,
                **({"leases": {self._leased["lease"]: self._leased["fence"]}} if self._leased is not None else {}),
            })  # fmt: skip
        except BaseException:
            keeper.leave()
            raise
        if frame["body"].get("type") != "ADMITTED":
            keeper.leave()
            return frame
        try:
            self._end_if_told()
        except Told:
            keeper.leave()
            self._report()  # on record, and never executed
            raise
        if not keeper.say(b"GO"):
            say_err(f"bus: the keeper of this launch (pid {keeper.pid}) died before GO")
        return None

    def follow(self) -> int:
        """Bring home how it ends."""
        name, ended, gone = self._asked.program, False, False
        code, until = BUS_FAILED, float("inf")
        while not gone:
            event = self._keeper.next(max(0.0, until - time.monotonic()) if ended else None, self._signals.wake)
            self._pass_on()
            match (event or {}).get("event", "end" if event == {} else ""):
                case "started" if event is not None and event.get("leader"):
                    self._report_start(event["leader"])
                case "ended" if event is not None:
                    ended, until = True, time.monotonic() + LEAVE_S
                    code = event["code"] if event.get("code") is not None else 128 + (event.get("signal") or 0)
                    if event.get("error"):
                        say_err(f"bus: {name}: {event['error'].partition(': ')[2] or event['error']}")
                case "gone" if event is not None:
                    gone = True
                    for each in event.get("spared", ()):  # whoever looks for it knows whose it was
                        what = f"{each.get('command') or 'a daemon'} (pid {each['pid']})"
                        say_err(f"bus: left running, as a daemon that outlives commands: {what}")
                case "end":
                    break
                case "" if ended and time.monotonic() >= until:
                    break
        self._keeper.close()
        return self._end(code, ended, gone)

    def _end(self, code: int, ended: bool, gone: bool) -> int:
        name = self._asked.program
        if not ended and self._signals.early:  # told between the record and GO: the keeper left, and the bus sees it
            code = 128 + self._signals.early[0]
        elif not ended:
            say_err(f"bus: the keeper of {name} was ended from outside: nobody knows how its command ended; see bus ps")
        if ended and not gone:
            what = ", ".join([*(each["resource"] for each in self._granted), *self._asked.leases])
            stays = f"{what} stays taken" if what else "it stays on record"
            say_err(f"bus: processes of {name} are left in the background: {stays} until they end")
        if ended:
            self._report(leader_only=not gone)
        if ended and self._asked.task:
            say_err(f"bus: for {self._asked.task}: {self._launch} ended with {code}")
        return code

    # --- signals --------------------------------------------------------------------------------
    def _end_if_told(self) -> None:
        """Nothing has been executed: the keeper leaves without GO. Raises Told."""
        if self._signals.early:
            raise Told(self._signals.early[0])

    def _pass_on(self) -> None:
        for signum in self._signals.early[self._passed_on :]:
            self._passed_on += 1
            if signum != signal.SIGINT:
                self._keeper.say(b"STOP")
            elif not os.isatty(0):  # from a terminal the command has it already
                self._keeper.say(b"SIGNAL %d" % signum)

    # --- what is said of it ---------------------------------------------------------------------
    def _report_start(self, leader: Frame) -> None:
        """Nobody waits for the answer."""
        group = 0  # it has ended already
        with suppress(OSError):
            group = os.getpgid(leader["pid"])
        body = {"type": "STARTED", "launch": self._launch, "leader": leader, "group": group}
        with suppress(Failure):
            self._connection.tell("supervisor", body=body)

    def _report(self, *, leader_only: bool = False) -> None:
        """Tell the bus how far it is, so that our exit means that what is free is free. It would notice anyway."""
        body = {"type": "ENDED", "launch": self._launch, "leader_only": leader_only}
        with suppress(Failure, Lost):
            self._connection.ask("supervisor", body=body, again=False)

    # --- straight helpers -----------------------------------------------------------------------
    def _spec(self) -> Frame:
        return {
            "argv": self._asked.words,
            "cwd": self._directory,
            "env": {**os.environ, **self._variables()},
            "result": os.path.join(self._connection.root, "launches", f"{self._launch}.jsonl"),
            "launch": self._launch,
            "stop_timeout_ms": STOP_TIMEOUT_MS,
            "attached": True,
            "spare": self._connection.welcome.get("spare", ()),
        }

    def _variables(self) -> dict[str, str]:
        """The first, or only, resource as ever; all of them in key order as lists. BUS_LAUNCH is the keeper's.

        One that runs under nothing of its own is still inside what its caller runs under, and keeps its variables.
        """
        ours = {"BUS_AGENT": self._connection.agent(), "BUS_HOME": self._connection.root}
        if self._leased is not None:
            ours |= {"BUS_LEASE": self._leased["lease"], "BUS_LEASE_FENCE": str(self._leased["fence"])}
        if not self._granted:
            return ours
        first = self._granted[0]
        return ours | {
            "BUS_RESOURCE": first["key"],
            "BUS_FENCE": str(first["fence"]),
            "BUS_UNIT": first.get("unit", ""),
            "BUS_WORKTREE": first.get("worktree", "-"),
            "BUS_RESOURCE_URL": first.get("url", ""),
            "BUS_RESOURCES": ",".join(each["key"] for each in self._granted),
            "BUS_FENCES": ",".join(str(each["fence"]) for each in self._granted),
        }


def _check_launches(connection: Connection) -> None:
    """Whether the keeper will be able to note how the command ends. Raises Failure before anybody has waited."""
    launches = os.path.join(connection.root, "launches")
    probe = os.path.join(launches, f"{os.urandom(8).hex()}.probe")
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        os.unlink(probe)
    except OSError as error:
        why = (
            f"bus run notes in {launches} how its command ends, and may not write there ({error.strerror}; a sandbox?)"
        )
        way = "allow it to write there, or use bus request and bus release"
        raise Failure(BUS_FAILED, f"{why}: {way}") from None


def _execute(asked: Asked) -> int:
    """Become the command: no bus has anything to do with it."""
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # which the interpreter ignores
        signal.signal(signum, signal.SIG_DFL)
    try:
        os.execvp(asked.words[0], asked.words)
    except OSError as error:
        say_err(f"bus: {asked.program}: {error.strerror}")
        return 127 if isinstance(error, (FileNotFoundError, NotADirectoryError)) else 126
