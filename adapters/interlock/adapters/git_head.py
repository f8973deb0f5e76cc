"""The commit that a worktree is at, as git itself says it."""

from interlock.adapters.territory.git_calls import GitFailed, run

GIT_S = 5.0


def head_of(worktree: str) -> str:
    """HEAD, in hex; "" where there is none, or no git. Takes no lock of git's."""
    return _head("--verify", worktree)


def short_head(worktree: str) -> str:
    """The same, short."""
    return _head("--short=12", worktree)


def _head(form: str, worktree: str) -> str:
    try:
        return run(["rev-parse", form, "HEAD"], worktree, timeout_s=GIT_S).decode("ascii", "replace").strip()
    except GitFailed:
        return ""
