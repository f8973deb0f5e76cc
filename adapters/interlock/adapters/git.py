"""Git by its files alone: which repository a directory belongs to, and whether that repository knows it.

    <worktree>/.git ── directory ─────────────▶ common git directory
                    └─ "gitdir: …" ▶ gitdir ── commondir ──▶ common git directory

Git itself is never called: a repository's configuration can name programs that it runs (core.fsmonitor, hooks), and
nothing of a repository that nobody trusted may run.
"""

import os

from interlock.adapters.small_files import read_regular
from interlock.adapters.worktrees import git_top
from interlock.coordinator.repositories import Place, repository_id

POINTER_BYTES_MAX = 8 * 1024  # a path, and a word before it
GIT_CONFIG_BYTES_MAX = 64 * 1024


def place_of(directory: str) -> Place | None:
    """The repository that a directory belongs to.

    Args:
        directory: absolute; anything else, and what lies outside of any repository, has none.
    """
    try:
        worktree = git_top(directory)
        return _place(worktree) if worktree else None
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return None


def _place(worktree: str) -> Place | None:
    gitdir = _git_directory(worktree)
    if gitdir is None:
        return None
    pointer = _read(os.path.join(gitdir, "commondir"), POINTER_BYTES_MAX)
    common = _resolve(gitdir, pointer) if pointer else gitdir
    if not os.path.isfile(os.path.join(common, "HEAD")):
        return None
    main = _main_of(common)
    if common == gitdir:  # it says that it is the main one
        listed = main == worktree
        main = main or worktree
    else:
        back = _read(os.path.join(gitdir, "gitdir"), POINTER_BYTES_MAX)
        listed = bool(back) and _resolve(gitdir, back) == os.path.join(worktree, ".git")
    return Place(repository_id(os.fsencode(common)), common, main, worktree, listed)


def _git_directory(worktree: str) -> str | None:
    dot = os.path.join(worktree, ".git")
    if os.path.isdir(dot):
        return os.path.realpath(dot)
    said = _read(dot, POINTER_BYTES_MAX)
    return _resolve(worktree, said.removeprefix(b"gitdir:")) if said.startswith(b"gitdir:") else None


def _main_of(common: str) -> str:
    """The main worktree, as the common directory itself says; "" where it does not."""
    above = os.path.dirname(common)
    if os.path.basename(common) == ".git":
        return above
    if _git_directory(above) == common:  # a bare one beside a .git file that leads to it
        return above
    config = _read(os.path.join(common, "config"), GIT_CONFIG_BYTES_MAX).decode("utf-8", "surrogateescape")
    said = _core_worktree(config)
    return os.path.realpath(os.path.join(common, said)) if said else ""


def _core_worktree(config: str) -> str:
    """`core.worktree`, line by line: a pattern over a stranger's whole file can be made to take minutes."""
    is_core = False
    for line in config.split("\n"):
        word = line.strip()
        if word.startswith("["):
            is_core = word.lower() == "[core]"
            continue
        name, equals, value = word.partition("=")
        if is_core and equals and name.strip().lower() == "worktree":
            return value.strip().strip('"')
    return ""


def _resolve(base: str, pointer: bytes) -> str:
    """The real path that a pointer file leads to. Only its last part may be missing."""
    return os.path.realpath(os.path.join(base, os.fsdecode(pointer.strip(b"\r\n").lstrip(b" "))))


def _read(path: str, bytes_max: int) -> bytes:
    """A small regular file's content; empty where there is none, or it is larger."""
    try:
        data = read_regular(path, bytes_max, follow=True)
    except OSError:
        return b""
    return data if len(data) <= bytes_max else b""
