"""Which programs a command reaches: through env, sudo, xargs, shells and their texts, as far as its words tell.

    env CI=1 nice make -j8 ──▶ env …, nice …, make -j8
    sh -c 'cd x && npm run build:web' ──▶ sh …, cd x, npm run build:web

Nothing is opened and nothing is run here. What a script of the project does inside is not looked into.
"""

import re
from collections.abc import Iterator, Sequence

from interlock.protocol.limits import COMMAND_DEPTH_MAX, COMMAND_LOOKED_AT
from interlock.protocol.shell_text import UNKNOWN, VEILED, Simple, Unreadable, simple_commands

SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ash", "ksh", "mksh", "rbash", "fish"))
_SHELLS_VALUED = frozenset(("-o", "-O", "+o", "+O", "--rcfile", "--init-file"))
_KEYWORDS = frozenset(  # a command follows
    ("if", "then", "elif", "else", "while", "until", "do", "!", "{", "and", "or", "not", "begin", "-", "noglob",
     "nocorrect", "coproc")
)  # fmt: skip
_WRAPPERS = {  # their options that take a value, and how many words come before the command
    "env": ("-u --unset -C --chdir -a --argv0", 0),
    "nice": ("-n --adjustment", 0),
    "time": ("-f --format -o --output", 0),
    "xargs": ("-a --arg-file -d --delimiter -E -I -L -n --max-args -P --max-procs -s --max-chars -J -R -S", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "busybox": ("", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "unbuffer": ("", 0),
    "exec": ("-a", 0),
    "stdbuf": ("-i --input -o --output -e --error", 0),
    "timeout": ("-k --kill-after -s --signal", 1),
    "ionice": ("-c --class -n --classdata -P -u", 0),
    "taskset": ("", 1),
    "chrt": ("-T -P -D", 1),
    "flock": ("-w --wait -E --conflict-exit-code", 1),
    "caffeinate": ("-t -w", 0),
    "sudo": ("-u --user -g --group -h --host -p --prompt -C -D --chdir -R --chroot -T -U -r -t", 0),
    "doas": ("-u -C", 0),
    "pkexec": ("--user", 0),
    "setpriv": ("--reuid --regid --groups --pdeathsig", 0),
    "unshare": ("-S --setuid -G --setgid -R --root -w --wd", 0),
    "chroot": ("", 1),
    "systemd-run": ("-p --property -u --unit -E --setenv -t -H -M --slice --uid --gid", 0),
    "xcrun": ("--sdk -sdk --toolchain -toolchain", 0),
    "cross-env": ("", 0),
}
_FLAGS = frozenset(  # long options that take none; another one may, and then both readings count
    ("--ignore-environment", "--null", "--debug", "--append", "--portability", "--verbose", "--no-run-if-empty",
     "--interactive", "--open-tty", "--exit", "--foreground", "--preserve-status", "--login", "--norc", "--noprofile",
     "--posix", "--recursive", "--silent", "--workspaces", "--if-present", "--yes", "--no", "--bun")
)  # fmt: skip
_QUERIES = frozenset(("--version", "--help"))
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=", re.ASCII)
_OF_WINDOWS = re.compile(r"(.+)\.(?:exe|cmd|bat)", re.IGNORECASE | re.DOTALL)


class CommandWalk:
    """One command under way. Every level of it is paid for, so that no nesting takes long.

    Args: folded: the file system that programs are found on knows no upper and lower case.
    """

    def __init__(self, *, folded: bool = False) -> None:
        self._folded = folded
        self._left = COMMAND_LOOKED_AT

    # --- what is looked for ---------------------------------------------------------------------
    def wants(self, name: str, words: list[str], depth: int) -> bool | None:
        """Whether a program is what is looked for; None: perhaps something that it runs is.

        Args: name: without folder. words: all of its command.
        """
        raise NotImplementedError

    def unseen(self, words: Sequence[str]) -> bool:
        """Whether what nobody can see counts as found: a program that a variable names, commands from a pipe."""
        raise NotImplementedError

    # --- the walk -------------------------------------------------------------------------------
    def reaches(self, words: list[str], depth: int = 0) -> bool:
        """Whether these words run what is looked for. All branching on programs. Raises Unreadable."""
        if depth > COMMAND_DEPTH_MAX:
            raise Unreadable
        behind = next((at for at, word in enumerate(words) if not ASSIGNMENT.match(word)), len(words))
        self.pay(behind + 1)
        words = words[behind:]
        if not words:
            return False
        name, args = self.name_of(words[0]), words[1:]
        if UNKNOWN in words[0] or VEILED in name:
            return self.unseen(words)
        self.pay(len(args))
        wanted = self.wants(name, words, depth)
        if wanted is not None:
            return wanted
        if name in SHELLS:
            return self._shell(args, depth)
        if name in _KEYWORDS:
            return self.reaches(args, depth + 1) or (name == "coproc" and self.reaches(args[1:], depth + 1))
        if name in _WRAPPERS:
            return self._wrapper(name, args, depth)
        return self._built_in(name, args, depth)

    # --- programs that run others -------------------------------------------------------------
    def _wrapper(self, name: str, args: list[str], depth: int) -> bool:
        if name == "command" and args and re.fullmatch(r"-[pvV]*[vV][pvV]*", args[0]):
            return False  # it only says where that is
        if name == "env" and (split := _split_string(args)) is not None:
            inner = self.read(split[0])
            return len(inner) != 1 or self.reaches([*inner[0].words, *split[1]], depth + 1)
        valued, before = _WRAPPERS[name]
        for rest in behind_options(args, frozenset(valued.split())):
            self.pay(len(rest))
            if name == "xargs" and rest and self.reaches([*_filled(rest, args), UNKNOWN], depth + 1):
                return True  # what it reads comes behind, or where a placeholder stands
            if name == "flock" and rest[1:2] in (["-c"], ["--command"]):
                return self.text(" ".join(rest[2:3]), depth)
            if self.reaches(rest[before:], depth + 1):
                return True
        return False

    def _shell(self, args: list[str], depth: int) -> bool:
        """`sh -lc TEXT`, `sh FILE`; a shell with neither reads what nobody sees."""
        if args and args[0] in _QUERIES:
            return False
        is_text, at = False, 0
        while at < len(args) and args[at][:1] in {"-", "+"}:
            word, at = args[at], at + 1
            if word in {"-", "--"}:
                break
            if UNKNOWN in word or (word[0] == "-" and "s" in word and not word.startswith("--")):
                return self.unseen(args)
            if word.startswith("--"):
                name, _, value = word.partition("=")
                if name == "--command" and value:
                    return self.text(value, depth)
                is_text = is_text or name == "--command"
                at += 1 if word in _SHELLS_VALUED else 0
                continue
            is_text = is_text or (word[0] == "-" and "c" in word)
            at += sum(word.count(letter) for letter in "oO")
        rest = args[at:]
        if is_text:
            return self.text(rest[0], depth) if rest else self.unseen(args)
        return self._script(rest, depth)

    def _script(self, args: list[str], depth: int) -> bool:
        """A file of shell commands: known by its name only. Without one, or from a pipe: nobody sees what is read."""
        if not args or args[0].startswith(("/dev/", "/proc/")) or (VEILED in args[0] and "/" not in args[0]):
            return self.unseen(args)
        return self.reaches(args, depth + 1)

    def _built_in(self, name: str, args: list[str], depth: int) -> bool:
        """What a shell itself does with words, and `find`."""
        if name == "eval":
            return self.text(" ".join(args), depth)
        if name in {"trap", "watch"} and args:
            texts = [" ".join(rest) if name == "watch" else rest[0]
                     for rest in behind_options(args, frozenset(("-n", "--interval"))) if rest]  # fmt: skip
            return any(self.text(text, depth) for text in texts)
        if name == "alias":
            return any(self.text(word.partition("=")[2], depth) for word in args)
        if name in {".", "source"}:
            return self._script(args, depth)
        if name == "function":
            return self.reaches(args[1:], depth + 1)
        if name in {"for", "select"} and "do" in args:
            return self.reaches(args[args.index("do") + 1 :], depth + 1)
        if name == "find":
            runs = [at for at, word in enumerate(args) if word in {"-exec", "-execdir", "-ok", "-okdir"}]
            self.pay(len(runs) * len(args))
            return any(self.reaches(args[at + 1 :], depth + 1) for at in runs)
        return False

    # --- straight helpers ---------------------------------------------------------------------
    def text(self, text: str, depth: int) -> bool:
        """Whether a shell text reaches it. Raises Unreadable."""
        return any(self.reaches(each.words, depth + 1) for each in self.read(text))

    def read(self, text: str) -> list[Simple]:
        """The commands of a shell text. Raises Unreadable."""
        if UNKNOWN in text or VEILED in text:  # whatever is put in may hold commands
            raise Unreadable
        self.pay(len(text))
        return simple_commands(text)

    def pay(self, cost: int) -> None:
        """For looking at so much. Raises Unreadable where too much has been looked at."""
        self._left -= cost
        if self._left < 0:
            raise Unreadable

    def name_of(self, word: str) -> str:
        """A program's name without its folder, and as Windows' programs are called without their ending."""
        found = _OF_WINDOWS.fullmatch(word)
        if found is not None:
            return re.split(r"[/\\]", found[1])[-1].lower()
        name = word.rpartition("/")[2]
        return name.lower() if self._folded else name


def is_one_of(word: str, wanted: frozenset[str]) -> bool:
    """Or may be, where nobody can tell."""
    return word in wanted or UNKNOWN in word or VEILED in word


def behind_options(args: list[str], valued: frozenset[str]) -> Iterator[list[str]]:
    """What stands behind a program's options; several readings where a long option may take the next word or not.

    Args: valued: options that take the next word, where it does not stand in them.
    """
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "-":
        word, at = args[at], at + 1
        if word == "--":
            break
        if word in valued:
            at += 1
        elif word.startswith("--"):
            if "=" not in word and word not in _FLAGS and args[at : at + 1] and not args[at].startswith("-"):
                yield args[at:]
                at += 1
        else:  # -xn 5: the last of several letters
            letters = [f"-{letter}" for letter in word[1:]]
            first = next((place for place, letter in enumerate(letters) if letter in valued), -1)
            at += 1 if first == len(letters) - 1 and first >= 0 else 0
    yield args[at:]


def _filled(rest: list[str], args: list[str]) -> list[str]:
    """The command of an `xargs`, with what it reads in the places that its options name."""
    places = {"{}", *(args[at + 1] for at, word in enumerate(args[:-1]) if word in {"-I", "-J"})}
    places |= {word[2:] for word in args if word.startswith(("-I", "-i"))}
    places |= {word.partition("=")[2] for word in args if word.startswith("--replace=")}
    for place in places - {""}:
        rest = [word.replace(place, UNKNOWN) for word in rest]
    return rest


def _split_string(args: list[str]) -> tuple[str, list[str]] | None:
    """What `env -S TEXT` splits, and the words behind it; None where it is not asked to."""
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "--":
        word, at = args[at], at + 1
        found = re.fullmatch(r"(?:-[i0v]*S|--split-string(?:=|$))(.*)", word, re.DOTALL)
        if found is not None:
            return (found[1], args[at:]) if found[1] else (" ".join(args[at : at + 1]), args[at + 1 :])
        at += 1 if word in {"-u", "--unset", "-C", "--chdir", "-a", "--argv0"} else 0
    return None
