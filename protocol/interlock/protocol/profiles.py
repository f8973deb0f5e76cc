"""The build profile: which commands are builds, as far as their words tell; and which daemons builds leave behind.

    env CI=1 nice make -j8 ──▶ nice make -j8 ──▶ make -j8 ──▶ a build
    sh -c 'cd x && npm run build:web' ──▶ cd x, npm run build:web ──▶ a build

What cannot be read for certain counts as a build: an unclosed quote, a program whose name a variable holds, a shell
that reads its commands from a pipe. What a script of the project does inside is not looked into: that is what patterns
are for, and the strict profile. Nothing is opened and nothing is run here.
"""

import re
from collections.abc import Iterator, Sequence

from interlock.protocol.limits import COMMAND_DEPTH_MAX, COMMAND_LOOKED_AT
from interlock.protocol.shell_text import UNKNOWN, VEILED, Unreadable, commands_of

DAEMONS: tuple[
    tuple[str, ...], ...
] = (  # each a program's name and arguments that it must have, as `[bus] spare` has it
    ("java", "org.gradle.launcher.daemon.bootstrap.GradleDaemon"),
    ("java", "org.jetbrains.kotlin.daemon.KotlinCompileDaemon"),
    ("java", "A-server.jar"),  # Bazel
    ("VBCSCompiler",),
    ("dotnet", "VBCSCompiler.dll"),
    ("dotnet", "MSBuild.dll", "/nodeReuse:true"),
    ("sccache",),
    ("ccache",),
    ("turbo", "daemon"),
    ("watchman",),
)

BUILDS = frozenset(  # whatever they are asked for: `make --version` too
    ("xcodebuild", "make", "gmake", "cmake", "ninja", "gradle", "gradlew", "mvn", "mvnw", "cargo", "bazel", "dotnet",
     "msbuild")
)  # fmt: skip
SUBCOMMANDS = {  # `swift x.swift` and `go env` build nothing that is kept
    "go": frozenset(("build", "test", "install", "generate", "vet", "run")),
    "swift": frozenset(("build", "test", "run", "package")),
}
SCRIPTS = frozenset(("build", "test", "check", "lint", "typecheck", "compile"))  # and `build:web`
PACKAGE_MANAGERS = {  # their own words for a test
    "npm": frozenset(("t", "tst", "it", "cit", "install-test", "install-ci-test", "clean-install-test")),
    "pnpm": frozenset(("t", "tst")), "yarn": frozenset(), "bun": frozenset(), "npx": frozenset(), "bunx": frozenset(),
}  # fmt: skip
_ON_THE_WAY = frozenset(  # `pnpm recursive run build`, `yarn workspaces foreach run build`
    ("run", "run-script", "rum", "urn", "exec", "x", "dlx", "recursive", "multi", "m", "workspaces", "foreach")
)
_NAMES_ONE = frozenset(("workspace",))  # `yarn workspace web build`
_MANAGERS_VALUED = frozenset(
    ("--prefix", "-C", "--dir", "--cwd", "--filter", "-F", "-w", "--workspace", "-p", "--package", "--registry",
     "--loglevel", "--userconfig", "--include", "--exclude", "--from")
)  # fmt: skip

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
    "xcrun": ("--sdk -sdk --toolchain -toolchain", 0),
    "cross-env": ("", 0),
}
_FLAGS = frozenset(  # long options that take none; another one may, and then both readings count
    ("--ignore-environment", "--null", "--debug", "--append", "--portability", "--verbose", "--no-run-if-empty",
     "--interactive", "--open-tty", "--exit", "--foreground", "--preserve-status", "--login", "--norc", "--noprofile",
     "--posix", "--recursive", "--silent", "--workspaces", "--if-present", "--yes", "--no", "--bun")
)  # fmt: skip
_QUERIES = frozenset(("--version", "--help"))
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=", re.ASCII)
_OF_WINDOWS = re.compile(r"(.+)\.(?:exe|cmd|bat)", re.IGNORECASE | re.DOTALL)


