"""Git, called so that nothing of a repository's own configuration runs, and nothing hides what a commit is.

No shell, no hook, no monitor, no external diff, no text conversion, no replaced object or graft, no lock that others
would wait for; bounded time and output; bytes in and bytes out. It never writes into the repository.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from typing import IO

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
SET = {
    "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ATTR_NOSYSTEM": "1", "GIT_GRAFT_FILE": os.devnull,
}  # fmt: skip


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

    def _call(
        self, words: tuple[str, ...], given: bytes, setting: Mapping[str, str] | None
    ) -> tuple[int, bytes, bytes]:
        settings = [word for each in SETTINGS for word in ("-c", each)]
        environment = {**_environment(), **(setting or {})}
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.write(given)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    ["git", "--no-pager", *settings, *words],
                    cwd=self.directory, env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr,
                    process_group=0,
                )  # fmt: skip
            except FileNotFoundError:
                raise Problem(69, "git is not found: install it, or set PATH so that it is") from None
            except OSError as error:
                raise Problem(69, f"git cannot be started ({error.strerror}): mend that, then again") from None
            output = _read(process, words[0])
            stderr.seek(0)
            return process.returncode, output, stderr.read(64 * 1024)


def _read(process: "subprocess.Popen[bytes]", word: str) -> bytes:
    """All that it prints, until its end. Raises Problem; the process is gone in any case."""
    assert process.stdout is not None
    late = threading.Event()

    def give_up() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(GIT_S_MAX, give_up)
    timer.daemon = True
    timer.start()
    try:
        output = _at_most(process.stdout, OUTPUT_BYTES_MAX)
        if len(output) <= OUTPUT_BYTES_MAX:
            process.wait()
    finally:
        timer.cancel()
        _kill(process)
        process.wait()
        process.stdout.close()
    if late.is_set():
        raise Problem(74, f"git {word} took longer than {GIT_S_MAX:.0f} s: verify less at once, with a nearer --base")
    if len(output) > OUTPUT_BYTES_MAX:
        raise Problem(65, f"git {word} has too much to say of so many changes: verify less, with a nearer --base")
    return output


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """With all that it has started, which may hold its output open; one that was waited for is left alone."""
    if process.returncode is None:  # not poll(): until it is waited for, nobody else can have its number
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _at_most(stream: IO[bytes], bytes_max: int) -> bytes:
    chunks, left = [], bytes_max + 1
    while left > 0 and (chunk := stream.read(min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in KEPT or name.startswith("GIT_CONFIG")
    }
    return {**kept, **SET}


def _failed(word: str, said: bytes) -> Problem:
    text = said.decode("utf-8", "replace").strip()
    if "not a git repository" in text:
        return Problem(64, "no git repository here: go into one")
    first = one_sentence(text.partition("\n")[0]) or "it gave no reason"
    return Problem(74, f"git {word} failed ({first}): mend that, then again")
