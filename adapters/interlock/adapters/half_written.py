"""Files that may still be written: which of an agent's are whole, and which have to be looked at again.

renamed into place                  whole at once
written in place                    whole once it ends with a newline, and two scans saw it unchanged
left without a newline, for long    it is rejected
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from interlock.adapters.safe_files import Found, last_byte
from interlock.protocol.codes import Code
from interlock.protocol.envelope import BadEnvelope
from interlock.protocol.limits import HALF_WRITTEN_MS, SCAN_MS

HALF_MAX = 2_048  # files under way that are remembered of one folder; the others are looked at again and again


class Half(NamedTuple):
    """A file that may still be written: as it was seen, and since when it is so (monotonic, s)."""

    size: int
    mtime_ns: int
    since_s: float


class HalfWritten:
    """One per bus. Args: renamed: (agent, name) of files that were seen as they were renamed into place."""

    def __init__(self) -> None:
        self.renamed: set[tuple[str, str]] = set()
        self._half: dict[str, dict[tuple[int, int], Half]] = {}  # by whose folder it is: nobody fills it for others
        self._unheard: dict[tuple[str, str], set[tuple[int, int, int]]] = {}  # what `is_unheard` has waited for

    def waiting(self) -> set[str]:
        """In whose folders files may still be written: they must be looked at again."""
        return {agent for agent, half in list(self._half.items()) if half}

    def is_whole(self, agent: str, at: int, found: Found) -> bool:
        """Renamed into place, or at rest for a scan with a newline at its end. Raises BadEnvelope for one left so.

        A rename sets the file's change time and not its content's, also where nobody saw it happen.
        """
        if (agent, found.name) in self.renamed or found.ctime_ns > found.mtime_ns:
            return True
        before = self._half.get(agent, {}).get((found.device, found.inode))
        if before is None or (before.size, before.mtime_ns) != (found.size, found.mtime_ns):
            self.note(agent, found, found.size)
            return False
        rests_ms = (time.monotonic() - before.since_s) * 1000
        if rests_ms >= SCAN_MS * 0.9 and last_byte(found, at) == b"\n":
            return True
        if rests_ms >= HALF_WRITTEN_MS:
            why = "it was left half-written: end it with a newline, or write it to tmp/ and rename it"
            raise BadEnvelope(Code.BAD_MESSAGE, why)
        return False

    def note(self, agent: str, found: Found, size: int) -> None:
        mine, key = self._half.setdefault(agent, {}), (found.device, found.inode)
        if key in mine or len(mine) < HALF_MAX:
            mine[key] = Half(size, found.mtime_ns, time.monotonic())

    def is_due(self, agent: str, found: Found) -> bool:
        """Not one that rests too short a time to be looked at again."""
        if (agent, found.name) in self.renamed:
            return True
        before = self._half.get(agent, {}).get((found.device, found.inode))
        if before is None or (before.size, before.mtime_ns) != (found.size, found.mtime_ns):
            return True
        return (time.monotonic() - before.since_s) * 1000 >= SCAN_MS * 0.9

    def is_unheard(self, agent: str, source: str, waiting: Sequence[Found]) -> bool:
        """The next one may have been renamed into place within the very tick in which it was written, so that its
        times do not tell: nothing overtakes it before what has happened in the folder meanwhile is heard, once."""
        met = self._unheard.get((agent, source), set())
        if not self._may_be_renamed(agent, waiting[0]) or stands(waiting[0]) in met:
            return False
        self._unheard[agent, source] = {stands(each) for each in waiting if self._may_be_renamed(agent, each)}
        return True

    def _may_be_renamed(self, agent: str, found: Found) -> bool:
        return found.ctime_ns == found.mtime_ns and (agent, found.name) not in self.renamed

    def done(self, agent: str, found: Found) -> None:
        """It is taken, or rejected."""
        self._half.get(agent, {}).pop((found.device, found.inode), None)
        self.renamed.discard((agent, found.name))

    def forget(self) -> None:
        """What has been at rest for much longer than it may be is not there any more."""
        past = time.monotonic() - 3 * HALF_WRITTEN_MS / 1000
        for agent, mine in list(self._half.items()):
            self._half[agent] = {key: half for key, half in list(mine.items()) if half.since_s > past}
        self._half = {agent: mine for agent, mine in self._half.items() if mine}
        self._unheard.clear()


def stands(found: Found) -> tuple[int, int, int]:
    """That file, as it stands: an inode comes again."""
    return found.device, found.inode, found.ctime_ns
