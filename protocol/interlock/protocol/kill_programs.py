"""What programs that end or find processes mean by their words: each by its own options.

An option that narrows a selection and is not read here leaves it as wide as without.
"""

import re
from itertools import pairwise

import msgspec

from interlock.protocol.command_walk import behind_options
from interlock.protocol.limits import PORTS_OF_A_RANGE_MAX
from interlock.protocol.shell_text import UNKNOWN, VEILED


class Selection(msgspec.Struct, frozen=True, omit_defaults=True):
    """Processes, by what they have in common; by everything that is set, and by nothing at all: all.

    Args:
        words: as they were written, for the sentence.
        pattern: a regular expression. whole: of the command line, else of the program's name.
        exact: all of it, not a part. folds: no upper and lower case.
        ports: that they listen at. paths: files that they have open. parents: their parents' pids.
        pids, groups: themselves, and their process groups'.
        listed: as `ps` lists them: with their users and numbers.
        pid_files: files that hold their pids.
    """

    words: str
    pattern: str = ""
    whole: bool = False
    exact: bool = False
    folds: bool = False
    ports: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()
    parents: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    pid_files: tuple[str, ...] = ()
    listed: bool = False

    def is_precise(self) -> bool:
        """It names processes, and does not look for them."""
        return bool(self.pids or self.groups or self.pid_files)


SIGNAL = re.compile(
    r"-(?:[0-9]+|(?:SIG)?(?:HUP|INT|QUIT|ILL|TRAP|ABRT|BUS|FPE|KILL|USR[12]|SEGV|PIPE|ALRM|TERM|STKFLT|CHLD|CONT|STOP"
    r"|TSTP|TTIN|TTOU|URG|XCPU|XFSZ|VTALRM|PROF|WINCH|IO|POLL|PWR|SYS|RTMIN(?:\+[0-9]+)?|RTMAX(?:-[0-9]+)?))",
    re.IGNORECASE,
)
_READ_OTHERWISE = re.compile(r"\[[:=.]|\\[A-Za-z0-9<>'`]")
_DIGITS = re.compile(r"[0-9]{1,10}")
_PKILL_VALUED = frozenset(
    ("-d", "-g", "-G", "-O", "-P", "-r", "-s", "-t", "-u", "-U", "-F", "-q", "--delimiter", "--pgroup", "--group",
     "--older", "--parent", "--runstates", "--session", "--terminal", "--euid", "--uid", "--pidfile", "--signal",
     "--ns", "--nslist", "--cgroup", "--env", "--queue")
)  # fmt: skip
_KILLALL_VALUED = frozenset(
    ("-s", "--signal", "-u", "--user", "-y", "--younger-than", "-o", "--older-than", "-n", "--ns", "-Z", "--context",
     "-t", "-c")
)  # fmt: skip


# --- programs, each by its own options --------------------------------------------------------
def of_pkill(args: list[str], said: str) -> Selection:
    """`pkill`, `pgrep`."""
    plain = [each for each in args if not SIGNAL.fullmatch(each)]
    patterns = operands(plain, _PKILL_VALUED)
    pattern = patterns[0] if patterns else ""
    parents = _numbers_of(plain, "P", "--parent")
    groups = _numbers_of(plain, "g", "--pgroup")
    files = values_of(plain, "F", "--pidfile")
    if has_letter(plain, "v", "--inverse"):
        return Selection(said)
    return Selection(
        said, pattern=pattern if is_known(pattern) else "", whole=has_letter(plain, "f", "--full"),
        exact=has_letter(plain, "x", "--exact"), folds=has_letter(plain, "i", "--ignore-case"),
        parents=() if parents is None else parents, groups=() if groups is None or pattern else groups,
        pid_files=() if pattern else files,
    )  # fmt: skip


def of_killall(args: list[str], said: str) -> list[Selection]:
    """`killall`."""
    plain = [each for each in args if not SIGNAL.fullmatch(each)]
    if has_letter(plain, "l", "--list"):
        return []
    names = operands(plain, _KILLALL_VALUED)
    folds = has_letter(plain, "I", "--ignore-case")
    if has_letter(plain, "r", "--regexp") or has_letter(plain, "m", ""):
        return [Selection(said, pattern=each if is_known(each) else "", folds=folds) for each in names]
    return [msgspec.structs.replace(each, folds=folds) for each in exactly(names, said)] or [Selection(said)]


def exactly(names: list[str], said: str) -> list[Selection]:
    """By the whole name of a program, which may be given with its folder; one that nobody can tell is any."""
    return [
        Selection(said, pattern=re.escape(each.rpartition("/")[2]), exact=True) if is_known(each) else Selection(said)
        for each in names
    ]


def of_fuser(args: list[str], said: str) -> Selection:
    """`3000/tcp`, `-n tcp 3000`, files; a whole file system (`-m`) is everybody's."""
    space = (values_of(args, "n", "--namespace") or ("",))[-1]
    plain = [each for each in args if not SIGNAL.fullmatch(each)]
    names = [each for each in operands(plain, frozenset(("-n", "--namespace"))) if each not in {"tcp", "udp"}]
    if any(has_letter(plain, letter, name) for letter, name in (("m", "--mount"), ("M", "--ismountpoint"), ("c", ""))):
        return Selection(said)
    ports = numbers([name.partition("/")[0] for name in names if space or "/" in name])
    return Selection(said, ports=ports, paths=tuple(each for each in names if is_known(each)) if not ports else ())


