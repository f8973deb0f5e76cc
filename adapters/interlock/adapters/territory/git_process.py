"""One call of git as a process: bounded in time and output, and nothing that it has started outlives it."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from interlock.protocol.visible import one_sentence

COMPLAINT_BYTES_MAX = 16 * 1024
CHUNK_BYTES = 256 * 1024
# It asks nobody, waits for no lock of others, and speaks as it is read here.
ALONE = {
    "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes", "LC_ALL": "C", "LANGUAGE": "C",
}  # fmt: skip


class NotCalled(Exception):
    """It could not be started; the text is one sentence."""


class TooSlow(Exception):
    """It did not end in time, or what it has started did not."""


class TooMuch(Exception):
    """It says more than was to be taken."""


class Said(NamedTuple):
    """Args: code: its exit code. complaint: the beginning of its stderr."""

    code: int
    output: bytes
    complaint: bytes


def call(
    words: Sequence[str | bytes],
    cwd: str,
    environment: Mapping[str, str],
    *,
    given: bytes = b"",
    timeout_s: float,
    output_bytes_max: int,
) -> Said:
    """Run it to its end.

    Args:
        words: what stands behind `git --no-pager`. cwd: an absolute directory. given: for its stdin, then closed.
        timeout_s: then it and what it has started are killed.

    Raises:
        NotCalled, TooSlow, TooMuch.
    """
    try:
        process = subprocess.Popen(
            ["git", "--no-pager", *words], cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, process_group=0,
        )  # fmt: skip
    except FileNotFoundError as error:
        gone = f"{cwd} is not there any more: go into a folder that is"
        missing = "git is not found: install it, or set PATH so that it is"
        raise NotCalled(missing if error.filename == "git" else one_sentence(gone)) from None
    except OSError as error:
        raise NotCalled(one_sentence(f"git cannot be started in {cwd} ({error.strerror}): mend that")) from None
    try:
        output, complaint = _talk(process, given, time.monotonic() + timeout_s, output_bytes_max)
        code = process.wait(max(0.1, timeout_s))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise TooSlow from None
    finally:
        _end(process)
    if len(output) > output_bytes_max:
        raise TooMuch
    return Said(code, bytes(output), bytes(complaint))


# --- straight helpers -------------------------------------------------------------------------
def _talk(
    process: "subprocess.Popen[bytes]", given: bytes, until: float, output_bytes_max: int
) -> tuple[bytearray, bytearray]:
    """Feed it, and take what it says, at most a little more than is allowed. Raises TimeoutError."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    output, complaint, rest = bytearray(), bytearray(), memoryview(given)
    most = {process.stdout: (output, output_bytes_max), process.stderr: (complaint, COMPLAINT_BYTES_MAX)}
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
                if not chunk or (into is output and len(output) > limit):
                    wait.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]  # a stream, not a number
    return output, complaint


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
