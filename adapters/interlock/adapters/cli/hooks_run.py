"""`bus hooks run HOOK`: what git's hooks call. It never starts a supervisor, and never takes longer than it may.

    advisory    whatever cannot be said within its time is said as that, and the commit goes on
    hard_fail   what is not known is refused; git gets more time, the bus does not

Not through typer: a commit waits for it.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import NoReturn

from interlock.adapters.cli.options import Failure, Options, say_err
from interlock.adapters.territory.asking import Told, leases_in_force, record_commit
from interlock.adapters.territory.cover import Cover, Trouble
from interlock.adapters.territory.git_calls import GitFailed
from interlock.adapters.territory.hook_text import CHECKED, MODES
from interlock.adapters.territory.staged import Changes, Pushed, Staged
from interlock.adapters.territory.troubles import sentences

BUDGET_S = 0.75  # with the start of this program a commit waits for less than a second
HARD_GIT_S = 10.0  # a refusal that only says that the machine is slow helps nobody
REFUSED = 77
STDIN_BYTES_MAX = 64 * 1024 * 1024
Ask = Callable[[Options, str], Told]


class _Late(BaseException):
    """The time is over; no handler of an ordinary exception may keep it."""


def run(words: list[str], options: Options) -> int:
    """Run one hook's check.

    Args:
        words: after `bus hooks run`: HOOK [--mode MODE] [-- ARGUMENTS OF THE HOOK].

    Returns:
        0: go on; 77: refused, which only hard_fail says.

    Raises:
        Failure: 64.
    """
    hook, mode, given = _words(words)
    try:
        return _check(hook, mode, given, options)
    except _Late:
        why = "the bus does not answer in time (stopped, or overloaded)"
    except (Failure, GitFailed) as error:
        why = str(error)
    return _unchecked(hook, mode, why)


def _check(hook: str, mode: str, given: list[str], options: Options) -> int:
    began = time.monotonic()
    until = began + (HARD_GIT_S if mode == "hard_fail" else BUDGET_S)
    here = os.getcwd()
    if hook == "post-commit":
        with _at_most(BUDGET_S):
            commit = Changes(here, (), until=until, keep=_of_a_hook()).git("rev-parse", "HEAD").strip().decode()
            record_commit(options, here, commit)
        return 0
    with _at_most(until - began):
        changes = _changes(hook, given, here, until)
        paths = {id(each): each.paths() for each in changes}
    if not any(paths.values()):
        return 0
    with _at_most(BUDGET_S if mode == "hard_fail" else max(0.05, until - time.monotonic())):
        told = leases_in_force(options, here, start=False)
    with _at_most(max(0.05, until - time.monotonic())):
        troubles = [
            trouble
            for each in changes
            for trouble in _troubles(each, paths[id(each)], told, others_only=hook == "pre-push")
        ]
    return _say(hook, mode, told, troubles)


def _changes(hook: str, given: list[str], here: str, until: float) -> list[Changes]:
    """What is to be looked at. Raises GitFailed."""
    if hook == "pre-commit":
        return [Staged(here, until=until)]
    remote = given[0] if given else os.environ.get("PRE_COMMIT_REMOTE_NAME", "")
    return [
        Pushed(here, tip, [*known, *([f"--remotes={remote}"] if remote else ["--remotes"])], until=until)
        for tip, known in _refs(here, until)
    ]


def _refs(here: str, until: float) -> Iterator[tuple[str, list[str]]]:
    """What is pushed, and what of it the remote has: from stdin, or as the pre-commit framework says it."""
    lines = [line.split() for line in _stdin().splitlines()]
    tips = [(words[1], words[3]) for words in lines if len(words) == 4]
    if not lines and os.environ.get("PRE_COMMIT_TO_REF"):
        tips = [(os.environ["PRE_COMMIT_TO_REF"], os.environ.get("PRE_COMMIT_FROM_REF", ""))]
    probe = Changes(here, (), until=until, keep=_of_a_hook())
    for tip, known in tips:
        if not tip.strip("0"):
            continue  # a branch is deleted
        there = known.strip("0") and probe.git("rev-parse", "-q", "--verify", f"{known}^{{commit}}", accept=(0, 1, 128))
        yield tip, [known] if there else []


def _troubles(changes: Changes, paths: list[str], told: Told, *, others_only: bool) -> list[Trouble]:
    """Raises GitFailed."""
    cover, own = Cover(told.held), {told.agent} - {""}
    found = [
        trouble
        for path in paths
        if (trouble := cover.trouble(path, own, partial(changes.lines, path), changes.moved(path)))
        and (trouble.cause == "held_by_other" or (own and not others_only))
    ]
    free = changes.free([each.path for each in found], cached=True)
    return [each for each in found if each.path not in free]


def _say(hook: str, mode: str, told: Told, troubles: list[Trouble]) -> int:
    what = "push" if hook == "pre-push" else "commit"
    refuses = mode == "hard_fail"
    if not told.agent:
        say_err(f"bus: {told.nobody or 'the bus does not know who you are: bus join NAME'}")
        if not refuses:
            say_err("bus: so only what others hold was looked at")
    for line in sentences(troubles):
        say_err(f"bus: {line}")
    if refuses and (troubles or not told.agent):
        say_err(f"bus: refused: do what stands above, then {what} again (mode hard_fail)")
        return REFUSED
    if troubles:
        say_err(f"bus: the {what} goes on (mode advisory)")
    return 0


def _unchecked(hook: str, mode: str, why: str) -> int:
    """Nothing is known. Returns the exit code."""
    if hook == "post-commit":
        say_err(f"bus: whose this commit is was not recorded: {why}")
        return 0
    what = "push" if hook == "pre-push" else "commit"
    if mode == "hard_fail":
        say_err(f"bus: refused: {why}")
        say_err(f"bus: mend that (bus doctor says how), then {what} again; or this once: git {what} --no-verify")
        return REFUSED
    say_err(f"bus: this {what} goes on unchecked: {why}")
    return 0


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """What is inside ends in time, wherever it is. Raises _Late."""

    def late(number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _of_a_hook() -> frozenset[str]:
    from interlock.adapters.territory.git_calls import OF_A_HOOK

    return OF_A_HOOK


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read(STDIN_BYTES_MAX).decode("utf-8", "surrogateescape")


def _words(words: list[str]) -> tuple[str, str, list[str]]:
    """Raises Failure 64."""
    usage = f"bus hooks run {'|'.join(CHECKED)} [--mode {'|'.join(MODES)}] [-- ARGUMENT…]"
    ours, given = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    hook, mode, rest = (ours[0] if ours else ""), "advisory", ours[1:]
    if rest[:1] == ["--mode"] and len(rest) > 1:
        mode, rest = rest[1], rest[2:]
    elif rest and rest[0].startswith("--mode="):
        mode, rest = rest[0].removeprefix("--mode="), rest[1:]
    if hook not in CHECKED or mode not in MODES:
        raise Failure(64, f"this is what git's hooks call: {usage}")
    return hook, mode, given + rest
