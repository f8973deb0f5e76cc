"""What a command would end: the processes that it selects, as far as its words tell.

    bash -c 'pkill -f "node server"'       by a text in their command line
    kill $(lsof -ti :3000)                 by a port
    sudo killall python3                   by name, everybody's
    kill 4121                              that one

Nothing is run here, and no process is looked at. A selection that is narrower than what is read of it (`-u`, `-t`,
`--newest`) is taken to be wider: rather too many are named than too few. A number that comes from outside of the text,
or from the shell itself (`$!`), is let pass; one that some other program makes is said to be unread.
"""

import re
from collections.abc import Sequence

import msgspec

from interlock.protocol.command_walk import CommandWalk
from interlock.protocol.kill_programs import (
    SIGNAL,
    Selection,
    has_letter,
    is_clear,
    is_known,
    number,
    numbers,
    of_fuser,
    of_get_process,
    of_killall,
    of_pkill,
    of_ports_and_names,
    of_taskkill,
    operands,
    readable,
    values_of,
)
from interlock.protocol.kill_sources import Sources
from interlock.protocol.shell_text import UNKNOWN, VEILED, Simple, Unreadable


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
        walk.unread = walk.unread or _SUSPECT.search(" ".join(argv)) is not None
    return Aims(tuple(dict.fromkeys(walk.ended)), walk.for_all, walk.unread)


KILLERS = frozenset(
    ("kill", "pkill", "killall", "killall5", "skill", "snice", "fuser", "taskkill", "stop-process", "spps", "wmic")
)
PORT_KILLERS = frozenset(("kill-port", "killport", "kill-port-process", "fkill", "fkill-cli"))
_SUSPECT = re.compile(
    r"\b(?:p?kill|killall5?|skill|fuser|taskkill|stop-process|spps|wmic|kill-?port|fkill)\b", re.IGNORECASE
)
_SHELLS_OF_WINDOWS = frozenset(("powershell", "pwsh"))
_ASKED_FIRST = frozenset(("sudo", "doas", "pkexec"))  # another user's rights
_RUNNERS = {"uv": "run", "poetry": "run", "pipenv": "run", "rye": "run", "npm": "exec", "pnpm": "dlx", "yarn": "dlx",
            "bun": "x"}  # fmt: skip
_C = re.compile(r"-[a-zA-Z]*c|--command")
_QUERIES = frozenset(("--help", "--version", "-V", "-h"))


