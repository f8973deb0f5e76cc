"""What a command would end: the processes that it selects, as far as its words tell.

    bash -c 'pkill -f "node server"'       by a text in their command line
    kill $(lsof -ti :3000)                 by a port
    sudo killall python3                   by name, everybody's
    kill 4121                              that one

Nothing is run here, and no process is looked at. A selection that is narrower than what is read of it (`-u`, `-t`,
`--newest`) is taken to be wider: rather too many are named than too few. What a variable holds is no selection; that
of a `pgrep` elsewhere in the same text is.
"""

import re
from collections.abc import Sequence

import msgspec

from interlock.protocol.command_walk import CommandWalk
from interlock.protocol.kill_programs import (
    SIGNAL,
    Selection,
    exactly,
    has_letter,
    is_known,
    of_fuser,
    of_get_process,
    of_killall,
    of_lsof,
    of_pkill,
    of_ports_and_names,
    of_taskkill,
    operands,
    readable,
)
from interlock.protocol.shell_text import Unreadable


class Aims(msgspec.Struct, frozen=True):
    """What a command would end.

    Args:
        selections: whatever any of them means may be ended.
        for_all: it asks another user's rights first (`sudo`): everybody's processes.
        unread: what would end processes is there, and cannot be read for certain.
    """

    selections: tuple[Selection, ...] = ()
    for_all: bool = False
    unread: bool = False


def aims_of(argv: Sequence[str]) -> Aims:
    """Read a command. Args: argv: its words, as they are executed."""
    walk = _Walk()
    try:
        walk.reaches(list(argv))
    except Unreadable:
        walk.unread = True
    selections = tuple(dict.fromkeys(walk.aims()))
    return Aims(selections, walk.for_all, walk.unread and _SUSPECT.search(" ".join(argv)) is not None)


_SUSPECT = re.compile(
    r"\b(?:p?kill|killall5?|skill|fuser|taskkill|stop-process|spps|wmic|kill-port|fkill)\b", re.IGNORECASE
)
_NUMBER = re.compile(r"[0-9]+")
_POWERSHELL = frozenset(("powershell", "pwsh"))


class _Walk(CommandWalk):
    """Notes every program that ends processes, and every one that looks for some."""

    def __init__(self) -> None:
        super().__init__()
        self.for_all = self.unread = False
        self._ended: list[Selection] = []
        self._found: list[Selection] = []  # by what looks for processes
        self._filters: list[str] = []  # of grep and awk: what `ps` is searched for
        self._lists = False  # something lists processes, and is to be searched
        self._takes_pids = ""  # something ends those that it is given, and nobody can tell which: its words
        self._from_a_pipe = False

    def aims(self) -> list[Selection]:
        """All that it would end."""
        found = list(self._found)
        if self._lists:
            words = "ps | grep " + " ".join(self._filters) if self._filters else "all that ps lists"
            found += [Selection(words, pattern=each, whole=True) for each in self._filters] or [Selection(words)]
        if self._takes_pids and self._from_a_pipe and not found:
            self.unread = True
        return [*self._ended, *(found if self._takes_pids else [])]

    def unseen(self, words: Sequence[str]) -> bool:
        self.unread = True
        return False

    def wants(self, name: str, words: list[str], depth: int) -> bool | None:
        """False where it is noted; all branching on programs that end others, or find them."""
        args, name = words[1:], name.lower()
        said = readable(words)
        match name:
            case "sudo" | "doas":
                self.for_all = True
                return None
            case "xargs" | "parallel":
                self._from_a_pipe = True
                return None
            case "pkill" | "skill":
                self._ended.append(of_pkill(args, said))
            case "pgrep":
                self._found.append(of_pkill(args, said))
            case "killall":
                self._ended += of_killall(args, said)
            case "killall5":
                self._ended.append(Selection(said))
            case "pidof":
                self._found += exactly(operands(args, frozenset(("-o", "-d", "-S"))), said)
            case "fuser":
                found = of_fuser(args, said)
                (self._ended if has_letter(args, "k", "--kill") else self._found).append(found)
            case "lsof":
                self._found.append(of_lsof(args, said))
            case "kill" | "snice":
                self._kill(args, said)
            case "taskkill":
                self._ended += of_taskkill(args, said)
            case "stop-process" | "spps":
                self._stop_process(args, said)
            case "get-process" | "gps":
                self._found += of_get_process(args, said)
            case "kill-port" | "fkill":
                self._ended += of_ports_and_names(args, said)
            case "wmic" if "process" in args and ({"delete", "terminate"} & set(args)):
                self._ended.append(Selection(said))
            case "npx" | "bunx" | "pnpx" | "dlx":
                rest = operands(args, frozenset(("-p", "--package")))
                return self.reaches(rest, depth + 1)
            case "ps" | "ss" | "netstat" | "tasklist":
                self._lists = True
            case "grep" | "egrep" | "fgrep" | "rg" if not has_letter(args, "v", "--invert-match"):
                self._filters += operands(args, frozenset(("-e", "-m", "-A", "-B", "-C")))[:1]
            case "awk" | "gawk" | "mawk" | "sed":
                self._filters += re.findall(r"/((?:[^/\\]|\\.)+)/", " ".join(args[:2]))
            case "cat" | "head" | "tail":
                files = operands(args, frozenset(("-n", "-c")))
                self._found.append(Selection(said, pid_files=tuple(each for each in files if is_known(each))))
            case _ if name in _POWERSHELL:
                return self._powershell(args, depth)
            case _:
                return None
        return False

    # --- straight helpers -----------------------------------------------------------------------
    def _kill(self, args: list[str], said: str) -> None:
        """`kill -9 4121`, `kill -- -4121`, `kill %1`, `kill $(…)`."""
        if args[:1] in (["-l"], ["-L"], ["--list"], ["-0"]) or args[:2] in (["-s", "0"], ["-n", "0"]):
            return
        if any(each.lower() in {"-name", "-processname"} for each in args):  # in PowerShell it is Stop-Process
            self._stop_process(args, said)
            return
        rest = args[1:] if args and SIGNAL.fullmatch(args[0]) else args  # behind it, -9 is a group
        while rest and rest[0] in {"-s", "--signal", "-n", "-q", "--queue"}:
            rest = rest[2:]
        rest = [each for each in rest if not each.startswith("--")]
        pids = tuple(int(each) for each in rest if _NUMBER.fullmatch(each) and each != "0")
        groups = tuple(int(each[1:]) for each in rest if re.fullmatch(r"-[0-9]+", each))
        if 1 in groups:  # `kill -9 -1`: all that it may
            self._ended.append(Selection(said))
        elif pids or groups:
            self._ended.append(Selection(said, pids=pids, groups=groups))
        if any(not is_known(each) for each in rest) or not rest:
            self._takes_pids = said

    def _stop_process(self, args: list[str], said: str) -> None:
        """PowerShell's; without a name or a number it takes what comes through the pipe."""
        given = of_get_process(args, said)
        self._ended += given
        if not given:
            self._takes_pids = said

    def _powershell(self, args: list[str], depth: int) -> bool:
        for at, word in enumerate(args):
            if word.lower() in {"-command", "-c"}:
                return self.text(" ".join(args[at + 1 :]), depth)
        return bool(args) and not args[0].startswith("-") and self.text(" ".join(args), depth)
