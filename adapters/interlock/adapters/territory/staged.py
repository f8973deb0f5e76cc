"""What a hook sees: what is about to be committed, in the index that git names, and what a push would bring.

Who merges did not change what comes from the other side: of a merge, only what is in none of its parents is looked at.
"""

import os
import re
import time
from collections.abc import Collection, Sequence

from interlock.adapters.small_files import read_regular
from interlock.adapters.territory.cover import Moved, as_taken
from interlock.adapters.territory.git_calls import OF_A_HOOK, GitFailed, run
from interlock.adapters.territory.needs_none import ATTRIBUTE, FILE, FILE_BYTES_MAX, generated, named, question
from interlock.adapters.territory.spans import Hunk, Span, moved, side_of_heading
from interlock.protocol.claim import Claim
from interlock.protocol.glob import BadPattern, Pattern

PLAIN = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-color")
NO_CONTEXT = ("-U0", "--inter-hunk-context=0")
LOG = ("log", "--format=", "--no-show-signature")
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


# What the repository says is generated, and not its user: `bus verify` knows no user.
OWN_ATTRIBUTES = (f"core.attributesFile={os.devnull}",)


class Changes:
    """Changes in one worktree: which paths, and on demand which lines of them.

    Args:
        cwd: absolute; the worktree's top. against: words of `git diff` that say between what and what.
        until: monotonic s; no question to git goes on after it. keep: names of the environment that git may read.
    """

    def __init__(
        self, cwd: str, against: Sequence[str], *, until: float, keep: frozenset[str] = frozenset()
    ) -> None:  # fmt: skip
        self._cwd = cwd
        self._against = tuple(against)
        self._until = until
        self._keep = keep
        self._old: dict[str, str] = {}  # object id of the old side, of what can be put into lines
        self._lines: dict[str, Sequence[Span] | None] = {}

    def paths(self) -> list[str]:
        """Every changed path; of a file that was renamed, both. Raises GitFailed."""
        fields = self.git("diff", "--raw", "-z", "--no-abbrev", *PLAIN, *self._against).split(b"\0")
        found = []
        for words, path in zip(fields[0::2], fields[1::2], strict=False):
            old_mode, new_mode, old, _, status = words.removeprefix(b":").split(b" ")
            name = os.fsdecode(path)
            found.append(name)
            if status[:1] == b"M" and old_mode == new_mode and not old_mode.startswith(b"16"):
                self._old[name] = old.decode()
        return found

    def lines(self, path: str) -> Sequence[Span] | None:
        """The lines of the old side that were changed; None: the file as a whole, or no text. Raises GitFailed."""
        if path not in self._old:
            return None
        if path not in self._lines:
            self._lines[path] = _spans(self._hunks(*self._against, "--", f":(top,literal){path}"))
        return self._lines[path]

    def moved(self, path: str) -> Moved:
        """Where a range of that path lies in the old side, whatever was committed since it was taken."""

        def where(claim: Claim, own: bool) -> Span:
            old, span = self._old.get(path, ""), as_taken(claim, own)
            if not claim.blob or not old or claim.blob == old or set(old) == {"0"}:
                return span
            try:
                hunks = self._hunks(claim.blob, old)
            except GitFailed:  # that content was never added to the repository: the numbers are all there is
                return span
            return span if hunks is None else moved(span, hunks, wide=own)

        return where

    def git(
        self, *words: str, given: bytes = b"", accept: tuple[int, ...] = (0,), settings: tuple[str, ...] = ()
    ) -> bytes:
        """One question. Raises GitFailed."""
        left_s = round(max(0.05, self._until - time.monotonic()), 3)
        return run(
            words, self._cwd, input=given, timeout_s=left_s, keep=self._keep, accept=accept, settings=settings
        )  # fmt: skip

    def free(self, paths: Collection[str], *, cached: bool) -> set[str]:
        """Those that need no lease: `[territory] exclude`, and what .gitattributes call generated.

        Args: cached: as the index has both, else as the worktree has. Raises GitFailed.
        """
        if not paths:
            return set()
        found = named(paths, excluded(self._bus_toml(cached)))
        rest = [path for path in paths if path not in found]
        if not rest:
            return found
        words = ["check-attr", "-z", *(["--cached"] if cached else []), "--stdin", ATTRIBUTE]
        return found | generated(self.git(*words, given=question(rest), settings=OWN_ATTRIBUTES))

    def _bus_toml(self, cached: bool) -> bytes:
        if cached:
            try:
                return self.git("cat-file", "blob", f":{FILE}")
            except GitFailed:
                return b""
        try:
            return read_regular(os.path.join(self._cwd, FILE), FILE_BYTES_MAX)
        except OSError:
            return b""

    def _hunks(self, *words: str) -> list[Hunk] | None:
        said = self.git("diff", *NO_CONTEXT, *PLAIN, *words)
        if re.search(rb"^Binary files ", said, re.MULTILINE):
            return None
        return _hunks_of(said)


