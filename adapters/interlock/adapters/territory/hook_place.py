"""Where git looks for a repository's hooks, and where ours go so that what is there goes on being run.

    core.hooksPath not set, or <common>/hooks  ─▶ in place: <common>/hooks; what was there is kept beside that folder
    core.hooksPath set (husky, a team's folder) ─▶ a folder of our own, to which core.hooksPath leads from then on: its
                                                  hooks call those of the former one, which nobody touches (ADR 31)

All worktrees share both. Nothing is changed here.
"""

import os

import msgspec

from interlock.adapters.territory.git_calls import GitFailed, run

GIT_S = 10.0
OWN = "interlock"  # our folder in the common git directory
KEPT = "hooks-before-bus"  # beside `hooks`, and as deep: what leads from one of its files to `..` leads there still


class NoPlace(Exception):
    """Hooks cannot be installed here; the text is one sentence."""


class HookPlace(msgspec.Struct, frozen=True):
    """Where hooks are, and go.

    Args:
        common: the real path of the common git directory. top: of this worktree; "" in a bare repository.
        said: what core.hooksPath leads to, with `~` put in; relative to a worktree's top, or absolute; "" not set.
        scope: whose configuration says so: "local", "global", "system", "worktree".
        raw: what the repository's own configuration has for it, to the letter; None: nothing.
    """

    common: str
    top: str
    said: str = ""
    scope: str = ""
    raw: str | None = None

    @property
    def folder(self) -> str:
        """Our folder in the common git directory."""
        return os.path.join(self.common, OWN)

    @property
    def own(self) -> str:
        """Our own folder of hooks, where one is needed."""
        return os.path.join(self.folder, "hooks")

    @property
    def default(self) -> str:
        """Where git looks if nobody says anything."""
        return os.path.join(self.common, "hooks")

    @property
    def looked_at(self) -> str:
        """Where git really looks, from this worktree."""
        return os.path.join(self.top or self.common, self.said) if self.said else self.default

    @property
    def is_ours(self) -> bool:
        """Git looks into our own folder."""
        return _same(self.looked_at, self.own)

    @property
    def is_plain(self) -> bool:
        """Git looks into the repository's own hooks folder, and that is really there: ours can go in place."""
        lies = os.path.realpath(self.default) == self.default  # else it is a link into a worktree, or elsewhere
        absolute = not self.said or os.path.isabs(self.said)  # `.git/hooks` leads nowhere in another worktree
        return lies and absolute and _same(self.looked_at, self.default)


def hook_place(cwd: str) -> HookPlace:
    """Where the hooks of the repository of a directory are.

    Args:
        cwd: absolute; in a worktree, a submodule, a bare repository.

    Raises:
        NoPlace: it is in no repository, or core.hooksPath is set in a way that ours cannot be put beside.
    """
    try:
        common = _path(run(["rev-parse", "--git-common-dir"], cwd, timeout_s=GIT_S), cwd)
        inside = run(["rev-parse", "--is-inside-work-tree"], cwd, timeout_s=GIT_S).strip() == b"true"
        top = _path(run(["rev-parse", "--show-toplevel"], cwd, timeout_s=GIT_S), cwd) if inside else ""
        said, scope = _said(cwd)
        local = run(["config", "--local", "-z", "--get", "core.hooksPath"], cwd, timeout_s=GIT_S, accept=(0, 1))
    except GitFailed as error:
        if error.exit_code == 128 and "not a git repository" in str(error):
            raise NoPlace("no git repository here: go into one, then again") from None
        raise NoPlace(f"{error}: mend that, then again") from None
    raw = os.fsdecode(local.removesuffix(b"\0")) if local else None
    return HookPlace(common, top, said, scope, raw)


def _said(cwd: str) -> tuple[str, str]:
    """What core.hooksPath is, and whose configuration has the last word. Raises GitFailed."""
    words = ["config", "--show-scope", "--type=path", "-z", "--get-all", "core.hooksPath"]
    fields = run(words, cwd, timeout_s=GIT_S, accept=(0, 1), hooks_path=True).split(b"\0")
    if len(fields) < 3:
        return "", ""
    return os.fsdecode(fields[-2]), fields[-3].decode()


def _path(line: bytes, cwd: str) -> str:
    """The path that git printed on a line; a newline in it belongs to it."""
    return os.path.realpath(os.path.join(cwd, os.fsdecode(line.removesuffix(b"\n"))))


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
