"""The map, again and again: a fresh document after each change, over restarts of the supervisor.

    the log (TAIL) ──▶ something has changed ──▶ what stands now (TERRITORY)

Two connections: one is told, one asks. However much changes, it asks some ten times a second at most, and less where
the bus takes long to answer: a document is a state, nothing of it is lost between two.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from interlock.adapters.cli.asking import body_of
from interlock.adapters.cli.connection import Connection, Lost
from interlock.adapters.cli.options import Failure, Options, say_err

Document = dict[str, Any]
BETWEEN_S = 0.1  # no eye sees more
ANSWER_SHARE = 5  # at most this part of the time does the bus work for one who looks
TICK_S = 0.25  # whoever draws looks at the clock, and at the window's size
ANEW_S = 30.0  # what was hot cools without an event
AGAIN_S = 0.3  # between two looks for a supervisor that is gone
DRAIN_S = 0.05
WENT_AWAY = "the supervisor went away"
VOLATILE = {"at", "seq", "left_s", "waiting_s"}  # what differs though nothing has happened


class Moment(NamedTuple):
    """What is to be shown now.

    Args: elapsed_ms: since the document was made. trouble: why it may be old, "" where it is not. is_fresh: just asked.
    """

    document: Document
    elapsed_ms: int
    trouble: str
    is_fresh: bool


class MapFeed:
    """Args: directory: in a worktree of the repository. path: what the map is narrowed to; "" for all."""

    def __init__(self, options: Options, directory: str, path: str) -> None:
        self._options = options
        self._question = {"type": "TERRITORY", "directory": directory, "path": path}
        self._document: Document = {}
        self._made_at = 0.0

    def moments(self) -> Iterator[Moment]:
        """For ever: at each change, and several times a second.

        Raises: Failure: the bus refuses, or is not reached at the beginning; later it is waited for.
        """
        trouble = ""
        while True:
            try:
                yield from self._connected()
            except Lost:
                trouble = WENT_AWAY
            except Failure as failure:
                if failure.exit_code != 69 or not self._document:
                    raise
                trouble = str(failure)
            if not self._document:
                raise Failure(69, "the supervisor went away: bus map again")
            yield self._moment(trouble)
            time.sleep(AGAIN_S)

    def _connected(self) -> Iterator[Moment]:
        """As long as the supervisor lives. Raises Lost, and Failure."""
        with Connection(self._options, notices=False) as asks, Connection(self._options, notices=False) as told:
            took_s = self._ask(asks)
            yield self._moment(is_fresh=True)
            told.tell("supervisor", body=self._tail())
            has_changed, asked_at = False, time.monotonic()
            while True:
                next_s = asked_at + max(BETWEEN_S, ANSWER_SHARE * took_s) - time.monotonic()
                frame = told.receive(max(0.001, next_s) if has_changed else TICK_S)
                if frame:
                    body_of(frame)
                    has_changed = True
                if time.monotonic() - asked_at > ANEW_S:
                    has_changed = True
                if has_changed and (not frame or next_s <= 0):
                    _drain(told)
                    took_s, has_changed, asked_at = self._ask(asks), False, time.monotonic()
                    yield self._moment(is_fresh=True)
                elif not has_changed:
                    yield self._moment()

    def _ask(self, connection: Connection) -> float:
        """Take a fresh document. Returns: how long that took (s)."""
        begun_at = time.monotonic()
        self._document = body_of(connection.ask("supervisor", again=False, body=self._question))["map"]
        self._made_at = time.monotonic()
        return self._made_at - begun_at

    def _tail(self) -> Document:
        document = self._document
        return {"type": "TAIL", "resource": document["territory"], "since": document["seq"], "follow": True}

    def _moment(self, trouble: str = "", *, is_fresh: bool = False) -> Moment:
        return Moment(self._document, int((time.monotonic() - self._made_at) * 1000), trouble, is_fresh)


def changes(feed: MapFeed) -> Iterator[Document]:
    """Only documents that differ from the one before in more than their time; what is wrong is said on stderr, once."""
    before: Any = None
    said = ""
    for moment in feed.moments():
        if moment.trouble and moment.trouble != said:
            say_err(f"bus: {moment.trouble}; waiting for the next")
        said = moment.trouble
        if moment.is_fresh and (steady := _steady(moment.document)) != before:
            before = steady
            yield moment.document


# --- straight helpers ---------------------------------------------------------------------
def _drain(told: Connection) -> None:
    """What has been told so far is in the document that is asked for next."""
    until = time.monotonic() + DRAIN_S
    while time.monotonic() < until and told.receive(0.001):
        pass


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _steady(each) for name, each in value.items() if name not in VOLATILE}
    return [_steady(each) for each in value] if isinstance(value, list) else value
