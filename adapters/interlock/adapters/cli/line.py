"""One frame as a line, as it is sent. Standard library only: the short way imports it."""

from __future__ import annotations

from interlock.adapters.cli.options import Failure
from interlock.adapters.lean import dumps

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from interlock.adapters.cli.frames import Frame

# Half of a character that stands alone: what a byte of an argument becomes that is no UTF-8.
HALF = r"(?<!\\)(?:\\\\)*(?<!\\ud[89ab][0-9a-f]{2})\\udc[89a-f][0-9a-f]"


def line_of(value: Frame) -> bytes:
    """As JSON. Raises Failure 64 where a text of it is none."""
    line = dumps(value)
    if "\\udc" in line:  # such a half, or that of a pair, or the words for one
        import re

        if re.search(HALF, line):
            raise Failure(64, "an argument holds bytes that are no UTF-8: rename that file, or say it otherwise")
    return line.encode() + b"\n"
