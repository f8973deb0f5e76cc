"""The service: the composition root. It takes the home's lock, puts the parts together, and ends in bounded time.

lock ──▶ configuration ──▶ journal (replay) ──▶ supervisor ──▶ socket ──▶ ready
SIGTERM, `bus down`, a lost lock, a journal that cannot go on ──▶ no new messages ──▶ drain ──▶ commit ──▶ leave
"""

import contextlib
import os
import resource
import signal
import stat
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

from interlock.adapters.effects import LocalEffects
from interlock.adapters.flock import HomeLock, holder
from interlock.adapters.housekeeping import sweep
from interlock.adapters.logs import configure_logs
from interlock.adapters.paths import BadHome, Home
from interlock.adapters.post_office import PostOffice
from interlock.adapters.process import identify
from interlock.adapters.sqlite import SqliteStore
from interlock.adapters.stream_session import Doorkeeper
from interlock.adapters.system_clock import SystemClock
from interlock.adapters.unix_socket import UnixDoor
from interlock.coordinator.config import Config, ConfigError, parse_config
from interlock.coordinator.desk import Desk
from interlock.coordinator.journal import Journal
from interlock.coordinator.router import Router
from interlock.coordinator.session import Session
from interlock.coordinator.store import NotWritten, Unknown, Unusable
from interlock.coordinator.supervisor import Supervisor
from interlock.protocol.codes import Exit

log = structlog.get_logger("service")
OPEN_FILES = 16_384  # ten thousand agents, and room
SWITCH_S = 0.001  # a thread that looks through a great folder does not make the loop wait 5 ms at each call
CONFIG_BYTES_MAX = 1024 * 1024


class CannotServe(Exception):
    """Start failed; the text is one sentence for the operator."""

    def __init__(self, code: Exit, why: str) -> None:
        super().__init__(why)
        self.code = code


class AlreadyRunning(Exception):
    """Another supervisor has the home's lock."""


