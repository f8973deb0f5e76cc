"""Command lines that nobody should write, in environments that nobody should have: a known exit code, no traceback.

A warm process forks for each: the child becomes the command, so that hundreds run in the time of a few.
"""

import os
import select
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.values import AGENTS, Garbage

from interlock.adapters.cli import app, entry
from interlock.protocol.codes import Exit

WAIT_S = 30.0
WAITS_S = 1.0  # for one that may wait for ever: then it is interrupted, as at a terminal
VERBS = (*app.EVERYDAY, *app.OTHERS)
HARMLESS_ONLY = {"up", "down", "uninstall", "attach"}  # said right, these do what they should
MAY_WAIT = {"run", "wait", "request", "tail", "logs", "inbox", "send", "relay"}
OPTIONS = (
    "--json", "--help", "-h", "--as", "--home", "--version", "--wait", "--no-wait", "--time", "--for", "--worktree",
    "--timeout", "--resource", "-r", "--since", "-n", "--type", "-f", "--last", "--peek", "--pid", "--files",
    "--takeover", "--verify",
    "--because", "--confirm", "--stdin", "--file", "--request-id", "--quick", "--unit", "--", "-", "--as=", "--time=",
)  # fmt: skip
VARIABLES = ("BUS_AGENT", "BUS_HOME", "BUS_FENCE", "BUS_RESOURCE", "BUS_AUTOSTART", "BUS_TOKEN", "USER", "HOME", "LANG",
             "COLUMNS", "TERM", "NO_COLOR", "TZ", "PYTHONIOENCODING", "XDG_STATE_HOME", "SHELL", "PATH")  # fmt: skip
CODES = {int(each) for each in Exit}


class Ended(NamedTuple):
    """How one ended. Args: code: its exit code, or minus a signal's number. said: both streams."""

    words: list[str]
    changed: dict[str, str]
    code: int
    said: bytes


def words(garbage: Garbage) -> list[str]:
    """One command line, without NUL, which no command line can hold."""
    pick = garbage.random
    verb = pick.choice(VERBS) if garbage.chance(0.95) else garbage.text()
    made = [verb]
    for _ in range(pick.randrange(5)):
        kind = pick.randrange(4)
        if kind == 0:
            made.append(pick.choice(OPTIONS))
        elif kind == 1:
            made.append(pick.choice(("machine/r1", "flat", "coordinator", "all", *AGENTS[:3], "0", "5m", "1", "true")))
        else:
            made.append(garbage.text())
    if garbage.chance(0.3):
        made[0:0] = [pick.choice(OPTIONS[:6]), garbage.text()]
    if verb in HARMLESS_ONLY:
        made = [*made[:1], "--no-such-option", *made[1:]] if made[0] == verb else [verb, "--no-such-option"]
    return [_for_a_process(each) for each in made if not each.startswith("--home")]


def environment(garbage: Garbage, sound: Mapping[str, str]) -> dict[str, str]:
    """What is other in it."""
    if garbage.chance(0.5):
        return {}
    name = garbage.random.choice(VARIABLES)
    changed = {name: _for_a_process(garbage.text())}
    if name in {"HOME", "XDG_STATE_HOME", "BUS_HOME"}:  # it may not lead to anybody's real home, nor to a second bus
        changed = {"BUS_AUTOSTART": "0", name: os.path.join(sound["HOME"], "no", changed[name].replace("/", "_")[:200])}
    return changed


def _for_a_process(text: str) -> str:
    """As the kernel takes it and Python gives it back: bytes that are no UTF-8 become lone surrogates."""
    return os.fsdecode(text.encode("utf-8", "surrogatepass").replace(b"\0", b"?")[:100_000])


def run(given: list[str], changed: dict[str, str], sound: Mapping[str, str], folder: Path) -> Ended:
    """Become the command in a child; wait for its end."""
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if pid == 0:
            _become(given, {**sound, **changed}, folder, said.fileno())
        code = _ended(pid, given)
        said.seek(0)
        return Ended(given, changed, code, said.read())


def _become(given: list[str], environ: Mapping[str, str], folder: Path, said: int) -> None:
    code = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = ["bus", *given]
        sys.stdin, sys.stdout, sys.stderr = (
            open(each, mode, closefd=False)  # noqa: SIM115 - they are the process's for the rest of its life
            for each, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        code = entry.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _ended(pid: int, given: list[str]) -> int:
    """Its exit code. One that waits for its turn is interrupted; one that does not end then is killed."""
    child = os.pidfd_open(pid)
    try:
        waits = any(each in MAY_WAIT for each in given)
        if not select.select([child], [], [], WAITS_S if waits else WAIT_S)[0]:
            os.kill(pid, signal.SIGINT if waits else signal.SIGKILL)
            if not select.select([child], [], [], WAIT_S)[0]:
                os.kill(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        os.close(child)


def fault(ended: Ended) -> str:
    """What is wrong with how it ended; "" where nothing is."""
    if b"Traceback (most recent call last)" in ended.said:
        return f"a traceback: {ended.said[-400:].decode('utf-8', 'replace')}"
    runs = "run" in ended.words
    if ended.code == -signal.SIGKILL:
        return f"it did not end within {WAIT_S:g} s"
    if ended.code < 0 and ended.code != -signal.SIGINT:
        return f"it was ended by signal {-ended.code}"
    may_be_one = "doctor" in ended.words or runs
    if ended.code >= 0 and ended.code not in CODES and not runs and not (ended.code == 1 and may_be_one):
        return f"exit code {ended.code}: {ended.said[-200:].decode('utf-8', 'replace')}"
    if (
        ended.code not in {0, Exit.NOT_YET, -signal.SIGINT}
        and not ended.said
        and not runs
        and ended.code != Exit.INTERRUPTED
    ):
        return f"exit code {ended.code} without a word"
    return ""


def sweep(seed: str, first: int, commands: int, sound: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Run so many. Yields, for each, what went wrong, or ""."""
    for number in range(first, first + commands):
        garbage = Garbage(f"{seed}/command/{number}")
        ended = run(words(garbage), environment(garbage, sound), sound, folder)
        wrong = fault(ended)
        yield f"command {number}: bus {ended.words!r} with {ended.changed!r}: {wrong}" if wrong else ""
