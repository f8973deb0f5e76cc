"""The scene: what the doctor's checks look at, gathered once. It starts nothing, and of the log opens a copy."""

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from interlock.adapters.cli.connection import Connection, Lost
from interlock.adapters.cli.options import Failure, Options
from interlock.adapters.flock import holder
from interlock.adapters.home_config import read_config
from interlock.adapters.paths import Home
from interlock.adapters.survivors import survivors
from interlock.coordinator.config import Config
from interlock.coordinator.states import Survivor
from interlock.coordinator.toml_values import ConfigError

VERIFY_S = 30.0  # for the whole log; what is not read by then is said to be not read


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong.

    Args:
        about: what it concerns, for programs; stable.
        what: one sentence.
        mend: the one command that mends it, or the one thing to do.
    """

    about: str
    what: str
    mend: str


class Asked(msgspec.Struct, frozen=True):
    """What the running supervisor says, each as its answer has it."""

    health: dict[str, Any]
    resources: list[dict[str, Any]]
    agents: list[dict[str, Any]]
    commands: list[dict[str, Any]] = []


class Scene(msgspec.Struct, frozen=True):
    """What there is to look at.

    Args:
        verified: what a look through the whole log came to; None: there was none, or not in time.
        asked: None where no supervisor answers; `silent` then says why, if one should.
        lock_pid: the process that holds the home's lock; 0: nobody, or it cannot be told.
        unread: why the file of a bus that is down could not be read.
        config: None where it is wrong; `config_problem` then says how.
        environ: of the command.
        now_s: wall clock.
    """

    home: Home
    environ: Mapping[str, str]
    asked: Asked | None = None
    silent: str = ""
    lock_pid: int = 0
    config: Config | None = None
    config_problem: str = ""
    survivors: tuple[Survivor, ...] = ()
    now_s: float = 0.0
    verified: dict[str, Any] | None = None
    unread: str = ""


Say = Callable[[int, int], None]


def look(
    home: Home, environ: Mapping[str, str], *, ask: bool = True, whole_log: bool = True, say: Say | None = None
) -> Scene:
    """Gather the scene of a home.

    Args:
        ask: the supervisor, if one runs. whole_log: have it check the log's chain, in VERIFY_S at most.
        say: replay the log too, however long that takes, and say how many records of how many are done; a bus that is
            down has it done here, on a copy of its file.
    """
    config, problem, asked, silent, verified, unread = None, "", None, "", None, ""
    try:
        config = read_config(home)
    except ConfigError as error:
        problem = str(error)
    lock_pid = lock_holder(home)
    if ask and not is_stopped(lock_pid):  # it would take the question, and answer it when somebody lets it go on
        try:
            asked, verified = _ask(home, whole_log, say)
        except Failure as failure:
            silent = "" if _nobody_listens(home) else str(failure)
        except (Lost, OSError, ValueError, KeyError) as error:
            silent = f"the supervisor broke off ({type(error).__name__})"
    if say is not None and asked is None and not lock_pid:
        from interlock.adapters.doctor.file_log import replay_file  # SQLite and all: only where it is asked for

        verified, unread = replay_file(home, say)
    return Scene(
        home, environ, asked, silent, lock_pid, config, problem, survivors(home), time.time(), verified, unread
    )  # fmt: skip


def lock_holder(home: Home) -> int:
    """Who holds the home's lock, as the kernel says; 0 where nobody does or it cannot be told.

    It is read, not tried: whoever tried it would hold it for a moment, and a starting supervisor would see it taken.
    """
    try:
        found = os.lstat(home.lock)
    except OSError:
        return 0
    wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        with open("/proc/locks") as table:
            for line in table:
                fields = line.split()
                if fields[1:2] == ["FLOCK"] and fields[5:6] == [wanted]:
                    return int(fields[4]) or _written_pid(home)  # 0: of another pid namespace
    except (OSError, ValueError):
        pass
    return _written_pid(home) if sys.platform != "linux" and home.socket().exists() else 0


def is_stopped(pid: int) -> bool:
    """That process is there and does not run (SIGSTOP, Ctrl-Z)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in {b"T", b"t"}
    except (OSError, IndexError):
        return False


def _written_pid(home: Home) -> int:
    """Who says in the lock file that it holds it; -1 where somebody does who has not said."""
    pid = holder(home.lock).get("pid", -1)
    return pid if isinstance(pid, int) else -1


def _ask(home: Home, whole_log: bool, say: Say | None) -> tuple[Asked, dict[str, Any] | None]:
    """Raises Failure where none runs, Lost where it breaks off."""
    connection = Connection(Options(home=str(home.root)), notices=False)
    connection.open(start=False)
    try:

        def ask(kind: str) -> Any:
            return connection.ask("supervisor", again=False, body={"type": kind})["body"]

        health, status, agents = ask("HEALTH"), ask("STATUS"), ask("AGENTS")
        if "version" not in health:  # an older supervisor does not know the question
            health = {**ask("PING"), "frozen": [], "state_files": "", "launches": None}
        verified = _verify(connection, say) if whole_log or say is not None else None
        commands = ask("COMMANDS").get("commands", [])  # one of before the gate refuses to say
        return Asked(health, status.get("resources", []), agents.get("agents", []), commands), verified
    finally:
        connection.close()


def _verify(connection: Connection, say: Say | None) -> dict[str, Any] | None:
    connection.tell("supervisor", body={"type": "VERIFY", "replay": say is not None})
    until = time.monotonic() + VERIFY_S
    while time.monotonic() < until:
        body = connection.receive(until - time.monotonic()).get("body", {})
        if body.get("type") == "VERIFIED":
            return dict(body)
        if body.get("type") == "REFUSED":
            return None
        if body.get("type") == "PROGRESS" and say is not None:
            say(body["through"], body["last"])
            until = time.monotonic() + VERIFY_S  # as long as it takes, while it goes on
    return None


def _nobody_listens(home: Home) -> bool:
    """There is no socket, or one that refuses: then no supervisor serves, which need not be wrong."""
    probe = socket.socket(socket.AF_UNIX)
    probe.settimeout(1.0)
    try:
        probe.connect(str(home.socket()))
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        return True
    except OSError:
        return False
    finally:
        probe.close()
    return False
