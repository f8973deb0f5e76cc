"""Durations as people write them: "200ms", "30s", "3m", "1h30m", "about 20 minutes"."""

import re

_UNITS_MS = {
    "ms": 1,
    "millisecond": 1,
    "milliseconds": 1,
    "s": 1_000,
    "sec": 1_000,
    "secs": 1_000,
    "second": 1_000,
    "seconds": 1_000,
    "m": 60_000,
    "min": 60_000,
    "mins": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hr": 3_600_000,
    "hrs": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}
_NAMES = "|".join(sorted(_UNITS_MS, key=len, reverse=True))
_PART = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,3}})?)\s*({_NAMES})(?![a-z])")
_PREFIX = re.compile(r"(?:about|around|approximately|roughly|approx\.?|ca\.?|for|up\s+to|~)\s*")
_JOINT = re.compile(r"\s*(?:,|and)?\s*(?=\d)")


def parse_duration(text: str) -> int | None:
    """Read a duration written by a person.

    Args:
        text: "1h30m", "90 s", "about 20 minutes"; anything else, zero included, is no duration.

    Returns:
        Milliseconds, at least 1, or None.
    """
    text = text.strip().casefold()
    prefix = _PREFIX.match(text)
    at = prefix.end() if prefix else 0
    total_ms = 0.0
    while part := _PART.match(text, at):
        total_ms += float(part[1]) * _UNITS_MS[part[2]]
        at = part.end()
        joint = _JOINT.match(text, at)
        at = joint.end() if joint else at
    return round(total_ms) if at == len(text) and round(total_ms) >= 1 else None


def format_duration(ms: int) -> str:
    """Write milliseconds so that `parse_duration` reads the same number: 5400000 → "1h30m"."""
    if ms <= 0:
        return "0s"
    parts = []
    for name, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts)


def format_age(ms: int) -> str:
    """Write an age for people: at most two parts, nothing below a second."""
    if ms < 1_000:
        return "0s"
    whole = format_duration(ms - ms % 1_000)
    return "".join(re.findall(r"\d+[a-z]+", whole)[:2])
