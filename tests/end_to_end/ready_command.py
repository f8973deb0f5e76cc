"""`bus` to its end in a tenth of the time: from a process that has imported already, see tests/fixtures/ready_bus.py.

Four fifths of a short `bus` is the import of its command line parser. A thousand such imports are two minutes of a test
run, and prove nothing that those which are started for real (`Bus.start`, `Bus.launch`, the demo, the wheel) do not.
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path


class ReadyCommand:
    """One waiting process for all tests of a worker; commands may be run from several threads at once."""

    def __init__(self, python: Path, program: Path, command: Path) -> None:
        self._argv = [str(python), str(program)]
        self._command = str(command)
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None  # ours for as long as we live

    def run(
        self, words: tuple[str, ...], cwd: Path, env: Mapping[str, str], stdin: bytes, within_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run one to its end, as `subprocess.run` with pipes does. Raises subprocess.TimeoutExpired."""
        argv = [self._command, *words]
        request = json.dumps({"argv": argv, "cwd": str(cwd), "env": dict(env)}).encode()
        given, ours_in = os.pipe()
        ours_out, out = os.pipe()
        ours_err, err = os.pipe()
        ours_code, code = os.pipe()
        try:
            with self._lock:
                sent = socket.send_fds(self._waiting(), [request], [given, out, err, code])
            assert sent == len(request)
        finally:
            for fd in (given, out, err, code):
                os.close(fd)
        said = _communicate(ours_in, stdin, (ours_out, ours_err, ours_code), argv, within_s)
        pid_and_code = said[2].split()
        returned = int(pid_and_code[1]) if len(pid_and_code) == 2 else -signal.SIGKILL
        return subprocess.CompletedProcess(argv, returned, _text(said[0]), _text(said[1]))

    def _waiting(self) -> socket.socket:
        if self._requests is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for each in (ours, theirs):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
            self._process = subprocess.Popen(  # it ends with its last request: when our end of the socket is closed
                self._argv,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=kept,
            )
            theirs.close()
            self._requests = ours
        return self._requests


def _communicate(
    stdin: int, given: bytes, streams: tuple[int, int, int], argv: list[str], within_s: float
) -> tuple[bytes, bytes, bytes]:
    """Write all, read all until everybody has closed; the third stream says the pid first."""
    end = time.monotonic() + within_s
    said: dict[int, bytes] = dict.fromkeys(streams, b"")
    with selectors.DefaultSelector() as selector:
        for fd in streams:
            selector.register(fd, selectors.EVENT_READ)
        os.set_blocking(stdin, False)
        selector.register(stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready and time.monotonic() >= end:
                with contextlib.suppress(ProcessLookupError, ValueError, IndexError):
                    os.kill(int(said[streams[2]].split()[0]), signal.SIGKILL)
                for key in list(selector.get_map().values()):
                    os.close(key.fd)
                raise subprocess.TimeoutExpired(argv, within_s, *(said[fd] for fd in streams[:2]))
            for key, _ in ready:
                fd, over = key.fd, True
                if fd == stdin:
                    with contextlib.suppress(BrokenPipeError):
                        given = given[os.write(stdin, given[:4096]) :] if given else b""
                        over = not given
                else:
                    chunk = os.read(fd, 65536)
                    said[fd] += chunk
                    over = not chunk
                if over:
                    selector.unregister(fd)
                    os.close(fd)
    return said[streams[0]], said[streams[1]], said[streams[2]]


def _text(said: bytes) -> str:
    return said.decode().replace("\r\n", "\n").replace("\r", "\n")
