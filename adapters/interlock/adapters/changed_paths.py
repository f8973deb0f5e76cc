"""What git shows as changed in a worktree since a commit: committed, not yet committed, and not followed."""

import os

from interlock.adapters.git_head import head_of
from interlock.adapters.territory.git_calls import GitFailed, run
from interlock.protocol.limits import CHANGES_REPORTED_MAX

GIT_S = 30.0
PATHS_BYTES_MAX = 32 * 1024  # of one message, which has 64 KiB


def changed_since(worktree: str, base: str) -> tuple[list[dict[str, str]], int]:
    """Every path that differs from where the worktree's branch and that commit part.

    Args: worktree: its top. base: a commit, in hex; "" or one that is not here: what is not committed yet.

    Returns:
        Rows of path and git's letter, sorted, as many as a report takes; and how many were left out.

    Raises:
        GitFailed: in one sentence.
    """
    since = _parting(worktree, base)
    found: dict[str, str] = {}
    if since:
        said = run(
            ["diff", "--name-status", "-z", "--no-renames", "--no-ext-diff", since, "--"], worktree, timeout_s=GIT_S
        )
        words = os.fsdecode(said).split("\0")
        found = dict(zip(words[1::2], (letter[:1] for letter in words[::2]), strict=False))
    new = run(["ls-files", "--others", "--exclude-standard", "-z"], worktree, timeout_s=GIT_S)
    found |= dict.fromkeys(filter(None, os.fsdecode(new).split("\0")), "?")
    rows, size = list[dict[str, str]](), 0
    for path in sorted(found):
        shown = path.encode("utf-8", "replace").decode()
        size += len(shown.encode()) + 32
        if len(rows) == CHANGES_REPORTED_MAX or size > PATHS_BYTES_MAX:
            break
        rows.append({"path": shown, "how": found[path]})
    return rows, len(found) - len(rows)


def _parting(worktree: str, base: str) -> str:
    """Where HEAD and a commit part; else HEAD; "" before the first commit."""
    head = head_of(worktree)
    if not base or not head:
        return head
    try:
        said = run(["merge-base", base, head], worktree, timeout_s=GIT_S, accept=(0, 1, 128))
    except GitFailed:
        return head
    return said.decode("ascii", "replace").strip() or head
