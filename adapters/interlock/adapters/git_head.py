"""The commit that a worktree is at, as git itself says it."""

from interlock.adapters.territory.git_calls import GitFailed, run

GIT_S = 5.0


def short_head(worktree: str) -> str:
    """HEAD, short; "" where there is none. Takes no lock of git's."""
    try:
        return run(["rev-parse", "--short=12", "HEAD"], worktree, timeout_s=GIT_S).decode("ascii", "replace").strip()
    except GitFailed:
        return ""
