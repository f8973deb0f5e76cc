"""Git, called so that nothing of a repository's own configuration runs, and nothing hides what a commit is.

No shell, no hook, no monitor, no external diff, no text conversion, no replaced object or graft, no lock that others
would wait for; bounded time and output; bytes in and bytes out. It never writes into the repository.
"""

import os
from collections.abc import Mapping

from interlock.adapters.territory.git_process import ALONE, NotCalled, Said, TooMuch, TooSlow, call
from interlock.adapters.territory.problem import Problem
from interlock.protocol.visible import one_sentence

GIT_S_MAX = 120.0  # a million pairs take some ten seconds; what takes longer waits for something that does not come
OUTPUT_BYTES_MAX = 512 * 1024 * 1024  # more than two million changed paths
SETTINGS = (
    "core.fsmonitor=", f"core.hooksPath={os.devnull}", f"core.attributesFile={os.devnull}", "core.quotePath=off",
    "core.splitIndex=false", "protocol.ext.allow=never", "trailer.separators=:",
)  # fmt: skip
# Where the repository is, and what a CI run has set for it (safe.directory); everything else of git's is left out.
KEPT = {
    "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_QUARANTINE_PATH", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM",
}  # fmt: skip
SET = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_ATTR_NOSYSTEM": "1", "GIT_GRAFT_FILE": os.devnull}


class Git:
    """Git in one directory. Args: directory: absolute, in a repository or a bare one."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def run(self, *words: str, given: bytes = b"", setting: Mapping[str, str] | None = None) -> bytes:
        """What a git command prints.

        Args:
            words: the command and its arguments. given: its standard input. setting: more of the environment.

        Raises:
            Problem: 74 it failed, in its own words; 69 there is no git; 65 it says too much; 64 no repository is here.
        """
        code, output, said = self._call(words, given, setting)
        if code:
            raise _failed(words[0], said)
        return output

    def try_run(self, *words: str) -> bytes | None:
        """The same; None where git says no, which is its exit code 1. Raises Problem."""
        code, output, said = self._call(words, b"", None)
        if code > 1 or code < 0:
            raise _failed(words[0], said)
        return None if code else output

    def path(self, name: str) -> str:
        """Where something of the git directory lies, absolute. Raises Problem."""
        found = self.run("rev-parse", "--git-path", name).removesuffix(b"\n")
        return os.path.join(self.directory, os.fsdecode(found))

    def _call(self, words: tuple[str, ...], given: bytes, setting: Mapping[str, str] | None) -> Said:
        settings = [word for each in SETTINGS for word in ("-c", each)]
        environment = {**_environment(), **(setting or {})}
        word = words[0]
        try:
            return call(
                [*settings, *words], self.directory, environment, given=given, timeout_s=GIT_S_MAX,
                output_bytes_max=OUTPUT_BYTES_MAX,
            )  # fmt: skip
        except NotCalled as error:
            raise Problem(69, str(error)) from None
        except TooSlow:
            why = f"git {word} took longer than {GIT_S_MAX:.0f} s: verify less at once, with a nearer --base"
            raise Problem(74, why) from None
        except TooMuch:
            why = f"git {word} has too much to say of so many changes: verify less, with a nearer --base"
            raise Problem(65, why) from None


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in KEPT or name.startswith("GIT_CONFIG")
    }
    return {**kept, **ALONE, **SET}


def _failed(word: str, said: bytes) -> Problem:
    text = said.decode("utf-8", "replace").strip()
    if "not a git repository" in text:
        return Problem(64, "no git repository here: go into one")
    first = one_sentence(text.partition("\n")[0]) or "it gave no reason"
    return Problem(74, f"git {word} failed ({first}): mend that, then again")
