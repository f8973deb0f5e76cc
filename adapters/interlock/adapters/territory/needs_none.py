"""Which paths need no lease: those that `[territory] exclude` names, and those that git says are generated.

Whoever asks has read bus.toml and asked git: a hook of the index, `bus verify` of the base commit.
"""

import os
import unicodedata
from collections.abc import Collection, Iterable

from interlock.protocol.glob import Pattern

FILE = "bus.toml"
FILE_BYTES_MAX = 1024 * 1024
ATTRIBUTE = "linguist-generated"
_YES = {b"set", b"true", b"1"}


def named(paths: Collection[str], patterns: Collection[Pattern]) -> set[str]:
    """Those that a pattern means; names are compared in their composed form (NFC)."""
    composed = {path: unicodedata.normalize("NFC", path) for path in paths}
    return {path for path, name in composed.items() if any(each.matches(name) for each in patterns)}


def question(paths: Iterable[str]) -> bytes:
    """The stdin of `git check-attr -z --stdin` about these paths."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def generated(told: bytes) -> set[str]:
    """Those that its answer calls generated."""
    words = told.split(b"\0")
    return {os.fsdecode(path) for path, value in zip(words[0::3], words[2::3], strict=False) if value in _YES}
