"""A keeper's report: each event a line, on disk before anybody hears of it."""

import os

from interlock.adapters.lean import dumps, suppress

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    import _socket


class Report:
    """Every line to the result file first, durably, then to the control socket while somebody listens."""

    def __init__(self, control: "_socket.socket") -> None:
        self.control = control
        self.file = -1
        self.folder = ""
        self.unwritten = b""
        self.untold = b""

    def open(self, path: str) -> None:
        """Create the file. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self.file = os.open(path, flags, 0o600)
        self.folder = os.path.dirname(path) or "."

    def name_durable(self) -> bool:
        """Make the file's name durable; False after any error."""
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError:
            return False
        return True

    def say(
        self, event: str, *, tell: bool = True, early: bool = False, durable: bool = True, **fields: object
    ) -> bool:
        """Report one event; False if it is not written or durable yet (it is tried again with the next).

        Args: tell: whoever listens, once it is on disk. early: before that. durable: False: with the next will do, and
        only then is it told.
        """
        line = dumps({"event": event, **fields}).encode() + b"\n"
        self.unwritten += line
        self.untold += line if tell else b""
        written = self.write()
        if early:
            self._tell()
        if early or not durable:
            return written
        done = self.flush()
        self._tell()
        return done

    def _tell(self) -> None:
        told, self.untold = self.untold, b""
        if told:
            with suppress(OSError):  # nobody listens, or reads: the file has it
                self.control.send(told)

    def write(self) -> bool:
        """Write what is not written; False after any error."""
        try:
            while self.unwritten:
                self.unwritten = self.unwritten[os.write(self.file, self.unwritten) :]
        except OSError:
            return False
        return True

    def flush(self) -> bool:
        """The same, and make it durable."""
        if not self.write():
            return False
        try:
            os.fsync(self.file)
        except OSError:
            return False
        return True
