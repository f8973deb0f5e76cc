"""Which living processes a command would end, and whose each of them is. It looks, and ends none.

    a process ──▶ its parent ──▶ …          the nearest that the bus knows says whose it is
                               └─▶ us        nobody's that is known, but below what has asked: the asker's

Whatever is not shown to be the asker's is not: a name, a port or a mark in the environment proves nothing.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from interlock.adapters import process_table
from interlock.adapters.listeners import listeners, user_name
from interlock.adapters.process import Fact, ancestors, fact
from interlock.adapters.small_files import read_regular
from interlock.protocol.gate_questions import Owned
from interlock.protocol.kill_aims import Aims
from interlock.protocol.kill_programs import Selection

PID_FILE_BYTES_MAX = 4 * 1024
NAME_CHARACTERS = 15  # the kernel keeps no more of a program's name
INIT = 1  # whose parents are gone become its children
PASS_ON = frozenset(("timeout", "nice", "nohup", "ionice", "setsid", "stdbuf", "time", "env", "sudo", "doas"))


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


class Tie(NamedTuple):
    """How a process is connected with whoever asks.

    Args:
        is_mine: shown to be the asker's own. how: in words: by what it is, or whose it is instead.
        task: that what it hangs from runs for; "" for none.
    """

    is_mine: bool
    how: str
    task: str = ""


class Look:
    """One look at the processes that there are.

    Args:
        owners: as the bus knows them. agent: who asks; "" where nobody can tell.
        everybody: other users' processes too.
    """

    def __init__(self, owners: Iterable[Owned], agent: str, *, everybody: bool = False) -> None:
        self._agent = agent
        self._owners: dict[int, list[Owned]] = {}
        for each in owners:
            self._owners.setdefault(each.process.pid, []).append(each)
        self._us = os.getpid()
        above = ancestors(self._us)
        self._above = [each.pid for each in above]
        asks = next((at for at, each in enumerate(above) if each.name not in PASS_ON), 0)
        self._askers = {each.pid for each in above[: asks + 1]} - {INIT}  # up to the very shell, or agent, that asks
        self._everybody = everybody

    def aimed(self, aims: Aims) -> list[Aimed]:
        """What a command would end, by pid; without us, who become that command."""
        found, all_ = dict[int, Aimed](), _look(everybody=self._everybody)
        for selection in aims.selections:
            for seen in _selected(selection, all_):
                if seen.pid != self._us and seen.pid not in found:
                    program = process_table.program(seen.command, seen.name)
                    tie = self.tie(seen)
                    found[seen.pid] = Aimed(seen.pid, program, "" if tie.is_mine else tie.how, selection.words)
        return [found[pid] for pid in sorted(found)]

    def tie(self, process: Fact) -> Tie:
        """How that very process is connected with whoever asks; what is not shown to be theirs is not."""
        if process.pid in self._above or process.pid == self._us:
            return Tie(False, "what you run in yourself")
        for above in (process, *ancestors(process.pid)):
            owned = [each for each in self._owners.get(above.pid, ()) if each.process == above.identity]
            mine = [each for each in owned if each.agent == self._agent and not each.by_bus]
            if mine and above is process:
                return Tie(False, f"what all of {mine[0].what} hangs from, see bus ps --stop")
            if mine:
                return Tie(True, f"below {mine[0].what}", mine[0].task)
            if owned:
                return Tie(False, owned[0].what)
            if above.pid in self._askers:
                return Tie(True, "a child of the very shell that asks")
        return Tie(False, "nobody's that the bus knows")


# --- which ------------------------------------------------------------------------------------
def _selected(selection: Selection, all_: list[Fact]) -> Iterator[Fact]:
    if selection.is_precise():
        pids = {process_table.process_of(each) for each in (*selection.pids, *_pids_in(selection.pid_files))}
        yield from (each for each in all_ if each.pid in pids or _group(each.pid) in selection.groups)
        return
    pattern = _Pattern(selection)
    ports = _at_ports(selection.ports) if selection.ports else None
    paths = {os.path.realpath(each) for each in selection.paths}
    for seen in all_:
        if (
            pattern.fits(seen)
            and (ports is None or seen.pid in ports)
            and (not paths or not paths.isdisjoint(process_table.open_files(seen.pid)))
            and (not selection.parents or seen.parent_pid in selection.parents)
        ):
            yield seen


class _Pattern:
    """What a name or a command line is to fit. One that cannot be read fits all."""

    def __init__(self, selection: Selection) -> None:
        self._of = selection
        flags = re.IGNORECASE if selection.folds else 0
        try:
            self._pattern = re.compile(selection.pattern, flags) if selection.pattern else None
        except re.error:
            self._pattern = None

    def fits(self, seen: Fact) -> bool:
        if self._pattern is None:
            return True
        texts = {" ".join(seen.command) or seen.name} if self._of.whole else _names(seen)
        texts |= {*_names(seen), str(seen.pid), str(seen.parent_pid), _user(seen.pid)} if self._of.listed else set()
        if not self._of.exact:
            return any(self._pattern.search(each) for each in texts)
        return any(self._pattern.fullmatch(each) for each in texts) or self._is_cut_off(seen)

    def _is_cut_off(self, seen: Fact) -> bool:
        """Its name is as long as the kernel keeps any, and what is wanted begins with it."""
        plain = re.sub(r"\\(.)", r"\1", self._of.pattern)
        return len(seen.name) == NAME_CHARACTERS and plain.startswith(seen.name)


def _look(*, everybody: bool) -> list[Fact]:
    pids = process_table.all_pids() if everybody else process_table.own_pids()
    return [seen for pid in pids if (seen := fact(pid)) is not None]


def _names(seen: Fact) -> set[str]:
    """What programs that look for names may know it by."""
    return {seen.name, os.path.basename(seen.command[0])} if seen.command else {seen.name}


def _at_ports(ports: tuple[int, ...]) -> set[int]:
    """Processes with a socket at one of these ports, at either end: `lsof -i :3000` means clients, too."""
    import psutil

    try:
        sockets = psutil.net_connections("inet")
    except (psutil.Error, OSError):  # not ours to see there: whoever listens is
        return {each.pid for each in listeners(ports) if each.pid is not None}
    return {
        each.pid for each in sockets if each.pid and any(end and end.port in ports for end in (each.laddr, each.raddr))
    }


def _user(pid: int) -> str:
    try:
        return user_name(os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return ""


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1


def _pids_in(files: Iterable[str]) -> Iterator[int]:
    """Every number in them: a process's is often one of several lines."""
    for file in files:
        try:
            text = read_regular(os.path.realpath(os.path.expanduser(file)), PID_FILE_BYTES_MAX)
        except OSError:
            continue
        yield from (int(found) for found in re.findall(rb"(?<![0-9])[0-9]{1,10}(?![0-9])", text))
