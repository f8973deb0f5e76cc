"""What changed between versions of files, line by line: any number of pairs of blobs in one git process.

```text
pairs (old blob, new blob) ──▶ two trees that name them 0, 1, 2 … ──▶ one `git diff-tree -p -U0` ──▶ hunks of each pair
```

The trees are written into a folder of their own that is gone afterwards; the repository's objects are only read. A
name that is a number needs no quoting, whatever the files are called.
"""

import os
import re
import tempfile
from collections.abc import Iterable, Sequence

from interlock.adapters.territory.git_call import Git
from interlock.adapters.territory.spans import Hunk, side_of_heading

Pair = tuple[str, str]
_LINE = re.compile(
    rb"^(?:diff --git a/(?P<name>\d+) |@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@|(?P<binary>Binary files ))",
    re.MULTILINE,
)


class LineMaps:
    """The hunks between blobs, each pair asked for once. Args: git: of the repository."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._known: dict[Pair, tuple[Hunk, ...] | None] = {}

    def load(self, pairs: Iterable[Pair]) -> None:
        """Look at all these pairs together. Raises Problem."""
        wanted = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        self._known.update({pair: () for pair in wanted if pair[0] == pair[1]})
        wanted = [pair for pair in wanted if pair[0] != pair[1]]
        there = self._blobs({blob for pair in wanted for blob in pair})
        self._known.update(dict.fromkeys(wanted))
        asked = [pair for pair in wanted if there.issuperset(pair)]
        if asked:
            self._known.update(zip(asked, self._diff(asked), strict=True))

    def hunks(self, old: str, new: str) -> tuple[Hunk, ...] | None:
        """From the old blob to the new one; None where one is not in the object database, or is no text.

        Args: old, new: of a pair that was loaded.
        """
        return self._known[old, new]

    def _blobs(self, names: set[str]) -> set[str]:
        """Those that the object database has, as blobs."""
        asked = sorted(name for name in names if name)
        if not asked:
            return set()
        told = self._git.run("cat-file", "--batch-check", given="".join(f"{name}\n" for name in asked).encode())
        return {words[0].decode() for line in told.splitlines() if (words := line.split())[1:2] == [b"blob"]}

    def _diff(self, pairs: Sequence[Pair]) -> list[tuple[Hunk, ...] | None]:
        with tempfile.TemporaryDirectory(prefix="interlock-") as folder:
            own = {"GIT_OBJECT_DIRECTORY": folder, "GIT_ALTERNATE_OBJECT_DIRECTORIES": self._alternates()}
            trees = [self._tree([pair[side] for pair in pairs], own) for side in (0, 1)]
            text = self._git.run(
                "diff-tree", "-r", "-p", "-U0", "--inter-hunk-context=0", "--no-renames", "--no-color", "--no-ext-diff",
                "--no-textconv", "--full-index", *trees, setting=own,
            )  # fmt: skip
        found: list[list[Hunk] | None] = [[] for _ in pairs]
        at = 0
        for line in _LINE.finditer(text):
            hunks = found[at]
            if line["name"]:
                at = int(line["name"])
            elif line["binary"]:
                found[at] = None
            elif hunks is not None:
                hunks.append(Hunk(side_of_heading(line[2], line[3]), side_of_heading(line[4], line[5])))
        return [None if each is None else tuple(each) for each in found]

    def _tree(self, blobs: Sequence[str], own: dict[str, str]) -> str:
        listing = "".join(f"100644 blob {blob}\t{number}\0" for number, blob in enumerate(blobs))
        return self._git.run("mktree", "-z", given=listing.encode(), setting=own).strip().decode()

    def _alternates(self) -> str:
        """The repository's own objects, and where those of an update that is only being looked at lie."""
        before = os.environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "")
        quoted = self._git.path("objects").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{quoted}"' + (f":{before}" if before else "")
