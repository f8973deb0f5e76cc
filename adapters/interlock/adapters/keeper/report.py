"""A keeper's report: each event a line, on disk before anybody hears of it."""

import contextlib
import json
import os
import socket


class Report:
    """Every line to the result file first, durably, then to the control socket while somebody listens."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.file = -1
        self.unwritten = b""

    def open(self, path: str) -> None:
        """Create the file, and make its name durable. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self.file = os.open(path, flags, 0o600)
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def say(self, event: str, *, tell: bool = True, **fields: object) -> bool:
        """Report one event; False if it is not durable yet (it is tried again with the next)."""
        line = json.dumps({"event": event, **fields}).encode() + b"\n"
        self.unwritten += line
        durable = self.flush()
        if tell:
            with contextlib.suppress(OSError):  # nobody listens, or reads: the file has it
                self.control.send(line)
        return durable

    def flush(self) -> bool:
        """Write what is not written; False after any error."""
        try:
            while self.unwritten:
                self.unwritten = self.unwritten[os.write(self.file, self.unwritten) :]
            os.fsync(self.file)
        except OSError:
            return False
        return True
