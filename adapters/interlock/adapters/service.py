"""The service: the composition root. It takes the home's lock, puts the parts together, and ends in bounded time.

lock ──▶ configuration ──▶ journal (replay) ──▶ supervisor ──▶ socket ──▶ ready
SIGTERM, `bus down`, a lost lock, a journal that cannot go on ──▶ no new messages ──▶ drain ──▶ commit ──▶ leave
"""

import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from interlock.adapters import interpreter
from interlock.adapters.activation import notify
from interlock.adapters.effects import LocalEffects
from interlock.adapters.flock import HomeLock, holder, living_holder
from interlock.adapters.home_config import read_config
from interlock.adapters.home_watch import HomeWatch
from interlock.adapters.housekeeping import keep_few_watches, keep_house, sweep, sweep_parts
from interlock.adapters.logs import configure_logs
from interlock.adapters.paths import BadHome, Home
from interlock.adapters.post_office import PostOffice
from interlock.adapters.process import identify, send_signal
from interlock.adapters.sqlite import SqliteStore
from interlock.adapters.sqlite_copy import SqliteCopy
from interlock.adapters.state_files import StateFiles
from interlock.adapters.state_folder import StateFolder
from interlock.adapters.stream_session import Doorkeeper
from interlock.adapters.system_clock import SystemClock
from interlock.adapters.territory.ground import DiskGround
from interlock.adapters.tokens import LocalTokens
from interlock.adapters.trust import LocalRepositories
from interlock.adapters.unix_socket import CannotListen, UnixDoor
from interlock.coordinator.authority import Authority
from interlock.coordinator.config import Config
from interlock.coordinator.desk import Desk
from interlock.coordinator.journal import Journal
from interlock.coordinator.repositories import Repositories
from interlock.coordinator.router import Router
from interlock.coordinator.session import Session
from interlock.coordinator.states import Found
from interlock.coordinator.store import NotWritten, Unknown, Unusable
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.codes import Exit

log = structlog.get_logger("service")
LEAVING_S = 15.0  # a supervisor that goes down leaves within 10 s
SWITCH_S = 0.001  # a thread that looks through a great folder does not make the loop wait 5 ms at each call


class CannotServe(Exception):
    """Start failed; the text is one sentence for the operator."""

    def __init__(self, code: Exit, why: str) -> None:
        super().__init__(why)
        self.code = code


class AlreadyRunning(Exception):
    """Another supervisor has the home's lock."""


