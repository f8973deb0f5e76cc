"""The commits of base...head, and what each of them changes: every path, on both sides of a rename.

```text
base ─┬─────────▶            merge base ──▶ head: the commits that base does not have
      └── … ── head          of a merge only what differs from every parent of it
```

A rename is a deletion and an addition: whoever renames writes at both places. Two git processes for all commits.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from interlock.adapters.small_files import read_regular
from interlock.adapters.territory.git_call import Git
from interlock.adapters.territory.problem import Problem
from interlock.protocol.visible import one_sentence

TRAILER = "Interlock-Agent"
SHALLOW_BYTES_MAX = 64 * 1024 * 1024
_FIELDS = 5
_RAW = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--ignore-submodules=none")
_FORMAT = f"%x00%H%x00%P%x00%ct%x00%(trailers:key={TRAILER},valueonly,unfold,separator=%x1f)%x00"
_PLAIN = ("100644", "100755")


class Commit(NamedTuple):
    """Args: sha: hex. at_ms: the committer's date; git knows whole seconds. trailer: the last that names an agent."""

    sha: str
    at_ms: int
    trailer: str


class Change(NamedTuple):
    """What a commit does to one path.

    Args:
        path: relative to the repository; bytes that are no UTF-8 as surrogates.
        olds: the blob of each parent ("" for none). new: the commit's ("" where it deletes).
        by_lines: it is a regular file before and after, of the same mode: only lines of it change.
    """

    path: str
    olds: tuple[str, ...]
    new: str
    by_lines: bool


class Range(NamedTuple):
    """What is verified. Args: base, head, merge_base: hex."""

    base: str
    head: str
    merge_base: str


def find_range(git: Git, base: str, head: str) -> Range:
    """The commits that two revisions name, and where they part.

    Args:
        base, head: revisions as git reads them.

    Raises:
        Problem: 64 one names no commit; 65 they have no commit in common, or this clone does not reach it.
    """
    at = {name: _commit(git, given, option) for name, given, option in (("b", base, "base"), ("h", head, "head"))}
    found = git.try_run("merge-base", at["b"], at["h"])
    if found is None:
        if _shallow(git):
            raise _too_shallow()
        why = f"{one_sentence(base)} and {one_sentence(head)} have no commit in common: give the --base it came from"
        raise Problem(65, why)
    return Range(at["b"], at["h"], found.decode().strip())


def commits_of(git: Git, range_: Range) -> list[Commit]:
    """The commits of head that base does not have, parents first. Raises Problem 65: this clone is cut off."""
    told = git.run(
        "rev-list",
        "--reverse",
        "--topo-order",
        "--encoding=UTF-8",
        f"--format={_FORMAT}",
        range_.head,
        f"^{range_.base}",
    )
    fields = told.split(b"\0")
    found = []
    for at in range(1, len(fields) - 1, _FIELDS):
        sha, _, seconds, trailers = fields[at : at + 4]
        last = trailers.decode("utf-8", "replace").split("\x1f")[-1].strip()
        found.append(Commit(sha.decode(), int(seconds or 0) * 1000, last))
    cut = _shallow(git)
    if cut and any(each.sha in cut for each in found):
        raise _too_shallow()
    return found


def changes_of(git: Git, commits: list[Commit]) -> Iterator[tuple[Commit, list[Change]]]:
    """What each commit changes, in their order; those that change nothing are left out. Raises Problem."""
    by_sha = {each.sha: each for each in commits}
    given = "".join(f"{sha}\n" for sha in by_sha).encode()
    told = git.run("diff-tree", "--stdin", "--root", "-c", *_RAW, given=given) if commits else b""
    commit: Commit | None = None
    found: list[Change] = []
    for word, change in _records(told):
        if change is not None:
            found.append(change)
            continue
        if commit is not None and found:
            yield commit, found
        commit, found = by_sha[word], []
    if commit is not None and found:
        yield commit, found


def net_changes(git: Git, range_: Range) -> list[Change]:
    """What head has otherwise than the merge base, all in all. Raises Problem."""
    told = git.run("diff-tree", *_RAW, range_.merge_base, range_.head)
    return [change for _, change in _records(told) if change is not None]


def _records(told: bytes) -> Iterator[tuple[str, Change | None]]:
    """Of git's raw form: commits, each followed by its changes. As many colons as parents; then modes, blobs, path."""
    words = iter(told.split(b"\0"))
    for word in words:
        if not word.startswith(b":"):
            if word:
                yield word.decode(), None
            continue
        parents = len(word) - len(word.lstrip(b":"))
        parts = word[parents:].decode().split(" ")
        modes, blobs = parts[: parents + 1], parts[parents + 1 : 2 * parents + 2]
        named = ["" if not blob.strip("0") else blob for blob in blobs]
        by_lines = len(set(modes)) == 1 and modes[0] in _PLAIN
        if parents > 1 and modes[-1] in modes[:-1] and modes[-1] in _PLAIN and all(mode in _PLAIN for mode in modes):
            by_lines = True  # a merge that takes the mode of one of its parents
        yield "", Change(os.fsdecode(next(words)), tuple(named[:-1]), named[-1], by_lines)


def _commit(git: Git, given: str, option: str) -> str:
    if given and not given.startswith("-") and "\0" not in given:
        found = git.try_run("rev-parse", "--verify", "--quiet", f"{given}^{{commit}}")
        if found is not None:
            return found.decode().strip()
    why = f"--{option} {one_sentence(repr(given))} names no commit here: git fetch it, or give another"
    raise Problem(64, why)


def _shallow(git: Git) -> set[str]:
    """The commits whose parents this clone does not have."""
    try:
        data = read_regular(git.path("shallow"), SHALLOW_BYTES_MAX)
    except OSError:
        return set()
    return set(data.decode("ascii", "replace").split())


def _too_shallow() -> Problem:
    why = "this clone is shallow and does not reach back to where the two parted"
    return Problem(65, f"{why}: git fetch --unshallow (for actions/checkout: fetch-depth: 0)")
