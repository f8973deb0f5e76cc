"""Which living processes a command would end, and whose each of them is. It looks, and ends none.

    a process ──▶ its parent ──▶ …          the nearest that the bus knows says whose it is
                               └─▶ us        nobody's that is known, but below what has asked: the asker's

Whatever is not shown to be the asker's is not: a name, a port or a mark in the environment proves nothing.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from interlock.adapters import process_table
from interlock.adapters.listeners import listeners
from interlock.adapters.process import ancestors
from interlock.adapters.small_files import read_regular
from interlock.protocol.gate_questions import Owned
from interlock.protocol.kill_aims import Aims
from interlock.protocol.kill_programs import Selection

PID_FILE_BYTES_MAX = 64
NAME_CHARACTERS = 15  # the kernel keeps no more of a program's name
INIT = 1  # whose parents are gone become its children


class Aimed(NamedTuple):
    """A process that would be ended.

    Args:
        program: its name without arguments, which may hold secrets.
        whose: in words; "" where it is the asker's own. words: of the program that would end it.
    """

    pid: int
    program: str
    whose: str
    words: str


class _Seen(NamedTuple):
    pid: int
    row: process_table.Row
    command: Sequence[str]

    def names(self) -> set[str]:
        """What programs that look for names may know it by."""
        return {self.row.name, os.path.basename(self.command[0])} if self.command else {self.row.name}


class Look:
    """One look at the processes that there are.

    Args:
        owners: as the bus knows them. agent: who asks; "" where nobody can tell.
        everybody: other users' processes too.
    """

    def __init__(self, owners: Iterable[Owned], agent: str, *, everybody: bool) -> None:
        self._agent = agent
        self._owners: dict[int, list[Owned]] = {}
        for each in owners:
            self._owners.setdefault(each.process.pid, []).append(each)
        self._us = os.getpid()
        self._above = [each.pid for each in ancestors(self._us)]  # the shell or agent that asks comes first
        self._seen = list(_look(everybody=everybody))

    def aimed(self, aims: Aims) -> list[Aimed]:
        """What a command would end, by pid; without us, who become that command."""
        found: dict[int, Aimed] = {}
        for selection in aims.selections:
            for seen in self._selected(selection):
                if seen.pid != self._us and seen.pid not in found:
                    program = process_table.program(seen.command, seen.row.name)
                    found[seen.pid] = Aimed(seen.pid, program, self._whose(seen), selection.words)
        return [found[pid] for pid in sorted(found)]

    # --- whose ----------------------------------------------------------------------------------
    def _whose(self, seen: _Seen) -> str:
        if seen.pid in self._above:
            return "what you run in yourself"
        above = ancestors(seen.pid)
        identity = (seen.pid, seen.row.start_ticks)
        for pid, ticks in [identity, *((each.pid, each.identity.start_ticks) for each in above)]:
            owned = [each for each in self._owners.get(pid, ()) if each.process.start_ticks == ticks]
            mine = [each for each in owned if each.agent == self._agent and not each.by_bus]
            if owned:
                return "" if mine and (pid, ticks) != identity else owned[0].what
            if pid in self._above[:1] and pid != INIT:  # a child of the very shell that asks
                return ""
        return "nobody's that the bus knows"

    # --- which ----------------------------------------------------------------------------------
    def _selected(self, selection: Selection) -> Iterator[_Seen]:
        if selection.is_precise():
            pids = {*selection.pids, *_pids_in(selection.pid_files)}
            yield from (each for each in self._seen if each.pid in pids or _group(each.pid) in selection.groups)
            return
        fits = _fits(selection)
        ports = {each.pid for each in listeners(selection.ports)} if selection.ports else None
        paths = {os.path.realpath(each) for each in selection.paths}
        for seen in self._seen:
            if (
                fits(seen)
                and (ports is None or seen.pid in ports)
                and (not paths or not paths.isdisjoint(_open_files(seen.pid)))
                and (not selection.parents or seen.row.parent_pid in selection.parents)
            ):
                yield seen


class _fits:  # noqa: N801 - a function with something to remember
    """Whether a process has the name, or the command line. A pattern that cannot be read fits all."""

    def __init__(self, selection: Selection) -> None:
        self._of = selection
        flags = re.IGNORECASE if selection.folds else 0
        try:
            readable = "[:" not in selection.pattern
            self._pattern = re.compile(selection.pattern, flags) if selection.pattern and readable else None
        except re.error:
            self._pattern = None

    def __call__(self, seen: _Seen) -> bool:
        if self._pattern is None:
            return True
        texts = {" ".join(seen.command) or seen.row.name} if self._of.whole else seen.names()
        if not self._of.exact:
            return any(self._pattern.search(each) for each in texts)
        return any(self._pattern.fullmatch(each) for each in texts) or self._is_cut_off(seen)

    def _is_cut_off(self, seen: _Seen) -> bool:
        """Its name is as long as the kernel keeps any, and what is wanted begins with it."""
        plain = re.sub(r"\\(.)", r"\1", self._of.pattern)
        return len(seen.row.name) == NAME_CHARACTERS and plain.startswith(seen.row.name)


def _look(*, everybody: bool) -> Iterator[_Seen]:
    for pid in process_table.all_pids() if everybody else process_table.own_pids():
        try:
            row = process_table.row(pid)
            if row is not None and not row.dead:
                yield _Seen(pid, row, process_table.command(pid))
        except OSError:
            continue


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1


def _pids_in(files: Iterable[str]) -> Iterator[int]:
    """What files hold that hold nothing but numbers."""
    for file in files:
        try:
            words = read_regular(os.path.realpath(file), PID_FILE_BYTES_MAX).split()
        except OSError:
            continue
        if words and all(word.isdigit() for word in words):
            yield from map(int, words)


def _open_files(pid: int) -> set[str]:
    """What a process has open, where it is, and what it executes; as far as that can be seen."""
    if sys.platform != "linux":
        return process_table.open_files(pid)
    found, folder = set[str](), f"/proc/{pid}"
    try:
        links = [f"{folder}/cwd", f"{folder}/exe", f"{folder}/root"]
        links += [f"{folder}/fd/{name}" for name in os.listdir(f"{folder}/fd")]
    except OSError:
        return found
    for link in links:
        try:
            found.add(os.readlink(link))
        except OSError:
            continue
    return found
