"""The build profile: which commands are builds, as far as their words tell; and which daemons builds leave behind.

    env CI=1 nice make -j8 ──▶ … make -j8 ──▶ a build
    sh -c 'cd x && npm run build:web' ──▶ … npm run build:web ──▶ a build

What cannot be read for certain counts as a build: an unclosed quote, a program whose name a variable holds, a shell
that reads its commands from a pipe. What a script of the project does inside is not looked into: that is what patterns
are for, and the strict profile. Nothing is opened and nothing is run here.
"""

from collections.abc import Sequence

from interlock.protocol.command_walk import CommandWalk, behind_options, is_one_of
from interlock.protocol.limits import COMMAND_DEPTH_MAX
from interlock.protocol.shell_text import UNKNOWN, VEILED, Unreadable

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


def recognise(argv: Sequence[str], patterns: Sequence[Sequence[str]] = (), *, folded: bool = False) -> bool:
    """Whether a command is a build.

    Args:
        argv: the command's words, as they are executed; at most COMMAND_LOOKED_AT of it is looked at.
        patterns: further builds, each by the words that its command begins with.
        folded: the file system that programs are found on knows no upper and lower case.

    Returns:
        True too where the words cannot be read for certain.
    """
    look = _Look(tuple(tuple(words) for words in patterns), folded=folded)
    try:
        return look.reaches(list(argv))
    except Unreadable:
        return True


class _Look(CommandWalk):
    def __init__(self, patterns: tuple[tuple[str, ...], ...], *, folded: bool) -> None:
        super().__init__(folded=folded)
        self._patterns: dict[str, list[tuple[str, ...]]] = {}
        for words in patterns:
            self._patterns.setdefault(self.name_of(words[0]), []).append(words)

    def wants(self, name: str, words: list[str], depth: int) -> bool | None:
        args = words[1:]
        if name in BUILDS or any(self._begins(words, each) for each in self._patterns.get(name, ())):
            return True
        if name in SUBCOMMANDS:
            rest = next(iter(behind_options(args, frozenset(("-C",)))))
            return bool(rest) and is_one_of(rest[0], SUBCOMMANDS[name])
        return self._runs_script(name, args, depth) if name in PACKAGE_MANAGERS else None

    def unseen(self, words: Sequence[str]) -> bool:
        return True

    def _runs_script(self, name: str, args: list[str], depth: int) -> bool:
        """`npm run build`, `pnpm -r test`, `npx -c TEXT`: the first word that says what to do."""
        calls = [at for at, word in enumerate(args) if word in {"-c", "--call"}]
        if calls and (name == "npx" or "exec" in args[: calls[0]] or "x" in args[: calls[0]]):
            return self.text(" ".join(args[calls[0] + 1 :][:1]), depth)
        for rest in behind_options(args, _MANAGERS_VALUED):
            if not rest:
                continue
            word, _, _ = rest[0].partition(":")
            if is_one_of(word, SCRIPTS) or word in PACKAGE_MANAGERS[name]:
                return True
            on = 1 if word in _ON_THE_WAY else 2 if word in _NAMES_ONE else 0
            self.pay(len(rest))
            if on and depth < COMMAND_DEPTH_MAX and self._runs_script(name, rest[on:], depth + 1):
                return True
            if self.reaches(rest[on:], depth + 1):
                return True
        return False

    # --- straight helpers ---------------------------------------------------------------------
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
