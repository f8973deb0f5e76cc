"""Which processes' numbers a shell text feeds to what ends them: `kill $(…)`, `… | xargs kill`, `P=$(…); kill $P`.

    ps aux | grep node | awk '{print $2}'     by a text in what `ps` lists
    ss -ltnp | grep :3000 | …                 by a port
    cat server.pid                            what that file says
    python3 -c '…'                            nobody can tell: None

A filter narrows what is found only where its effect is certain: a plain text. Whatever else stands in a pipeline is
taken to let everything through.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from interlock.protocol.command_walk import ASSIGNMENT, CommandWalk
from interlock.protocol.kill_programs import (
    Selection,
    exactly,
    has_letter,
    is_clear,
    is_known,
    number,
    numbers,
    of_fuser,
    of_get_process,
    of_lsof,
    of_pkill,
    operands,
    readable,
    values_of,
)
from interlock.protocol.shell_text import Simple, Unreadable

_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?!$-])")
_READ_FILE = re.compile(r"\$\(\s*<\s*([^\s()<>|;&]+)\s*\)")
_PORT = re.compile(r":([0-9]{1,5})(?![0-9])")
_PLAIN = re.compile(r"[\w ./:@%+,=-]+")
_AWK = re.compile(r"\s*/((?:[^/\\]|\\.)+)/\s*(?:\{.*\})?\s*", re.DOTALL)
_NOT_NAMED = frozenset("!$?#-")  # `$!` is one's own child, `$$` the shell itself
_GOES_ELSEWHERE = frozenset(("cd", "pushd", "popd", "chdir"))


class Sources:
    """Of one text. Args: commands: all of it."""

    def __init__(self, commands: Sequence[Simple]) -> None:
        self._commands = commands
        self._moves = any(each.words[0] in _GOES_ELSEWHERE for each in commands)

    def of(self, simple: Simple, *, from_a_pipe: bool) -> list[Selection] | None:
        """What a command that ends processes is given by substitutions, by variables, or by a pipe."""
        if from_a_pipe:
            return None if simple.before is None else self._fed_by(simple.before)
        return self._of_words(simple, set())

    # --- straight helpers -----------------------------------------------------------------------
    def _of_words(self, simple: Simple, followed: set[str]) -> list[Selection] | None:
        found: list[Selection] = []
        fed = [self._fed_by(end) for end in _ends(simple.inside)]
        fed += [self._file([name], simple) for name in _READ_FILE.findall(simple.written)]
        names = [name for name in _VARIABLE.findall(_outside(simple)) if name not in followed]
        for name in names:
            if name not in _NOT_NAMED and not name[0].isdigit() and name not in "@*":
                followed.add(name)
                fed += self._assigned(name, followed)
        if not fed and not names:
            return None  # `kill {1,2}`, `kill $((P))`
        for each in fed:
            if each is None:
                return None
            found += each
        return found

    def _assigned(self, name: str, followed: set[str]) -> Iterator[list[Selection] | None]:
        """What a variable of this text may hold; nothing of one that comes from outside."""
        for simple in self._commands:
            words = simple.words
            values = [word.partition("=")[2] for word in words if _name(word) == name]
            if words[:2] == ["for", name]:
                values = words[3:]
            if values:
                said = [number(each) for value in values for each in value.split()]
                if all(said):
                    yield [Selection(readable(words), pids=tuple(each for each in said if each))]
                elif any(not is_known(value) for value in values):
                    yield self._of_words(simple, followed)
            elif "read" in words and name in words:
                yield self._fed_by(simple.before) if simple.before is not None else None

    def _fed_by(self, end: Simple) -> list[Selection] | None:
        """What a pipeline prints: that of the first in it that looks for processes."""
        line: list[Simple] = []
        here: Simple | None = end
        while here is not None:
            line.insert(0, here)
            here = here.before
        for at, simple in enumerate(line):
            for words in _innermost(simple.words):
                found = self._found_by(words, simple, line[at + 1 :])
                if found is not None:
                    return found
        return None

    def _found_by(self, words: list[str], simple: Simple, behind: list[Simple]) -> list[Selection] | None:
        """All branching on programs that look for processes; None where it is none, or nobody can tell."""
        name, args, said = words[0].rpartition("/")[2].lower(), words[1:], readable(words)
        match name:
            case "pgrep":
                found = of_pkill(args, said)
                return [found] if is_clear(found) else None
            case "pidof":
                return exactly(operands(args, frozenset(("-o", "-d", "-S"))), said)
            case "lsof":
                opened = of_lsof(args, said)
                return None if opened is None else [opened]
            case "fuser":
                return [of_fuser(args, said)]
            case "ps":
                return _listed(args, said, behind)
            case "ss" | "netstat":
                texts = [*args, *(text for each in behind for text in each.words)]
                ports = tuple(int(port) for text in texts for port in _PORT.findall(text))
                return [Selection(said, ports=ports)] if ports else None
            case "get-process" | "gps":
                return of_get_process(args, said)
            case "jobs":
                return []
            case "echo" | "printf":
                pids = numbers(args)
                return [Selection(said, pids=pids)] if pids else None
            case "cat" | "head" | "tail":
                return self._file(operands(args, frozenset(("-n", "-c"))), simple)
        return None

    def _file(self, names: list[str], simple: Simple) -> list[Selection] | None:
        """What stands in files, where it is known which."""
        if not names or not all(is_known(name) and "$" not in name and "{" not in name for name in names):
            return None
        if self._moves and not all(name.startswith(("/", "~")) for name in names):
            return None
        return [Selection(readable(simple.words), pid_files=tuple(names))]


class _Innermost(CommandWalk):
    """Notes what runs in the end: without `sudo`, `env` and their like."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = []

    def wants(self, name: str, words: list[str], depth: int) -> bool | None:
        self.found.append(words)
        return None

    def unseen(self, words: Sequence[str]) -> bool:
        return False


