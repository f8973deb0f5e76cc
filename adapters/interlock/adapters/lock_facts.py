"""What a home's lock file says of its holder. It proves nothing: whoever decides by it asks the system as well."""

import json
from typing import Any

from interlock.adapters.small_files import read_regular

NAME = "bus.lock"
_BYTES_MAX = 4096


def lock_facts(path: str) -> dict[str, Any]:
    """The facts: pid, start_ticks, boot and more, as its holder wrote them.

    Raises:
        FileNotFoundError: nobody ever had the lock.
        OSError: it cannot be read.
        ValueError: it says nothing.
    """
    facts = json.loads(read_regular(path, _BYTES_MAX, follow=True))
    if not isinstance(facts, dict):
        raise ValueError("no facts")
    return facts
