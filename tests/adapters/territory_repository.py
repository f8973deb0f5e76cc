"""A repository for tests of the territory: commits at chosen moments, and the history of leases beside them."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

T0 = 1_790_000_000_000  # wall clock of a base commit, ms
MINUTE = 60_000
QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


class Repository:
    """A real one, in a folder. `main` is its first branch."""

    def __init__(self, place: Path, *options: str) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main", *options)

    def git(self, *words: str, at_ms: int = T0, given: bytes = b"") -> str:
        """Run git here, at that moment; what it prints."""
        date = f"{at_ms // 1000} +0000"
        env = {"PATH": os.environ["PATH"], **QUIET, "GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date}
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "protocol.file.allow=always"]
        done = subprocess.run(
            ["git", *identity, "-C", str(self.place), *words], input=given, capture_output=True, env=env, check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        """Files with that content; None: it is gone."""
        for name, content in files.items():
            path = self.place / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(
        self, files: Mapping[str, str | bytes | None], agent: str = "", *, minute: float = 0, message: str = "x"
    ) -> str:
        """Commit these so many minutes after T0, with the trailer of an agent; the commit's id."""
        self.write(files)
        self.git("add", "-A")
        trailer = f"\n\nInterlock-Agent: {agent}" if agent else ""
        at_ms = T0 + int(minute * MINUTE)
        self.git("commit", "-q", "--allow-empty", "-m", message + trailer, at_ms=at_ms)
        return self.git("rev-parse", "HEAD")

    def blob(self, path: str, revision: str = "HEAD") -> str:
        return self.git("rev-parse", f"{revision}:{path}")


def lines(*changed: int, count: int = 60, inserted: Mapping[int, int] | None = None) -> str:
    """A text of numbered lines, some of them changed. Args: inserted: so many new lines behind that one."""
    text = []
    for number in range(count + 1):
        if number:
            text.append(f"{number} changed" if number in changed else f"{number}")
        text += [f"new {number}.{each}" for each in range((inserted or {}).get(number, 0))]
    return "".join(f"{line}\n" for line in text)


def lease(
    agent: str, *claims: str | dict[str, Any], begun: float = 0, ended: float | None = None, how: str = "", **more: Any
) -> dict[str, Any]:
    """A lease of an export. Args: begun, ended: minutes after T0."""
    named = [{"pattern": each} if isinstance(each, str) else each for each in claims]
    given = {
        "lease": f"{agent}/{named[0]['pattern']}@{begun}", "agent": agent, "claims": named, "shared": False,
        "parent": "", "from_ms": T0 + int(begun * MINUTE),
        "to_ms": None if ended is None else T0 + int(ended * MINUTE),
        "how": how or ("" if ended is None else "expired"),
    }  # fmt: skip
    return {**given, **more}


def ranged(path: str, first: int, last: int, blob: str = "") -> dict[str, Any]:
    return {"pattern": path, "first": first, "last": last, "blob": blob}


def document(
    *leases: dict[str, Any], commits: Mapping[str, tuple[str, int]] | None = None, complete_from_ms: int = 0
) -> dict[str, Any]:
    """An export. Args: commits: agent and wall clock of each."""
    made = {sha: {"agent": agent, "at_ms": at_ms} for sha, (agent, at_ms) in (commits or {}).items()}
    return {
        "interlock_export": 1, "territory": "territory/" + "0" * 32, "at": "2026-11-30T04:00:00.000Z",
        "complete_from_ms": complete_from_ms, "leases": list(leases), "commits": made,
    }  # fmt: skip