def of_lsof(args: list[str], said: str) -> Selection | None:
    """`-t -i :3000`, `-ti tcp:3000-3005`, files; None where nobody can tell what."""
    if not all(map(is_known, args)) or any(each.startswith("+") for each in args):
        return None
    ports: list[int] = []
    for word in args:
        for part in (part for found in re.findall(r":([0-9,-]+)", word) for part in found.split(",")):
            first, _, last = part.partition("-")
            if number(last or first) - number(first) > PORTS_OF_A_RANGE_MAX:
                return None
            ports += range(number(first), number(last or first) + 1)
    paths = tuple(each for each in operands(args, frozenset(("-i", "-p", "-u", "-s"))) if "/" in each)
    return Selection(said, ports=tuple(ports), paths=() if ports else paths)


def of_taskkill(args: list[str], said: str) -> list[Selection]:
    """`/IM node.exe /F /T`, `/PID 4121`; `//IM` as a shell on Windows has it."""
    names = [value for word, value in pairwise(args) if word.lstrip("/-").lower() == "im"]
    pids = numbers([value for word, value in pairwise(args) if word.lstrip("/-").lower() == "pid"])
    found = [_windows_name(each, said) for each in names]
    return [*found, *([Selection(said, pids=pids)] if pids else [])] or [Selection(said)]


def of_get_process(args: list[str], said: str) -> list[Selection]:
    """`-Name node,python`, `-Id 4121`, a name alone."""
    found, at = [], 0
    while at < len(args):
        word, at = args[at].lower(), at + 1
        given = args[at : at + 1] if word in {"-name", "-processname", "-id", "-inputobject"} else []
        if not given and not word.startswith("-"):
            given = [args[at - 1]]
        elif given:
            at += 1
        each = [part for part in given for part in part.split(",")]
        pids = numbers(each)
        if pids:
            found.append(Selection(said, pids=pids))
        elif word not in {"-id", "-inputobject"}:
            found += [_windows_name(name, said) for name in each]
    return found


def _windows_name(name: str, said: str) -> Selection:
    """`*` stands for any text; without upper and lower case, and with its ending or not."""
    if not is_known(name.replace("*", "")):
        return Selection(said)
    plain = re.sub(r"\.exe\Z", "", name, flags=re.IGNORECASE)
    pattern = ".*".join(re.escape(each) for each in plain.split("*"))
    return Selection(said, pattern=pattern, exact=True, folds=True)


def of_ports_and_names(args: list[str], said: str) -> list[Selection]:
    """`kill-port 3000`, `fkill :3000 node 4121`."""
    found, is_port = [], not said.startswith("fkill")
    for word in operands(args, frozenset(("--method", "-t"))):
        value = number(word.lstrip(":"))
        if value:
            port = is_port or word.startswith(":")
            found.append(Selection(said, ports=(value,)) if port else Selection(said, pids=(value,)))
        else:
            found += exactly([word], said)
    return found


# --- words ------------------------------------------------------------------------------------
def number(text: str) -> int:
    """A number that a process, a group or a port can have; 0 where it is none."""
    return int(text) if _DIGITS.fullmatch(text) else 0


def numbers(texts: list[str]) -> tuple[int, ...]:
    """Those of them that are such numbers."""
    return tuple(each for each in map(number, texts) if each)


def readable(words: list[str]) -> str:
    """As a sentence shows them."""
    return " ".join(words).replace(UNKNOWN, "…").replace(VEILED, "…")


def is_clear(selection: Selection) -> bool:
    """Its pattern means here what it means to the system's own expressions."""
    return _READ_OTHERWISE.search(selection.pattern) is None


def is_known(word: str) -> bool:
    """Nothing in it is what nobody can tell."""
    return UNKNOWN not in word and VEILED not in word


def operands(args: list[str], valued: frozenset[str]) -> list[str]:
    """Words that are no options, wherever they stand."""
    found, rest = [], args
    while rest:
        rest = list(behind_options(rest, valued))[-1]
        found += rest[:1]
        rest = rest[1:]
    return found


def has_letter(args: list[str], letter: str, name: str) -> bool:
    """An option is given: `-k`, `-9k`, `--kill`."""
    return any(each == name or (each[:1] == "-" and each[1:2] != "-" and letter in each[1:]) for each in args)


def values_of(args: list[str], letter: str, name: str) -> tuple[str, ...]:
    """What is given for an option: `-P 1`, `-P1`, `--parent 1`, `--parent=1`."""
    found = []
    for at, word in enumerate(args):
        if word in {f"-{letter}", name}:
            found += args[at + 1 : at + 2]
        elif word.startswith(f"{name}="):
            found.append(word.partition("=")[2])
        elif word.startswith(f"-{letter}") and not word.startswith("--"):
            found.append(word[2:])
    return tuple(found)


def _numbers_of(args: list[str], letter: str, name: str) -> tuple[int, ...] | None:
    """The same as numbers; None where one of them is none that anybody can tell."""
    values = [each for value in values_of(args, letter, name) for each in value.split(",")]
    return numbers(values) if all(map(number, values)) else None