def _innermost(words: list[str]) -> list[list[str]]:
    walk = _Innermost()
    try:
        walk.reaches(list(words))
    except Unreadable:
        return []
    return walk.found


def _ends(inside: tuple[Simple, ...]) -> list[Simple]:
    """The last commands of the pipelines that are substituted, without those that are in one of them."""
    nested = {id(each) for simple in inside for each in simple.inside}
    piped = {id(simple.before) for simple in inside}
    return [simple for simple in inside if id(simple) not in nested | piped]


def _outside(simple: Simple) -> str:
    """What is written of it without its substitutions, whose variables are theirs."""
    text = simple.written
    for each in simple.inside:
        text = text.replace(each.written.strip(), "")
    return text


def _name(word: str) -> str:
    found = ASSIGNMENT.match(word)
    return found[1] if found is not None else ""


# --- what ps lists ------------------------------------------------------------------------------
def _listed(args: list[str], said: str, behind: Iterable[Simple]) -> list[Selection] | None:
    """`ps -C node`, `ps -p 4121`, `ps aux | grep node`; None where nobody can tell which of them."""
    names = values_of(args, "C", "")
    if names:
        return exactly([name for value in names for name in value.split(",")], said)
    pids = values_of(args, "p", "--pid")
    if pids:
        found = numbers([pid for value in pids for pid in value.split(",")])
        return [Selection(said, pids=found)] if found else None
    for simple in behind:
        for words in _innermost(simple.words):
            patterns = _looked_for(words)
            if patterns:
                folds = has_letter(words[1:], "i", "--ignore-case")
                shown = f"{said} | {readable(words)}"
                return [Selection(shown, pattern=each, whole=True, listed=True, folds=folds) for each in patterns]
    return None


def _looked_for(words: list[str]) -> list[str]:
    """Patterns one of which each line has that a filter lets through; none where that is not certain."""
    name, args = words[0].rpartition("/")[2], words[1:]
    match name:
        case "grep" | "egrep" | "fgrep" | "rg" if not has_letter(args, "v", "--invert-match"):
            given = operands(args, frozenset(("-e", "-m", "-A", "-B", "-C")))[:1] or list(values_of(args, "e", ""))
            extended = name in {"egrep", "rg"} or has_letter(args, "E", "--extended-regexp")
            texts = re.split(r"\|" if extended else r"\\\|", given[0]) if given else []
        case "awk" | "gawk" | "mawk":
            program = _AWK.fullmatch((operands(args, frozenset(("-F", "-v"))) or [""])[0])
            texts = program[1].split("|") if program is not None else []
        case _:
            return []
    texts = [re.sub(r"\[(\w)\]", r"\1", text) for text in texts]  # `[n]ode`, not to find itself
    if not all(_PLAIN.fullmatch(text) and is_known(text) and text == text.strip() for text in texts):
        return []
    return [re.escape(text).replace(r"\.", ".") for text in texts]
