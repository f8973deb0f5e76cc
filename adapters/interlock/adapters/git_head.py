"""The commit that a worktree is at, as git itself says it; of a worktree that somebody already runs commands in."""

import subprocess

GIT_S = 5.0


def short_head(worktree: str) -> str:
    """HEAD, short; "" where there is none. Takes no lock of git's."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", worktree, "rev-parse", "--short=12", "HEAD"],
            capture_output=True, timeout=GIT_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("ascii", "replace").strip() if done.returncode == 0 else ""
