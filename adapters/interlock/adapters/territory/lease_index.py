"""Which leases are on a path: by the part of each pattern that stands before its first wildcard. Pure.

```text
src/auth/*.py ──▶ "src/auth"     README.md ──▶ "README.md"     **/x ──▶ ""
a path is looked for under itself and each folder above it: as many look-ups as it has parts
```
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from interlock.protocol.claim import Claim
from interlock.protocol.glob import Pattern

_WILD = re.compile(r"[*?\[{\\]")


class AnyHeld(Protocol):
    """A lease, as the map has it now or as a history had it."""

    @property
    def lease(self) -> str: ...
    @property
    def parent(self) -> str: ...
    @property
    def claims(self) -> tuple[Claim, ...]: ...


Held = TypeVar("Held", bound=AnyHeld)


class Match(NamedTuple, Generic[Held]):
    """A lease on a path, and by which of its claims."""

    held: Held
    claim: Claim


class LeaseIndex(Generic[Held]):
    """Leases by path. Args: leases: all of them, whenever they were in force."""

    def __init__(self, leases: Iterable[Held]) -> None:
        self._below: dict[str, list[tuple[Pattern, Match[Held]]]] = {}
        self._parents: dict[str, str] = {}
        self._found: dict[str, tuple[Match[Held], ...]] = {}
        for held in leases:
            self._parents[held.lease] = held.parent
            for claim in held.claims:
                pattern = Pattern.parse(claim.pattern)
                self._below.setdefault(_plain_part(pattern), []).append((pattern, Match(held, claim)))

    def on(self, path: str) -> tuple[Match[Held], ...]:
        """The leases on a path of the repository, in any order. Names are compared in their composed form (NFC)."""
        found = self._found.get(path)
        if found is None:
            found = self._found[path] = self._look(unicodedata.normalize("NFC", path))
        return found

    def related(self, one: str, other: str) -> bool:
        """Whether one lease was split from the other, at whatever depth."""
        return one in self._above(other) or other in self._above(one)

    def _look(self, path: str) -> tuple[Match[Held], ...]:
        parts = path.split("/")
        folders = ("/".join(parts[:depth]) for depth in range(len(parts) + 1))
        return tuple(
            match
            for folder in folders
            for pattern, match in self._below.get(folder, ())
            if (pattern.literal == path if match.claim.is_file() else pattern.matches(path))
        )

    def _above(self, lease: str) -> set[str]:
        """A lease's ancestors. A file can say that they go in a circle: each is taken once."""
        found: set[str] = set()
        above = self._parents.get(lease, "")
        while above and above not in found:
            found.add(above)
            above = self._parents.get(above, "")
        return found


def _plain_part(pattern: Pattern) -> str:
    """The names that every path of a pattern begins with."""
    if pattern.literal:
        return pattern.literal
    wild = _WILD.search(pattern.text)
    end = len(pattern.text) if wild is None else wild.start()  # none: it ends with a slash
    return pattern.text[: max(pattern.text.rfind("/", 0, end), 0)]