class Service:
    """One supervisor process. Args: ready: called once connections are taken. inherited: a socket that listens."""

    def __init__(
        self, home: Home, ready: Callable[[], None], umask: int, inherited: socket.socket | None = None
    ) -> None:
        self._inherited = inherited
        self._home = home
        self._ready = ready
        self._umask = umask
        self._lock = HomeLock(home.lock)
        self._stop_servers = False
        self._problem = ""
        self._stamp = _stamp(home.config)
        self._database = (0, 0)

    async def run(self) -> None:
        """Serve until told to stop.

        Raises:
            AlreadyRunning: another one has the lock.
            CannotServe: something is in the way; the sentence says what, and what to do.
        """
        try:
            self._home.create()
            self._home.socket_directory()
            if not await self._acquire():
                raise AlreadyRunning
        except BadHome as error:
            raise CannotServe(Exit.CANNOT_CREATE, str(error)) from None
        except OSError as error:
            raise CannotServe(Exit.CANNOT_CREATE, f"{self._home.lock} cannot be locked ({error.strerror})") from None
        try:
            await self._serve()
        finally:
            self._lock.release()

    async def _acquire(self) -> bool:
        """Take the home's lock. Who was activated has the socket: a supervisor that runs all the same leaves for it."""
        if self._lock.acquire():
            return True
        if self._inherited is None:
            return False
        other = living_holder(self._home.lock)
        if other is not None:
            log.warning("taking_over", pid=other.pid)
            send_signal(other, signal.SIGTERM)
        notify("STATUS=waiting for the supervisor that holds the lock")
        with anyio.move_on_after(LEAVING_S):
            while not self._lock.acquire():  # noqa: ASYNC110 - nobody is told of a lock's end
                await anyio.sleep(0.05)
            return True
        return False

    async def _serve(self) -> None:
        try:
            home = read_config(self._home)
        except ConfigError as error:
            raise CannotServe(Exit.CONFIG, str(error)) from None
        self._repositories = Repositories(LocalRepositories(self._home), home)
        config = self._repositories.load(home)
        states = StateFiles(StateFolder(self._home), str(self._home.logs))
        journal = Journal(SqliteStore(self._home.database), SystemClock(), config.keep, states)
        ended_well, code, problem = False, Exit.IO, ""
        try:
            found = await states.look()
        except OSError as error:
            why = f"{self._home.states} cannot be read ({error.strerror}): mend it, or move it away"
            raise CannotServe(Exit.IO, why) from None
        try:
            await journal.open()
            self._database = _inode(self._home.database)
            await self._until_stopped(journal, config, states, found)
            await states.finish()
            ended_well = True
        except* Unusable as group:
            problem = str(first_of(group))
        except* CannotListen as group:
            code, problem = Exit.CANNOT_CREATE, str(first_of(group))
        except* (NotWritten, Unknown) as group:
            why = str(first_of(group))
            log.error("journal_ended", why=why)
            problem = f"the journal cannot go on ({why}): nothing acknowledged is lost; mend the disk, then bus up"
        except* OSError as group:
            log.error("disk_failed", why=str(first_of(group)))
            problem = _refused_by_the_disk(self._home, first_of(group))
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                await journal.close(snapshot=ended_well)
        if problem:  # raised within except* it would come out in a group of its own, in some Pythons
            raise CannotServe(code, problem)

    async def _until_stopped(self, journal: Journal, config: Config, states: StateFiles, found: Found) -> None:
        me = identify(os.getpid())
        assert me is not None
        async with anyio.create_task_group() as writing:
            writing.start_soon(journal.run)
            async with anyio.create_task_group() as tasks:
                supervisor = self._compose(journal, config, tasks, states, found)
                watch = HomeWatch(self._home, partial(self._has_home, supervisor))
                try:
                    await supervisor.start(tasks)
                    await states.begin()
                    sweep_parts(self._home)
                    tasks.start_soon(states.run)
                    doorkeeper, path = self._door, self._home.socket()
                    door = UnixDoor(path, doorkeeper, self._inherited)
                    await tasks.start(door.serve)
                    tasks.start_soon(self._post_office.run)
                    self._say_who(**msgspec.to_builtins(me), socket=str(path))
                    tasks.start_soon(self._hear_signals, supervisor)
                    swept = sweep(self._home, journal.world.launches(), config.keep)
                    launches, keep = journal.world.launches, lambda: supervisor.config.keep
                    tasks.start_soon(keep_house, self._home, launches, keep)
                    tasks.start_soon(keep_few_watches, supervisor.let_go)
                    log.info("ready", pid=me.pid, home=str(self._home.root), swept=swept)
                    self._ready()
                    watch.start()
                    self._has_home(supervisor)  # since the lock was taken
                    await supervisor.stopping.wait()
                    log.info("going_down")
                    door.remove()
                    await supervisor.stop(stop_servers=self._stop_servers)
                    tasks.cancel_scope.cancel()
                finally:  # however it ends: nobody is left with a connection that leads nowhere
                    watch.stop()
                    for session in list(supervisor.sessions):
                        session.close()

    def _compose(
        self, journal: Journal, config: Config, tasks: TaskGroup, states: StateFiles, found: Found
    ) -> Supervisor:
        def tell(key: str, command: Any) -> None:
            supervisor.tell(key, command)

        effects = LocalEffects(self._home, tasks, tell, self._umask)
        supervisor = Supervisor(journal, SystemClock(), config, effects, os.getpid(), states, found)
        supervisor.authority = Authority(lambda: supervisor.config, LocalTokens(self._home))
        states.attach(supervisor)
        desk = Desk(
            supervisor, version("interlock"), str(self._home.root), self._go_down(supervisor), self._repositories,
            DiskGround(),
        )  # fmt: skip
        router = Router(supervisor, desk)
        desk.copy = partial(SqliteCopy, self._home)
        self._door = Doorkeeper(supervisor, router, desk, partial(self._on_connect, supervisor))
        supervisor.mail = self._post_office = PostOffice(self._home.root, self._door)
        return supervisor

    def _say_who(self, **facts: object) -> None:
        """For people: a full disk is no reason not to serve."""
        try:
            self._lock.write(**facts)
        except OSError as error:
            log.warning("lock_not_written", why=str(error))

    def _go_down(self, supervisor: Supervisor) -> Callable[[bool], None]:
        def go_down(stop_servers: bool) -> None:
            self._stop_servers = stop_servers
            supervisor.stopping.set()

        return go_down

    async def _hear_signals(self, supervisor: Supervisor) -> None:
        """SIGTERM and SIGINT: leave in order. SIGHUP: read the configuration again."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for signum in signals:
                if signum == signal.SIGHUP:
                    self._reconfigure(supervisor)
                else:
                    supervisor.stopping.set()

    def _reconfigure(self, supervisor: Supervisor) -> str:
        """Take a changed `bus.toml`; one that is wrong is not taken, and the sentence says why."""
        self._stamp = _stamp(self._home.config)
        try:
            supervisor.reconfigure(self._repositories.load(read_config(self._home)))
        except ConfigError as error:
            log.error("configuration_kept", why=str(error))
            return f"{error} - the last good configuration stays in force"
        return ""

    def _on_connect(self, supervisor: Supervisor, session: Session) -> None:
        """Before each session: lock and database are still ours, and the configuration is as we know it."""
        has_home = self._has_home(supervisor)
        if (
            has_home and _inode(self._home.database) != self._database
        ):  # what is written from here on nobody would find again
            log.error("database_lost", path=str(self._home.database))
            supervisor.stopping.set()
        elif has_home and _stamp(self._home.config) != self._stamp:
            self._problem = self._reconfigure(supervisor)
        if self._repositories.is_stale():
            supervisor.reconfigure(self._repositories.load())
        session.notes += [each for each in (self._problem, self._repositories.problem) if each]

    def _has_home(self, supervisor: Supervisor) -> bool:
        """The home is there, and its lock is ours. Else we leave, for nobody would find what is recorded."""
        if not self._lock.is_ours() and not supervisor.stopping.is_set():
            log.error("lock_lost", path=str(self._home.lock))
            supervisor.stopping.set()
        return not supervisor.stopping.is_set()


def first_of(error: BaseException) -> BaseException:
    """What was raised, out of the groups of the tasks in which it was."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _refused_by_the_disk(home: Home, error: BaseException) -> str:
    """One sentence on what the system refused; no name of an exception."""
    assert isinstance(error, OSError)
    what, why = error.filename or home.root, error.strerror or error
    return f"{what} cannot be used ({why}): make room, or mend the disk, then bus up"


def _inode(path: Path) -> tuple[int, int]:
    """Which file that is. It is never opened: closing it again would drop the lock on it."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes when a file does."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def serve(
    home: Home,
    *,
    ready: Callable[[], None],
    pretty: bool,
    umask: int = -1,
    inherited: socket.socket | None = None,
) -> None:
    """Run a supervisor in this process until it is told to stop. Raises AlreadyRunning or CannotServe."""
    os.chdir("/")
    try:
        home.create()
    except BadHome as error:
        raise CannotServe(Exit.CANNOT_CREATE, str(error)) from None
    try:
        configure_logs(home.logs / "supervisor.log", pretty=pretty)
    except OSError as error:
        raise CannotServe(Exit.CANNOT_CREATE, _refused_by_the_disk(home, error)) from None
    interpreter.raise_open_files()
    sys.setswitchinterval(SWITCH_S)
    service = Service(home, ready, umask, inherited)
    interpreter.give_back()
    interpreter.collect_seldom()
    anyio.run(service.run, backend_options={"use_uvloop": interpreter.has_uvloop()})


def holder_sentence(home: Home) -> str:
    """Who has the home's lock, as far as its file says."""
    facts = holder(home.lock)
    return f"pid {facts['pid']}" if "pid" in facts else "another process"
