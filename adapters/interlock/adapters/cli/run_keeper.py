"""The end of a keeper that `bus run` holds: it starts one, lets it go, and hears how its command does. Blocking.

start ──spec──▶ up ──▶ go ──▶ started … ended … gone          close before go: nothing is ever executed
"""

from __future__ import annotations

import _socket
import os
import select
import time

from interlock.adapters.cli.options import Failure
from interlock.adapters.keeper_start import (
    LINE_BYTES_MAX,
    UP_TIMEOUT_S,
    keeper_command,
    keeper_environment,
    portable,
)
from interlock.adapters.lean import dumps, loads, suppress

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from interlock.adapters.cli.frames import Frame


class RunKeeper:
    """One keeper, which keeps our terminal, streams and process group. Raises Failure 125 where it does not come up."""

    def __init__(self, spec: Frame) -> None:
        """Args: spec: the fields of keeper/spec.py."""
        self._launch = spec["launch"]
        self._control, theirs = _pair()
        self._buffer = b""
        try:
            self.pid = _spawn(theirs.fileno())
        except OSError as error:
            self._control.close()
            why = f"the keeper of launch {self._launch} cannot be started: {error}"
            raise Failure(125, why) from None
        finally:
            theirs.close()
        try:
            self.identity = self._come_up(spec)
        except BaseException:
            self.kill()
            raise

    def _come_up(self, spec: Frame) -> Frame:
        """Hand over the orders, and wait until it stands ready: who it is."""
        try:
            self._control.settimeout(UP_TIMEOUT_S)
            self._control.sendall(dumps(portable(spec)).encode() + b"\n")
        except OSError:
            raise Failure(125, f"the keeper of launch {self._launch} died at once: see bus doctor") from None
        event = self.next(UP_TIMEOUT_S)
        if event is None:
            why = f"the keeper of launch {self._launch} was not up within {UP_TIMEOUT_S:g} s: try again"
            raise Failure(125, why)
        if event.get("event") == "not_started":
            raise Failure(125, f"the keeper of launch {self._launch} cannot work: {event.get('error', '')}")
        identity = event.get("identity")
        if event.get("event") == "up" and identity is None:
            identity = _identity(self.pid)  # where the system has no /proc the keeper cannot tell
        if identity is None:
            raise Failure(125, f"the keeper of launch {self._launch} died before it was up: see bus doctor")
        found: Frame = identity
        return found

    def next(self, timeout_s: float | None, wake: int = -1) -> Frame | None:
        """The next event; {} once the keeper has closed its end, None where time is up or `wake` can be read."""
        poller = select.poll()
        poller.register(self._control.fileno(), select.POLLIN)
        if wake >= 0:
            poller.register(wake, select.POLLIN)
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                with suppress(ValueError):
                    event: Frame = loads(line)
                    return event
                continue
            left_ms = None if until is None else max(0.0, until - time.monotonic()) * 1000
            ready = {fd for fd, _ in poller.poll(left_ms)}
            if wake in ready:
                with suppress(OSError):
                    os.read(wake, 4096)
            if self._control.fileno() not in ready:
                return None
            try:
                chunk = self._control.recv(LINE_BYTES_MAX)
            except OSError:
                return {}
            if not chunk or len(self._buffer) > LINE_BYTES_MAX:
                return {}
            self._buffer += chunk

    def say(self, words: bytes) -> bool:
        """GO, STOP, or SIGNAL and a number. False where it cannot be reached."""
        try:
            self._control.sendall(words + b"\n")
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close this end: before GO that means "never"; after it, a command that has not ended is stopped."""
        self._control.close()
        with suppress(OSError):
            os.waitpid(self.pid, os.WNOHANG)

    def leave(self) -> None:
        """The same before GO, and wait until it has gone: nothing was executed."""
        self._control.close()
        with suppress(OSError):
            os.waitpid(self.pid, 0)

    def kill(self) -> None:
        """It did not come up: there is nothing below it yet, and it is not reaped, so its number is its own."""
        with suppress(OSError):
            os.kill(self.pid, 9)
        self.leave()


def _pair() -> tuple[_socket.socket, _socket.socket]:
    ours, theirs = _socket.socketpair()
    os.set_inheritable(theirs.fileno(), True)
    return ours, theirs


def _spawn(control: int) -> int:
    """Start one in `/`, with our streams and in our group, like the command itself. Raises OSError."""
    words = [*keeper_command(), str(control)]
    here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC)
    try:
        os.chdir("/")
        return os.posix_spawn(words[0], words, keeper_environment())
    finally:
        with suppress(OSError):
            os.fchdir(here)
        os.close(here)


def _identity(pid: int) -> Frame | None:
    import msgspec

    from interlock.adapters.process import identify

    found = identify(pid)
    return None if found is None else msgspec.to_builtins(found)
