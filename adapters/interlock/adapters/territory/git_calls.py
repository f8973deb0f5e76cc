"""Git, called so that it asks nobody, waits for nobody, takes no lock that it could do without, and ends in time.

Everything that a caller's environment says to git (GIT_DIR, `git -c`, …) is left out: only a hook keeps what git itself
gave it. What the user's own configuration says counts, as in any call of git, but for hooks and file monitors: no
program of these runs. Filters do (`git lfs`): without them no content could be compared.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping

from interlock.protocol.visible import one_sentence

OUTPUT_BYTES_MAX = 256 * 1024 * 1024  # 100,000 paths of 1 KB fit twice; what is larger would fill our memory
COMPLAINT_BYTES_MAX = 16 * 1024
CHUNK_BYTES = 256 * 1024
CALM = ("-c", "core.fsmonitor=", "-c", "core.pager=cat", "-c", "core.quotePath=false")
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
# Where git looks for its configuration, as the user or an administrator has set it up; no word of a caller to git.
SETTINGS = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"})
# What git gives a hook: which repository, and which index is being committed (`git commit -a` has one of its own).
OF_A_HOOK = frozenset(
    {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE",
     "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG_PARAMETERS"}
)  # fmt: skip


class GitFailed(Exception):
    """Git could not say it; the text is one sentence.

    Args:
        why: the sentence. exit_code: git's own; -1 where it was not found, took too long or said too much.
    """

    def __init__(self, why: str, exit_code: int = -1) -> None:
        super().__init__(why)
        self.exit_code = exit_code


def run(
    args: Iterable[str | bytes],
    cwd: str,
    *,
    input: bytes = b"",  # noqa: A002 - as subprocess has it
    timeout_s: float,
    keep: frozenset[str] = frozenset(),
    accept: tuple[int, ...] = (0,),
    hooks_path: bool = False,
) -> bytes:
    """Call git once.

    Args:
        args: what stands behind `git`. cwd: an absolute directory.
        input: for its stdin, which is closed after it. timeout_s: then it and what it has started are killed.
        keep: names of the environment that count besides; OF_A_HOOK inside of one.
        accept: exit codes that are answers. hooks_path: core.hooksPath as it is, to ask for it.

    Returns:
        Its stdout.

    Raises:
        GitFailed: not found, an exit code that is no answer, too slow, or more than OUTPUT_BYTES_MAX.
    """
    words = ["git", "--no-pager", *CALM, *(() if hooks_path else NO_HOOKS), *args]
    named = next((word for word in args if isinstance(word, str) and not word.startswith("-")), "")
    try:
        process = subprocess.Popen(
            words, cwd=cwd, env=environment(os.environ, keep), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, process_group=0,
        )  # fmt: skip
    except FileNotFoundError as error:
        missing = "git is not found: install git" if error.filename == "git" else f"{cwd} is not there any more"
        raise GitFailed(one_sentence(missing)) from None
    except OSError as error:
        raise GitFailed(one_sentence(f"git cannot be started in {cwd} ({error.strerror})")) from None
    try:
        said, complaint = _talk(process, input, time.monotonic() + timeout_s)
        code = process.wait(max(0.1, timeout_s))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise GitFailed(f"git {named} did not end within {timeout_s:g} s") from None
    finally:
        _end(process)
    if len(said) > OUTPUT_BYTES_MAX:
        raise GitFailed(f"git {named} says more than {OUTPUT_BYTES_MAX // 1024 // 1024} MiB")
    if code not in accept:
        raise GitFailed(_complaint(named, code, complaint), code)
    return bytes(said)


def environment(base: Mapping[str, str], keep: frozenset[str] = frozenset()) -> dict[str, str]:
    """What git is started with. Args: base: usually os.environ. keep: names that begin with GIT_ and count."""
    kept = {name: value for name, value in base.items() if not name.startswith("GIT_") or name in SETTINGS | keep}
    return kept | {
        "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes", "LC_ALL": "C", "LANGUAGE": "C",
    }  # fmt: skip


def _talk(process: "subprocess.Popen[bytes]", given: bytes, until: float) -> tuple[bytearray, bytearray]:
    """Feed it, and take what it says, at most a little more than is allowed. Raises TimeoutError."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    said, complaint, rest = bytearray(), bytearray(), memoryview(given)
    most = {process.stdout: (said, OUTPUT_BYTES_MAX), process.stderr: (complaint, COMPLAINT_BYTES_MAX)}
    with selectors.DefaultSelector() as wait:
        for stream in most:
            wait.register(stream, selectors.EVENT_READ)
        if rest:
            os.set_blocking(process.stdin.fileno(), False)
            wait.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while wait.get_map():
            ready = wait.select(max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    with contextlib.suppress(BlockingIOError):
                        rest = rest[_written(key.fd, rest) :]
                    if not rest:
                        wait.unregister(process.stdin)
                        process.stdin.close()
                    continue
                chunk = os.read(key.fd, CHUNK_BYTES)
                into, limit = next(each for stream, each in most.items() if stream is key.fileobj)
                if len(into) <= limit:
                    into += chunk
                if not chunk or (into is said and len(said) > limit):
                    wait.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]  # a stream, not a number
    return said, complaint


def _written(fd: int, rest: memoryview) -> int:
    """How much it took; all of it where it reads no more. Raises BlockingIOError."""
    try:
        return os.write(fd, rest[:CHUNK_BYTES])
    except BrokenPipeError:
        return len(rest)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Nothing of it stays, whatever came between."""
    if process.returncode is None:  # not poll(): it may have ended, and what it has started not
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _complaint(named: str, code: int, complaint: bytearray) -> str:
    """What git said was wrong: its first line that says so."""
    lines = [line.strip() for line in complaint.decode("utf-8", "replace").splitlines() if line.strip()]
    wrong = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "")
    why = wrong.partition(": ")[2] if wrong.startswith(("fatal:", "error:")) else wrong
    return one_sentence(f"git {named} failed (exit {code}{f': {why}' if why else ''})")