def read_config(home: Home) -> Config:
    """Read the home's `bus.toml`; without one every default holds. Raises ConfigError."""
    try:
        with open(os.open(home.config, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{home.config}: no regular file: move it away")
            data = file.read(CONFIG_BYTES_MAX + 1)
        text = data.decode()
    except FileNotFoundError:
        return Config()
    except UnicodeDecodeError:
        raise ConfigError(f"{home.config}: not UTF-8: save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{home.config}: cannot be read ({error.strerror})") from None
    if len(data) > CONFIG_BYTES_MAX:
        raise ConfigError(f"{home.config}: more than {CONFIG_BYTES_MAX} bytes: that is no configuration")
    return parse_config(text, str(home.config))


class Service:
    """One supervisor process. Args: ready: called once connections are taken."""

    def __init__(self, home: Home, ready: Callable[[], None], umask: int) -> None:
        self._home = home
        self._ready = ready
        self._umask = umask
        self._lock = HomeLock(home.lock)
        self._stop_servers = False
        self._problem = ""
        self._stamp = _stamp(home.config)

    async def run(self) -> None:
        """Serve until told to stop.

        Raises:
            AlreadyRunning: another one has the lock.
            CannotServe: something is in the way; the sentence says what, and what to do.
        """
        try:
            self._home.create()
            self._home.socket_directory()
            if not self._lock.acquire():
                raise AlreadyRunning
        except BadHome as error:
            raise CannotServe(Exit.CANNOT_CREATE, str(error)) from None
        except OSError as error:
            raise CannotServe(Exit.CANNOT_CREATE, f"{self._home.lock} cannot be locked ({error.strerror})") from None
        try:
            await self._serve()
        finally:
            self._lock.release()

    async def _serve(self) -> None:
        try:
            config = read_config(self._home)
        except ConfigError as error:
            raise CannotServe(Exit.CONFIG, str(error)) from None
        journal = Journal(SqliteStore(self._home.database), SystemClock(), config.keep)
        ended_well = False
        try:
            await journal.open()
            await self._until_stopped(journal, config)
            ended_well = True
        except* Unusable as group:
            raise CannotServe(Exit.IO, str(group.exceptions[0])) from None
        except* (NotWritten, Unknown) as group:
            log.error("journal_ended", why=str(group.exceptions[0]))
            raise CannotServe(Exit.IO, f"the journal cannot go on: {group.exceptions[0]}") from None
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                await journal.close(snapshot=ended_well)

    async def _until_stopped(self, journal: Journal, config: Config) -> None:
        me = identify(os.getpid())
        assert me is not None
        async with anyio.create_task_group() as writing:
            writing.start_soon(journal.run)
            async with anyio.create_task_group() as tasks:
                supervisor = self._compose(journal, config, tasks)
                try:
                    await supervisor.start(tasks)
                    doorkeeper, path = self._door, self._home.socket()
                    door = UnixDoor(path, doorkeeper)
                    await tasks.start(door.serve)
                    tasks.start_soon(self._post_office.run)
                    self._lock.write(**msgspec.to_builtins(me), socket=str(path))
                    tasks.start_soon(self._hear_signals, supervisor)
                    swept = sweep(self._home, journal.world, config.keep)
                    log.info("ready", pid=me.pid, home=str(self._home.root), swept=swept)
                    self._ready()
                    await supervisor.stopping.wait()
                    log.info("going_down")
                    door.remove()
                    await supervisor.stop(stop_servers=self._stop_servers)
                    tasks.cancel_scope.cancel()
                finally:  # however it ends: nobody is left with a connection that leads nowhere
                    for session in list(supervisor.sessions):
                        session.close()

    def _compose(self, journal: Journal, config: Config, tasks: TaskGroup) -> Supervisor:
        def tell(key: str, command: Any) -> None:
            supervisor.tell(key, command)

        effects = LocalEffects(self._home, tasks, tell, self._umask)
        supervisor = Supervisor(journal, SystemClock(), config, effects, os.getpid())
        desk = Desk(supervisor, version("interlock"), str(self._home.root), self._go_down(supervisor))
        router = Router(supervisor, desk)
        desk.joiner = router
        self._door = Doorkeeper(supervisor, router, desk, partial(self._on_connect, supervisor))
        supervisor.mail = self._post_office = PostOffice(self._home.root, self._door)
        return supervisor

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
            supervisor.reconfigure(read_config(self._home))
        except ConfigError as error:
            log.error("configuration_kept", why=str(error))
            return f"{error} - the last good configuration stays in force"
        return ""

    def _on_connect(self, supervisor: Supervisor, session: Session) -> None:
        """Before each session: the lock is still ours, and the configuration is as we know it."""
        if not self._lock.is_ours():
            log.error("lock_lost", path=str(self._home.lock))
            supervisor.stopping.set()
        elif _stamp(self._home.config) != self._stamp:
            self._problem = self._reconfigure(supervisor)
        if self._problem:
            session.notes.append(self._problem)


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes when a file does."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def serve(home: Home, *, ready: Callable[[], None], pretty: bool, umask: int = -1) -> None:
    """Run a supervisor in this process until it is told to stop. Raises AlreadyRunning or CannotServe."""
    os.chdir("/")
    try:
        home.create()
    except BadHome as error:
        raise CannotServe(Exit.CANNOT_CREATE, str(error)) from None
    configure_logs(home.logs / "supervisor.log", pretty=pretty)
    _raise_open_files()
    sys.setswitchinterval(SWITCH_S)
    service = Service(home, ready, umask)
    anyio.run(service.run, backend_options={"use_uvloop": _uvloop()})


def holder_sentence(home: Home) -> str:
    """Who has the home's lock, as far as its file says."""
    facts = holder(home.lock)
    return f"pid {facts['pid']}" if "pid" in facts else "another process"


def _uvloop() -> bool:
    try:
        import uvloop  # noqa: F401 - only whether it is there
    except ImportError:
        return False
    return sys.platform != "win32"


def _raise_open_files() -> None:
    """Every connection is a file: ask for as many as the system allows, and leave some for what else is open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
