"""Waiting for a ticket, over restarts of the supervisor: it shows what for, and never makes or loses a place."""

import contextlib
import os
import time
from collections.abc import Callable

from interlock.adapters.cli.connection import Connection, Lost
from interlock.adapters.cli.frames import Frame
from interlock.adapters.cli.options import Failure, Options, say_err
from interlock.adapters.cli.short import show
from interlock.protocol.durations import parse_duration

ENDS = {"GRANTED", "REVOKED", "CANCELLED", "REFUSED", "DOWN"}
LOOK_S = 10.0  # how often the place in the queue is looked at again
RECONNECT_S = 30.0
WITHOUT_TERMINAL = "100s"  # an agent's tool call lives two minutes


def wait_for(connection: Connection, resource: str, timeout: str, options: Options) -> int:
    """Wait until the ticket is granted or over; the last line says which.

    Args:
        timeout: a duration, "" for the default: 100 s without a terminal, no limit on one.

    Returns:
        0 on GRANTED, 75 while still queued, else the code of what ended it.
    """
    until = deadline(timeout)
    last = ""
    while True:
        frame = _ask(connection, resource)
        kind = frame["body"].get("type", "")
        if kind in ENDS:
            return _end(frame, options)
        resource = frame["body"]["resource"]
        last = _progress(frame, last)
        pushed = _next_news(connection, frame["body"].get("key", ""), until)
        if pushed is not None and pushed["body"]["type"] == "REVOKED":  # it alone has the last lines of a failed start
            connection.seen([pushed["id"]])
            return _end(pushed, options)
        if pushed is None and time.monotonic() >= until:
            frame = _ask(connection, resource)
            if frame["body"].get("type", "") in ENDS:  # at the last moment
                return _end(frame, options)
            show(frame, options)
            return 75


def deadline(timeout: str) -> float:
    """The moment (monotonic, s) at which a wait of that duration ends. Raises Failure 64 for what is no duration."""
    if not timeout:
        if os.isatty(0):
            return float("inf")
        timeout = WITHOUT_TERMINAL
    if timeout in {"0", "0s"}:
        return time.monotonic()
    ms = parse_duration(timeout)
    if ms is None:
        raise Failure(64, f"{timeout!r} is no duration: write 30s, 10m or 1h30m")
    return time.monotonic() + ms / 1000


def cancel_on_interrupt(connection: Connection, resource: str, work: Callable[[], int]) -> int:
    """Ctrl-C on a terminal takes the ticket out of the queue; everything else leaves it there."""
    try:
        return work()
    except KeyboardInterrupt:
        if os.isatty(0):
            with contextlib.suppress(Failure, Lost, KeyboardInterrupt):
                connection.open()
                say_err(connection.ask("coordinator", args=["CANCEL", resource])["text"])
        return 130


def wait_for_news(connection: Connection, timeout: str, is_there: Callable[[], bool]) -> None:
    """Wait until anything comes for this agent, about whatever it is. Args: is_there: looks whether it has come."""
    until = deadline(timeout)
    body = {"type": "WAIT", "resource": "*", "follow": True}
    connection.ask("supervisor", body=body)
    if is_there():  # it came before we listened
        return
    with contextlib.suppress(Lost):
        connection.receive(max(0.0, until - time.monotonic()) if until != float("inf") else None)


def _ask(connection: Connection, resource: str) -> Frame:
    """What is true of the ticket now; a supervisor that is gone is looked for, and started where that is allowed."""
    until = time.monotonic() + RECONNECT_S
    while True:
        try:
            return connection.ask("supervisor", body={"type": "WAIT", "resource": resource, "follow": True})
        except Failure as failure:
            if failure.exit_code != 69 or time.monotonic() > until:
                raise
            time.sleep(0.5)
            with contextlib.suppress(Failure):
                connection.open()


def _next_news(connection: Connection, key: str, until: float) -> Frame | None:
    """The next frame about that resource; None when it is time to look again."""
    look_at = min(until, time.monotonic() + LOOK_S)
    while (left := look_at - time.monotonic()) > 0:
        try:
            frame = connection.receive(left)
        except Lost:
            return None
        if frame and frame.get("body", {}).get("key", "-") in key.split(","):
            return frame
    return None


def _progress(frame: Frame, last: str) -> str:
    """Show on stderr what it waits for, when that has changed."""
    body = frame["body"]
    shape = "|".join(str(body.get(field, "")) for field in ("position", "state", "holder", "holder_purpose", "note"))
    if shape != last:
        say_err("waiting: " + frame["text"].partition("; do not use")[0])
    return shape


def _end(frame: Frame, options: Options) -> int:
    show(frame, options)
    exits = {"GRANTED": 0, "REVOKED": 77, "CANCELLED": 77, "DOWN": 75}
    return exits.get(frame["body"]["type"], int(frame.get("exit", 77)))
