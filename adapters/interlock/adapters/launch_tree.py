"""The trees of managed commands, as one look at the process table shows them: for people; nothing is signalled here.

keeper ──▶ the command ──▶ …        below a keeper: it counts
(gone)     a daemon that it left    carries a launch's mark, and no keeper is above it: it holds nothing
"""

import os
import re
import sys
from typing import NamedTuple

from interlock.adapters import process_table
from interlock.adapters.process import probe
from interlock.protocol.identity import Identity, Presence

RUN = re.compile(r"run-\d+-[0-9a-f]{6,12}")  # a launch of bus run; a server's has the name of its resource


class Member(NamedTuple):
    """One process: its pid, and its program's name without arguments, which may hold secrets."""

    pid: int
    program: str


class Left(NamedTuple):
    """A process that a command left behind. Args: launch: whose."""

    pid: int
    program: str
    launch: str


class Processes:
    """One look at this user's processes; what comes and goes meanwhile may be missing."""

    def __init__(self) -> None:
        self._rows: dict[int, process_table.Row] = {}
        self._children: dict[int, list[int]] = {}
        for pid in process_table.own_pids():
            try:
                row = process_table.row(pid)
            except OSError:
                continue
            if row is not None and not row.dead:
                self._rows[pid] = row
                self._children.setdefault(row.parent_pid, []).append(pid)

    def below(self, keeper: Identity) -> list[Member]:
        """The tree of a keeper, parents first; empty where it is gone or cannot be seen from here."""
        if probe(keeper) is not Presence.ALIVE:
            return []
        found, known = [keeper.pid], {keeper.pid}
        for pid in found:  # grows while it is walked
            new = [child for child in self._children.get(pid, ()) if child not in known]
            found += new
            known.update(new)
        return [Member(pid, self._program(pid)) for pid in found[1:]]

    def left_behind(self, home: str, keepers: set[int]) -> list[Left]:
        """What commands of this bus left, and no keeper keeps. Args: keepers: pids of those that are on record."""
        found = []
        for pid in self._rows:
            launch = self._mark(pid, home)
            if launch and not self._is_kept(pid, keepers):
                found.append(Left(pid, self._program(pid), launch))
        return found

    def _is_kept(self, pid: int, keepers: set[int]) -> bool:
        seen = set[int]()
        while pid in self._rows and pid not in seen:
            if pid in keepers or self._rows[pid].name == "bus-keeper":
                return True
            seen.add(pid)
            pid = self._rows[pid].parent_pid
        return False

    def _mark(self, pid: int, home: str) -> str:
        """The innermost launch of `bus run` that it carries the mark of, where that is of this bus."""
        if sys.platform != "linux":
            return next((each for each in reversed(process_table.launches(pid)) if RUN.fullmatch(each)), "")
        values = process_table.environment(pid)
        if b"BUS_LAUNCH" not in values or os.fsdecode(values.get(b"BUS_HOME", b"")) != home:
            return ""
        path = values[b"BUS_LAUNCH"].decode("utf-8", "replace").split(":")
        return next((each for each in reversed(path) if RUN.fullmatch(each)), "")

    def _program(self, pid: int) -> str:
        try:
            words = process_table.command(pid)
        except OSError:
            words = ()
        return process_table.program(words, self._rows[pid].name)
