"""Durations as programs give them."""

import datetime

from interlock.protocol.durations import parse_duration

Duration = str | float | datetime.timedelta
"""How long: "20m" as in a message, a timedelta, or a number of seconds."""


def to_ms(duration: Duration | None) -> int | None:
    """Milliseconds; None for None. Raises ValueError for what is no duration, or nothing."""
    match duration:
        case None:
            return None
        case str():
            ms = parse_duration(duration)
        case datetime.timedelta():
            ms = round(duration.total_seconds() * 1000)
        case _:
            ms = round(duration * 1000)
    if ms is None or ms < 1:
        raise ValueError(f"{duration!r} is no duration: write '30s', '10m' or '1h30m', a timedelta, or seconds")
    return ms


def to_seconds(duration: Duration | None) -> float | None:
    """Seconds, for waiting: None is for ever, 0 is no wait."""
    if duration in {0, "0", "0s", datetime.timedelta()}:
        return 0.0
    ms = to_ms(duration)
    return None if ms is None else ms / 1000