class _Walk(CommandWalk):
    """Notes every program that ends processes."""

    def __init__(self) -> None:
        super().__init__()
        self.for_all = self.unread = False
        self.ended: list[Selection] = []
        self._sources = Sources(())
        self._simple = Simple([], "", (), None)  # of the text that is read just now
        self._from_a_pipe = False

    def unseen(self, words: Sequence[str]) -> bool:
        """A program that a variable names, or what a shell reads from a pipe."""
        named = bool(words) and (UNKNOWN in words[0] or VEILED in words[0])
        suspects = words[1:] if named else self._simple.words or words
        self.unread |= not named or any(word.lower() in KILLERS or number(word) for word in suspects)
        return False

    def text(self, text: str, depth: int) -> bool:
        """Each command of a shell text, with what it is fed."""
        commands = self.read(text)
        around = self._sources, self._simple, self._from_a_pipe
        self._sources = Sources(commands)
        for self._simple in commands:
            self._from_a_pipe = False
            self.reaches(self._simple.words, depth + 1)
        self._sources, self._simple, self._from_a_pipe = around
        return False

    def wants(self, name: str, words: list[str], depth: int) -> bool | None:
        """False where it is noted; all branching on programs that end others."""
        args, name = words[1:], name.lower()
        said = readable(words)
        if name in KILLERS | PORT_KILLERS and (_QUERIES & set(args[:1]) or _is_signal_0(args)):
            return False  # it tells, and ends nothing
        match name:
            case _ if name in _ASKED_FIRST:
                self.for_all = True
                return None
            case "xargs":
                self._from_a_pipe = True
                return None
            case "parallel":
                at = args.index(":::") if ":::" in args else len(args)
                self._from_a_pipe = at == len(args)
                given = args[at + 1 :] or [UNKNOWN]
                return self.reaches([*operands(args[:at], frozenset(("-j", "-n"))), *given], depth + 1)
            case "pkill" | "skill":
                self._pkill(args, said)
            case "killall":
                for each in of_killall(args, said):
                    self._end(each)
            case "killall5" | "start-stop-daemon":
                self.ended.append(Selection(said))
            case "fuser" if has_letter(args, "k", "--kill"):
                self.ended.append(of_fuser(args, said))
            case "kill" | "snice":
                self._kill(args, said)
            case "taskkill":
                self.ended += of_taskkill(args, said)
            case "stop-process" | "spps":
                self._stop_process(args, said)
            case "wmic" if "process" in args and ({"delete", "terminate"} & set(args)):
                self.ended.append(Selection(said))
            case _ if name.partition("@")[0] in PORT_KILLERS:
                self.ended += of_ports_and_names(args, said)
            case "npx" | "bunx" | "pnpx":
                return self._runs(args, depth)
            case _ if name in _RUNNERS and args[:1] == [_RUNNERS[name]]:
                return self._runs(args[1:], depth)
            case "su" | "runuser" | "script" if texts := [
                to for to, by in zip(args[1:], args, strict=False) if _C.fullmatch(by)
            ]:
                return self.text(texts[0], depth)
            case "cmd" if args and args[0].lower() in {"/c", "/k", "//c"}:
                return self.reaches(args[1:], depth + 1)
            case "concurrently":
                return any(self.text(each, depth) for each in operands(args, frozenset(("-n", "-c"))))
            case _ if name in _SHELLS_OF_WINDOWS:
                return self._powershell(args, depth)
            case _:
                return None
        return False

    # --- straight helpers -----------------------------------------------------------------------
    def _runs(self, args: list[str], depth: int) -> bool:
        called = values_of(args, "c", "--call")
        return self.text(called[-1], depth) if called else self.reaches(
            operands(args, frozenset(("-p", "--package", "--with"))), depth + 1
        )  # fmt: skip

    def _pkill(self, args: list[str], said: str) -> None:
        """`pkill -P $$` ends children of the very shell."""
        if re.search(r"-P\s*\$(?:\$|\{\$\})", self._simple.written) and not is_known(" ".join(args)):
            return
        self._end(of_pkill(args, said))

    def _end(self, selection: Selection) -> None:
        if is_clear(selection):
            self.ended.append(selection)
        else:
            self.unread = True

    def _kill(self, args: list[str], said: str) -> None:
        """`kill -9 4121`, `kill -- -4121`, `kill %1`, `kill $(…)`."""
        if args[:1] in (["-l"], ["-L"], ["--list"]):
            return
        if any(each.lower() in {"-name", "-processname"} for each in args):  # in PowerShell it is Stop-Process
            self._stop_process(args, said)
            return
        rest = args[1:] if args and SIGNAL.fullmatch(args[0]) else args  # behind it, -9 is a group
        while rest and rest[0] in {"-s", "--signal", "-n", "-q", "--queue"}:
            rest = rest[2:]
        rest = [each for each in rest if not each.startswith("--")]
        pids, groups = numbers(rest), numbers([each[1:] for each in rest if each.startswith("-")])
        if 1 in groups:  # `kill -9 -1`: all that it may
            self.ended.append(Selection(said))
        elif pids or groups:
            self.ended.append(Selection(said, pids=pids, groups=groups))
        if any(not is_known(each) for each in rest):
            self._take(self._from_a_pipe)

    def _stop_process(self, args: list[str], said: str) -> None:
        """PowerShell's; without a name or a number it takes what comes through the pipe."""
        given = of_get_process(args, said)
        self.ended += given
        if not given:
            self._take(from_a_pipe=True)

    def _take(self, from_a_pipe: bool) -> None:
        """It ends those that it is given."""
        given = self._sources.of(self._simple, from_a_pipe=from_a_pipe)
        self.unread |= given is None
        self.ended += given or []

    def _powershell(self, args: list[str], depth: int) -> bool:
        for at, word in enumerate(args):
            if word.lower() in {"-command", "-c"}:
                return self.text(" ".join(args[at + 1 :]), depth)
        return bool(args) and not args[0].startswith("-") and self.text(" ".join(args), depth)


def _is_signal_0(args: list[str]) -> bool:
    return "-0" in args or "0" in values_of(args, "s", "--signal")
