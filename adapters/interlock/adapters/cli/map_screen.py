"""The map on a terminal: colours, and the live one, in the terminal's other screen, which is left as it was found.

The rows are map_lines.py's; what they look like is here.
"""

import io
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from interlock.adapters.cli.map_feed import MapFeed, Moment
from interlock.adapters.cli.map_lines import Line, lines_of

STYLES = {
    "head": "bold", "heading": "bold", "guide": "dim", "foot": "dim", "trouble": "bold red", "lease": "dim",
    "for": "italic", "agent": "cyan", "path branch": "blue", "path held": "bold", "path part": "bold",
    "path draining": "bold", "path waiting": "yellow", "waiting": "yellow", "draining": "magenta",
}  # fmt: skip
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class _Ended(BaseException):
    """A signal that ends the program. First the terminal is given back."""


def show(document: dict[str, Any]) -> None:
    """The map once, as wide as the terminal."""
    console = _console()
    for line in lines_of(document, width=console.width):
        console.print(_text(line), soft_wrap=False)


def follow(feed: MapFeed) -> int:
    """The live map until somebody ends it. Raises Failure, KeyboardInterrupt."""
    return _Screen().run(feed)


class _Screen:
    def __init__(self) -> None:
        self._live = Live(
            console=_console(), screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._shown: Any = None
        self._is_stopping = False

    def run(self, feed: MapFeed) -> int:
        moments = feed.moments()
        first = next(moments)  # where there is none, that is said on the screen which the reader has
        before = {each: signal.signal(each, self._ends) for each in ENDS if signal.getsignal(each) == signal.SIG_DFL}
        if signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL:
            before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stops)
        ended_by = 0
        try:
            self._live.start()
            self._draw(first)
            for moment in moments:
                if self._is_stopping:
                    self._suspend()
                self._draw(moment)
        except _Ended as ended:
            ended_by = ended.args[0]
        finally:
            with_patience = signal.signal(signal.SIGINT, signal.SIG_IGN)
            with suppress(OSError):  # a terminal that is gone needs nothing back
                self._live.stop()
            for each, handler in before.items():
                signal.signal(each, handler)
            signal.signal(signal.SIGINT, with_patience)
        os.kill(os.getpid(), ended_by)  # as whoever sent it expects
        return 128 + ended_by

    def _draw(self, moment: Moment) -> None:
        """Only what has changed, or another window, is worth a stroke."""
        console = self._live.console
        size = console.size
        lines = lines_of(moment.document, elapsed_ms=moment.elapsed_ms, width=size.width, height=size.height - 1)
        trouble = f"{moment.trouble}; waiting for the next" if moment.trouble else ""
        lines.append([(trouble or "live; Ctrl-C ends it", "trouble" if trouble else "foot")])
        if (lines, size) != self._shown:
            self._shown = (lines, size)
            whole = Text("\n", end="").join(map(_text, lines))
            whole.no_wrap, whole.overflow = True, "ellipsis"
            self._live.update(whole, refresh=True)

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets its own screen, and ours comes back with `fg`."""
        self._is_stopping, self._shown = False, None
        self._live.stop()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        self._live.start()

    def _stops(self, signum: int, frame: FrameType | None) -> None:
        self._is_stopping = True  # not in the middle of a stroke

    def _ends(self, signum: int, frame: FrameType | None) -> None:
        raise _Ended(signum)


# --- straight helpers ---------------------------------------------------------------------
def _console() -> Console:
    if isinstance(sys.stdout, io.TextIOWrapper):  # as all that bus prints, whatever the locale
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    return Console(color_system=None if os.environ.get("NO_COLOR") else "auto", highlight=False)


def _text(line: Line) -> Text:
    return Text.assemble(*((text, STYLES.get(what, "")) for text, what in line), no_wrap=True, overflow="ellipsis")