def recognise(argv: Sequence[str], patterns: Sequence[Sequence[str]] = (), *, folded: bool = False) -> bool:
    """Whether a command is a build.

    Args:
        argv: the command's words, as they are executed; at most COMMAND_LOOKED_AT of it is looked at.
        patterns: further builds, each by the words that its command begins with.
        folded: the file system that programs are found on knows no upper and lower case.

    Returns:
        True too where the words cannot be read for certain.
    """
    look = _Look(tuple(tuple(words) for words in patterns), folded)
    try:
        return look.is_build(list(argv), 0)
    except Unreadable:
        return True


class _Look:
    """One command under way. Every level of it is paid for, so that no nesting takes long."""

    def __init__(self, patterns: tuple[tuple[str, ...], ...], folded: bool) -> None:
        self._folded = folded
        self._left = COMMAND_LOOKED_AT
        self._patterns: dict[str, list[tuple[str, ...]]] = {}
        for words in patterns:
            self._patterns.setdefault(self._name(words[0]), []).append(words)

    def is_build(self, words: list[str], depth: int) -> bool:
        """Whether these words are one. All branching on programs. Raises Unreadable."""
        if depth > COMMAND_DEPTH_MAX:
            raise Unreadable
        behind = next((at for at, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
        self._pay(behind + 1)
        words = words[behind:]
        if not words:
            return False
        name, args = self._name(words[0]), words[1:]
        if UNKNOWN in words[0] or VEILED in name:
            return True
        if name in BUILDS or any(self._begins(words, each) for each in self._patterns.get(name, ())):
            return True
        if name in SUBCOMMANDS:
            rest = next(iter(_behind_options(args, frozenset(("-C",)))))
            return bool(rest) and _is_one_of(rest[0], SUBCOMMANDS[name])
        self._pay(len(args))
        if name in PACKAGE_MANAGERS:
            return self._runs_script(name, args, depth)
        if name in SHELLS:
            return self._shell(args, depth)
        if name in _KEYWORDS:
            return self.is_build(args, depth + 1) or (name == "coproc" and self.is_build(args[1:], depth + 1))
        if name in _WRAPPERS:
            return self._wrapper(name, args, depth)
        return self._built_in(name, args, depth)

    # --- programs that run others -------------------------------------------------------------
    def _wrapper(self, name: str, args: list[str], depth: int) -> bool:
        if name == "command" and args and re.fullmatch(r"-[pvV]*[vV][pvV]*", args[0]):
            return False  # it only says where that is
        if name == "env" and (split := _split_string(args)) is not None:
            inner = self._commands(split[0])
            return len(inner) != 1 or self.is_build([*inner[0], *split[1]], depth + 1)
        valued, before = _WRAPPERS[name]
        for rest in _behind_options(args, frozenset(valued.split())):
            self._pay(len(rest))
            if name == "xargs" and rest and self.is_build([*_filled(rest, args), UNKNOWN], depth + 1):
                return True  # what it reads comes behind, or where a placeholder stands
            if name == "flock" and rest[1:2] in (["-c"], ["--command"]):
                return self._text(" ".join(rest[2:3]), depth)
            if self.is_build(rest[before:], depth + 1):
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
                return True
            if word.startswith("--"):
                name, _, value = word.partition("=")
                if name == "--command" and value:
                    return self._text(value, depth)
                is_text = is_text or name == "--command"
                at += 1 if word in _SHELLS_VALUED else 0
                continue
            is_text = is_text or (word[0] == "-" and "c" in word)
            at += sum(word.count(letter) for letter in "oO")
        rest = args[at:]
        if is_text:
            return not rest or self._text(rest[0], depth)
        return self._script(rest, depth)

    def _script(self, args: list[str], depth: int) -> bool:
        """A file of shell commands: known by its name only. Without one, or from a pipe: nobody sees what is read."""
        if not args or args[0].startswith(("/dev/", "/proc/")):
            return True
        return (VEILED in args[0] and "/" not in args[0]) or self.is_build(args, depth + 1)

    def _built_in(self, name: str, args: list[str], depth: int) -> bool:
        """What a shell itself does with words, and `find`."""
        if name == "eval":
            return self._text(" ".join(args), depth)
        if name in {"trap", "watch"} and args:
            texts = [" ".join(rest) if name == "watch" else rest[0]
                     for rest in _behind_options(args, frozenset(("-n", "--interval"))) if rest]  # fmt: skip
            return any(self._text(text, depth) for text in texts)
        if name == "alias":
            return any(self._text(word.partition("=")[2], depth) for word in args)
        if name in {".", "source"}:
            return self._script(args, depth)
        if name == "function":
            return self.is_build(args[1:], depth + 1)
        if name in {"for", "select"} and "do" in args:
            return self.is_build(args[args.index("do") + 1 :], depth + 1)
        if name == "find":
            runs = [at for at, word in enumerate(args) if word in {"-exec", "-execdir", "-ok", "-okdir"}]
            self._pay(len(runs) * len(args))
            return any(self.is_build(args[at + 1 :], depth + 1) for at in runs)
        return False

    def _runs_script(self, name: str, args: list[str], depth: int) -> bool:
        """`npm run build`, `pnpm -r test`, `npx -c TEXT`: the first word that says what to do."""
        calls = [at for at, word in enumerate(args) if word in {"-c", "--call"}]
        if calls and (name == "npx" or "exec" in args[: calls[0]] or "x" in args[: calls[0]]):
            return self._text(" ".join(args[calls[0] + 1 :][:1]), depth)
        for rest in _behind_options(args, _MANAGERS_VALUED):
            if not rest:
                continue
            word, _, _ = rest[0].partition(":")
            if _is_one_of(word, SCRIPTS) or word in PACKAGE_MANAGERS[name]:
                return True
            on = 1 if word in _ON_THE_WAY else 2 if word in _NAMES_ONE else 0
            self._pay(len(rest))
            if on and depth < COMMAND_DEPTH_MAX and self._runs_script(name, rest[on:], depth + 1):
                return True
            if self.is_build(rest[on:], depth + 1):
                return True
        return False

    # --- straight helpers ---------------------------------------------------------------------
    def _text(self, text: str, depth: int) -> bool:
        return any(self.is_build(words, depth + 1) for words in self._commands(text))

    def _commands(self, text: str) -> list[list[str]]:
        if UNKNOWN in text or VEILED in text:  # whatever is put in may hold commands
            raise Unreadable
        self._pay(len(text))
        return commands_of(text)

    def _pay(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise Unreadable

    def _name(self, word: str) -> str:
        """A program's name without its folder, and as Windows' programs are called without their ending."""
        found = _OF_WINDOWS.fullmatch(word)
        if found is not None:
            return re.split(r"[/\\]", found[1])[-1].lower()
        name = word.rpartition("/")[2]
        return name.lower() if self._folded else name

    def _begins(self, words: list[str], pattern: tuple[str, ...]) -> bool:
        """A command begins with a pattern's words; its program may be given with any folder before it."""
        program, wanted = words[0], pattern[0].removeprefix("./")
        if self._folded:
            program, wanted = program.lower(), wanted.lower()
        if "/" in wanted and not f"/{program}".endswith("/" + wanted.lstrip("/")):
            return False
        for word, expected in zip(words[1:], pattern[1:], strict=False):
            if UNKNOWN in word or VEILED in word:
                return True
            if word != expected:
                return False
        return len(words) >= len(pattern)


def _is_one_of(word: str, wanted: frozenset[str]) -> bool:
    """Or may be, where nobody can tell."""
    return word in wanted or UNKNOWN in word or VEILED in word


def _behind_options(args: list[str], valued: frozenset[str]) -> Iterator[list[str]]:
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
