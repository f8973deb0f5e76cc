"""Worktrees: which git top a directory is in. Standard library only: programs import it at every start."""

import os


def git_top(directory: str) -> str:
    """The real path of the innermost directory above, or at, `directory` that holds `.git`; "" where none does."""
    if not os.path.isabs(directory):
        return ""
    folder = os.path.realpath(directory)
    while not os.path.exists(os.path.join(folder, ".git")):
        if folder == os.path.dirname(folder):
            return ""
        folder = os.path.dirname(folder)
    return folder


def worktree_of(given: str | os.PathLike[str] | None) -> str:
    """The directory that a REQUEST names: what was given, else the git top here, else "-"."""
    if given is not None:
        return "-" if given == "-" else os.path.abspath(given)
    try:
        return git_top(os.getcwd()) or "-"
    except OSError:
        return "-"
