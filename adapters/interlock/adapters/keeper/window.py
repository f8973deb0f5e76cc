"""A window: the terminal between a person's screen and the command, and the log that gets the text of it.

```text
command ◀─▶ a terminal of its own ◀─ Window ─▶ the window, and the log      window closed ─▶ as SIGTERM
```
"""

import contextlib
import fcntl
import os
import re
import select
import signal
import termios
import time
import tty

UNSEEN_BYTES_MAX = 256 * 1024  # output kept for a window that does not take it; the log has all of it
PARTIAL_BYTES_MAX = 4096  # an escape sequence that is longer is none
# What is meant for the screen (colours, titles, cursor) is not for the log; neither is the \r of a terminal's \r\n.
ESCAPE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-OQ-WYZ\\`a-~])|\r+(?=\n)"
)
PARTIAL = re.compile(rb"(?:\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)|\r+)\Z")


def for_log(partial: bytes, chunk: bytes) -> tuple[bytes, bytes]:
    """Output without what is meant for the screen: the text, and a last sequence that is not whole yet.

    Args: partial: what the last call kept. chunk: what came; empty: nothing comes any more.
    """
    text = ESCAPE.sub(b"", partial + chunk)
    found = PARTIAL.search(text) if chunk else None
    cut = found.start() if found is not None and len(text) - found.start() <= PARTIAL_BYTES_MAX else len(text)
    return text[:cut], text[cut:]


class Window:
    """The window that we run in (fds 0 to 2), the command's own terminal, and the log that has what it prints.

    Closing the window ends our terminal, not the command's: it is stopped in order, and its last words reach the log.
    """

    def __init__(self, log: str) -> None:
        """Make the terminal. Raises OSError."""
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.master, self.slave = os.openpty()
        self.closed = False  # the window
        self.silent = False  # nobody has the command's terminal open any more
        self.partial = b""
        self.unseen = b""
        try:
            tty.setraw(0)  # keys go to the command's terminal as they are, Ctrl-C too
        except termios.error as error:
            raise OSError(*error.args) from None
        for fd in (0, self.master):
            os.set_blocking(fd, False)
        self.resize()
        signal.signal(signal.SIGWINCH, self.resize)
        signal.signal(signal.SIGHUP, self.close)

    def close(self, *_: object) -> None:
        """The window has been closed."""
        self.closed, self.unseen = True, b""

    def resize(self, *_: object) -> None:
        """Give the command's terminal the size that the window has now."""
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))

    def actions(self) -> list[tuple[int, int, str, int, int] | tuple[int, int, int]]:
        """What the command does first, in a session of its own: opening that terminal makes it the session's."""
        opened = (os.POSIX_SPAWN_OPEN, 0, os.ttyname(self.slave), os.O_RDWR, 0)
        return [opened, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]

    def register(self, poller: select.poll) -> None:
        """Ask to be woken by output, keys, room for what was not shown yet, or the window's end."""
        if not self.closed:
            poller.register(0, select.POLLIN | (select.POLLOUT if self.unseen else 0))
        if not self.silent:
            poller.register(self.master, select.POLLIN)

    def take(self, fd: int) -> None:
        """Carry on what came on one of both sides."""
        if fd == self.master:
            self.copy_output()
            return
        self.show(b"")
        try:
            keys = os.read(0, 4096)
        except BlockingIOError:
            return
        except OSError:
            keys = b""
        if not keys:
            self.close()
        with contextlib.suppress(OSError):  # whoever does not read what is typed has not seen it
            os.write(self.master, keys)

    def copy_output(self) -> bool:
        """Some of what the command printed, into the window and the log; False where there is nothing now."""
        try:
            chunk = os.read(self.master, 65536)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.silent = True
        self.show(chunk)
        text, self.partial = for_log(self.partial, chunk)
        with contextlib.suppress(OSError):  # a full disk costs words of the log, nothing else
            while text:
                text = text[os.write(self.log, text) :]
        return bool(chunk)

    def show(self, chunk: bytes) -> None:
        """Print into the window; what a stopped tmux does not take is kept for a while."""
        if self.closed:
            return
        self.unseen = (self.unseen + chunk)[-UNSEEN_BYTES_MAX:]
        with contextlib.suppress(OSError):
            while self.unseen:
                self.unseen = self.unseen[os.write(0, self.unseen) :]

    def drain(self, timeout_s: float) -> None:
        """Take in what has been printed so far; waits for more until nobody can print any more, or the time is over."""
        until = time.monotonic() + timeout_s
        poller = select.poll()
        poller.register(self.master, select.POLLIN)
        while not self.silent and (left_s := until - time.monotonic()) > 0:
            if not self.copy_output() and not poller.poll(left_s * 1000):
                return
