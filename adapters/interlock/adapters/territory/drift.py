"""Drift: what is changed in a repository's worktrees, by content, and is under no lease of who is in that worktree.

git worktree list ─▶ each that is there ─▶ git status ─▶ changed paths ─▶ Cover, with the agents of that worktree
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from interlock.adapters.git import place_of
from interlock.adapters.territory.asking import Told
from interlock.adapters.territory.cover import Cover, Trouble
from interlock.adapters.territory.git_calls import GitFailed, run
from interlock.adapters.territory.staged import Changes

LIST_S = 30.0
WORKTREE_S = 120.0  # for one: a first look at 100,000 files on a cold disk takes a good part of it
AT_ONCE = 4  # git waits for the disk most of the time; more only make each other wait
STATUS = ("status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames")


class Drifted(NamedTuple):
    """One path that should not have been changed. Args: worktree: real path. agents: who is there."""

    worktree: str
    agents: tuple[str, ...]
    trouble: Trouble


class Drift(NamedTuple):
    """What there is. Args: looked_at: how many worktrees. left_out: why others were not; failed: or could not be."""

    drifted: list[Drifted]
    looked_at: int
    left_out: list[str]
    failed: list[str]


class Dirty(Changes):
    """What is changed in a worktree since its last commit, staged or not, by content. Args: top: its real path."""

    def __init__(self, top: str) -> None:
        super().__init__(top, ["HEAD"], until=time.monotonic() + WORKTREE_S)

    def paths(self) -> list[str]:
        """Raises GitFailed."""
        found = []
        for entry in self.git(*STATUS).split(b"\0"):
            words = entry.split(b" ", 10 if entry[:1] == b"u" else 1 if entry[:1] == b"?" else 8)
            if words[0] not in {b"1", b"u", b"?"} or words[-1].endswith(b"/"):
                continue  # a repository of its own, which lies in this one
            path = os.fsdecode(words[-1])
            found.append(path)
            if words[0] == b"1" and words[3] == words[5] and not words[3].startswith((b"16", b"000")):
                self._old[path] = words[6].decode()
        return found


def scan(cwd: str, told: Told) -> Drift:
    """Look at every worktree of the repository of a directory.

    Args:
        cwd: absolute. told: the leases in force, and who is in which worktree.

    Raises:
        GitFailed: the worktrees cannot be listed.
    """
    cover = Cover(told.held)
    there, left_out = worktrees(cwd)
    own = {top: set(told.at.get(top, ())) for top in there}
    for held in told.held:
        if held.worktree and (top := os.path.realpath(held.worktree)) in own:
            own[top].add(held.agent)
    found: list[Drifted] = []
    failed: list[str] = []

    def look(top: str) -> list[Trouble] | str:
        try:
            return _troubles(top, cover, own[top])
        except GitFailed as error:
            return f"{top} could not be looked at: {error}"

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for top, troubles in zip(there, threads.map(look, there), strict=True):
            if isinstance(troubles, str):
                failed.append(troubles)
            else:
                found += [Drifted(top, tuple(sorted(own[top])), each) for each in troubles]
    return Drift(found, len(there), left_out, failed)


def worktrees(cwd: str) -> tuple[list[str], list[str]]:
    """The worktrees that are there, by their real paths; and of the others, why they are left out. Raises GitFailed."""
    try:
        entries = run(["worktree", "list", "--porcelain", "-z"], cwd, timeout_s=LIST_S).split(b"\0\0")
        end = b"\0"
    except GitFailed as error:
        if error.exit_code != 129:  # a git before 2.36 knows no -z
            raise
        entries, end = run(["worktree", "list", "--porcelain"], cwd, timeout_s=LIST_S).split(b"\n\n"), b"\n"
    there, left_out = [], []
    place = place_of(cwd)
    for entry in entries:
        facts = dict(line.partition(b" ")[::2] for line in entry.strip(end).split(end) if line)
        if b"worktree" not in facts or b"bare" in facts:
            continue
        top = os.path.realpath(os.fsdecode(facts[b"worktree"]))
        if place is not None and top == place.common and place.main:
            top = place.main  # of a submodule git names its git directory here
        if os.path.isdir(top):
            there.append(top)
        else:
            kept = b"locked" in facts
            next_step = (
                "it is locked, and may be on a disk that is not here" if kept else "git worktree prune forgets it"
            )
            left_out.append(f"{top} is not there: {next_step}")
    return there, left_out


def changes(before: list[Drifted], after: list[Drifted]) -> tuple[list[Drifted], list[Drifted]]:
    """What has come since, or is another's now; and what is gone. How long a lease still lasts is no change."""
    old, new = {_key(each): each for each in before}, {_key(each): each for each in after}
    return [new[key] for key in new if key not in old], [old[key] for key in old if key not in new]


def _troubles(top: str, cover: Cover, own: set[str]) -> list[Trouble]:
    dirty = Dirty(top)
    found = [
        trouble
        for path in dirty.paths()
        if (trouble := cover.trouble(path, own, partial(dirty.lines, path), dirty.moved(path)))
    ]
    free = dirty.free([each.path for each in found], cached=False)
    return [each for each in found if each.path not in free]


def _key(each: Drifted) -> tuple[str, str, str, str]:
    return (each.worktree, each.trouble.path, each.trouble.cause, each.trouble.holder)