class Staged(Changes):
    """What is about to be committed, as a hook's environment says. Args: as for Changes."""

    def __init__(self, cwd: str, *, until: float) -> None:
        super().__init__(cwd, ["--cached"], until=until, keep=OF_A_HOOK)

    def paths(self) -> list[str]:
        found = super().paths()
        for parent in self._merged():
            there = {*Changes(self._cwd, ["--cached", parent], until=self._until, keep=self._keep).paths()}
            found = [path for path in found if path in there]
        return found

    def _merged(self) -> list[str]:
        """What is being merged, besides HEAD. Raises GitFailed."""
        file = os.fsdecode(self.git("rev-parse", "--git-path", "MERGE_HEAD").removesuffix(b"\n"))
        try:
            said = read_regular(os.path.join(self._cwd, file), FILE_BYTES_MAX)
        except OSError:
            return []
        return [word.decode() for word in said.split() if word.isalnum()]


class Pushed(Changes):
    """What a push would bring that the remote has not yet. Args: tip: commit. known: commits that it has."""

    def __init__(self, cwd: str, tip: str, known: Sequence[str], *, until: float) -> None:
        super().__init__(cwd, (), until=until, keep=OF_A_HOOK)
        self._range = [tip, *(["--not", *known] if known else [])]

    def paths(self) -> list[str]:
        said = self.git(*LOG, "--name-only", "-z", *PLAIN, *self._range)
        return sorted({os.fsdecode(path) for path in said.split(b"\0") if path})

    def lines(self, path: str) -> Sequence[Span] | None:
        if path not in self._lines:
            said = self.git(*LOG, "-p", *NO_CONTEXT, *PLAIN, *self._range, "--", f":(top,literal){path}")
            whole = re.search(rb"^(?:Binary files |new file mode|deleted file mode|old mode)", said, re.MULTILINE)
            self._lines[path] = None if whole else _spans(_hunks_of(said))
        return self._lines[path]


def excluded(data: bytes) -> list[Pattern]:
    """What `[territory] exclude` of a bus.toml names. One that is wrong excludes nothing."""
    import tomllib

    if b"territory" not in data or len(data) > FILE_BYTES_MAX:
        return []
    try:
        table = tomllib.loads(data.decode()).get("territory", {})
        said = table.get("exclude", []) if isinstance(table, dict) else []
        return [Pattern.parse(each) for each in said if isinstance(each, str)] if isinstance(said, list) else []
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, BadPattern):
        return []


def _hunks_of(diff: bytes) -> list[Hunk]:
    """Every hunk of a diff, by its heading."""
    return [Hunk(side_of_heading(each[1], each[2]), side_of_heading(each[3], each[4])) for each in _HUNK.finditer(diff)]


def _spans(hunks: list[Hunk] | None) -> list[Span] | None:
    return None if hunks is None else [each.old for each in hunks]
