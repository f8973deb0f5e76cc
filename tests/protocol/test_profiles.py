"""The build profile: which commands are builds, through wrappers, shells and their syntax; hostile ones cost little."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.protocol.profiles import DAEMONS, recognise
from interlock.protocol.shell_text import Unreadable, simple_commands

BUILDS = [  # each as words, split at blanks
    "xcodebuild -scheme App", "make", "gmake -j8", "cmake --build build", "ninja", "gradle build", "gradlew test",
    "./gradlew assemble", "../app/gradlew x", "mvn verify", "./mvnw -q package", "cargo +nightly test",
    "bazel build //...",
    "dotnet build", "msbuild x.sln", "make --version",
    "go build ./...", "go test", "go install", "go generate", "go vet", "go run .", "go -C sub build",
    "swift build -c release", "swift test", "swift package resolve", "swift run",
    "npm test", "npm t", "npm run build", "npm run build:web", "npm run-script lint", "npm --prefix web run check",
    "npm -w web run typecheck", "npm run -w web compile", "npm it",
    "pnpm -r test", "pnpm --filter web build", "pnpm recursive run lint", "pnpm --unknown web build",
    "yarn build", "yarn workspace web build", "yarn workspaces foreach -A run test:unit",
    "bun run typecheck", "bun test", "bun --bun run build", "npx build", "npm exec -- make", "npx --yes cmake .",
    "pnpm exec cargo build", "yarn run check",
    "/usr/bin/make", "./node_modules/.bin/npm test", "make.exe", "/mnt/c/tools/MSBuild.exe x.sln",
    r"C:\tools\CMake.EXE ..", "gradlew.bat build", "npm.cmd test",
    "A=1 make", "A=1 B= make -j", "env make", "env -i A=1 make", "env -u CI -C sub make", "env -u CI -S make",
    "env --unknown x make", "env --chdir=sub make", "env -- make",
    "nice make", "nice -n 5 make", "nice -5 make", "time make", "time -p make", "time -o out make",
    "xargs make", "xargs -n 1 make", "xargs -0 -P4 make", "xargs -I {} {} x", "xargs -I% % x", "xargs env",
    "xargs npm run", "xargs -n 1 go", "find . -name x -exec make -C {} ;", "find . -execdir ninja +",
    "nohup make", "setsid -w make", "stdbuf -oL make", "timeout 5m make", "timeout -k 5 --foreground 10 make",
    "ionice -c 3 make", "taskset -c 0-3 make", "flock lock make", "flock -w 5 lock make", "sudo -u bob A=1 make",
    "xcrun --sdk macosx xcodebuild", "command make", "exec -a x make", "cross-env CI=1 npm test", "caffeinate -i make",
    "nice env A=1 time -p nohup xargs -n 1 timeout 5 make", "busybox env make", "bash gradlew build",
    "sh ./mvnw verify",
    "bash", "sh -s", "sh -s x", "sh /dev/stdin", "bash -", "nice bash",
]  # fmt: skip

NO_BUILDS = [
    "ls -la", "python make.py", "echo make", "env", "env A=1", "env echo make", "env -u make ls", "nice -n 5 echo make",
    "go env", "go mod tidy", "go", "swift repl", "swift x.swift", "swift --version", "npm install", "npm run deploy",
    "npm run rebuild", "npm", "npx prettier build", "pnpm add lint-staged", "yarn", "yarn add ninja", "bun ./x.ts",
    "node build", "Make", "MAKE", "remake", "make-it", "maker", "/opt/make/bin/tool", "xargs rm",
    "xargs -n 1 echo make",
    "find . -name make", "find . -exec echo make ;", "timeout 5 ls", "timeout make ls", "command -v make",
    "command -V cargo", "time ls", "bash script.sh", "bash ./ci", "sh --version", "bash --help", "git commit -m make",
    "cat Makefile", "flock make ls", "taskset 3 ls", "A=make", "", "sudo -u make ls", "docker build .",
]  # fmt: skip

BUILD_TEXTS = [
    "make", "cd x && make", "cd x&&make", "true; make", "true;make", "ls | make", "ls |& make", "false || make",
    "x & make",
    "(make)", "( cd x; make )", "{ make; }", "! make", "if make; then ls; fi", "if true; then make; fi",
    "for x in a b; do make $x; done", "for x do make; done", "while true; do make; done", "case $x in a) make;; esac",
    "case a in (a) make;; esac", "f() { make; }; f", "function f { make; }; f", "coproc make", "coproc X { make; }",
    "# nothing\nmake", "ls # a\nmake", "ls\nmake", "A=1 make", "A='b c' make", 'A="$B" make', "A=$(ls) make",
    "m\"ake\"", "'make'", "\"make\"", "ma\\ke", "m''ake", "ma\\\nke", "ls && \\\n make", "\\make", "/usr/bin/make",
    ">out make", "2>&1 make", "<in make", "&>out make", "{fd}>out make", "> out make", ">| out make", "3<>x make",
    "echo $(make)", "echo `make`", 'echo "$(make)"', 'echo "`make`"', "echo ${x:-$(make)}", 'echo "${x:-`make`}"',
    "A=$(make)", "A=${B:=$(make)}", "diff <(make) x", "tee >(make)", "cat <<EOF\n$(make)\nEOF",
    "cat <<EOF\n`make`\nEOF\n",
    "cat <<'EOF'\nx\nEOF\nmake", "cat <<-EOF\n\tx\n\tEOF\nmake", "cat <<<x && make", "cat <<A <<B\nA\nB\nmake",
    "echo $(echo $(echo `make`))", "echo $((1+2)); make", "echo $((make) )", "echo \"a # b\"; make", "echo a#b; make",
    "eval make", "eval 'cd x; make'", "eval \"$X\"", "eval echo $X", "trap make EXIT", "trap -- 'make x' EXIT",
    "alias m=make; m", "exec make", "command make", "time make", "time -p make", "nohup make &", "sh -c make",
    "sh -c 'bash -lc \"cd x && make\"'", "bash -ec 'make'", "bash -c -e make", "bash -o pipefail -c make",
    "bash --rcfile x -c make", "bash -xeuo pipefail -c make", "zsh -fc make", "dash -c -- make", "fish --command make",
    "fish -c 'ls; and make'", "env -S 'A=1 make -j'", "env -vS make", "env -u X -S 'make -j' x", "env -S nice make",
    "env --split-string='make x'", "watch -n 1 make", "watch 'cd x; make'", "flock lock -c 'cd x; make'",
    "npx -c 'make'", "npm exec -c 'cd x && make'", "echo make | sh", "bash <<EOF\nmake\nEOF", "bash <<< make",
    "bash <(echo make)", ". <(echo make)", ". /dev/stdin", "source ./gradlew", "find . -exec make \\;",
    "find . -exec sh -c make \\;", "echo x | xargs -I{} sh -c 'make {}'", "xargs -I{} sh -c '{}'",
    # what nobody can tell
    "$X", "$X y", "\"$X\"", "${MAKE}", "`cat x`", "$(cat x) y", "\"$@\"", "$0", "mak?", "m*", "[m]ake", "/usr/bin/mak?",
    "{make,-j4}", "$'\\x6dake'", "$\"make\"", "=make", "go $X", "npm run $X", "npm run \"$X\"", "bash $X",
    "bash \"$X\"",
    "bash $X make", "sh -c \"$X\"", "sh -c \"ls $X\"", "alias x=\"$Y\"", "xargs sh -c 'ls \"$@\"; \"$@\"'",
    # what is no text that can be read
    "'", "\"", "echo '", "echo \"", "echo `", "echo $(", "echo ${x", "(", "(ls", "cat <<EOF", "cat <<EOF\nx", "ls >",
    "echo $((1", "echo ${x:-'}'}", "cat <<$X\n$X\n", "echo $(case x in a) make;; esac)",
    "echo $(case x in a) ls;; esac)",
    "echo $((`make`))", "echo $(( $(make) ))", "echo $'",
]  # fmt: skip

NO_BUILD_TEXTS = [
    "ls", "", " ", "# make", "ls # make", "ls '#' make", "echo make", "echo 'a; make'", "echo \"a; make\"",
    "echo a\\;make",
    "echo a \\\n make", "ls >make", "ls > make", "ls 2>make", "cat <make", "cat <<EOF\nmake\nEOF",
    "cat <<'EOF'\n$(make)\nEOF",
    "cat <<'E F'\n`make`\nE F\n", "cat <<<make", "echo \"\\$(make)\"", "echo '$(make)'", "echo '`make`'",
    "echo \\`make\\`",
    "echo $make", "echo ${make}", "echo ${x:-make}", "for make in a b; do ls; done", "for x in make; do ls; done",
    "A=make", "A=make ls", "export A=make", "f() { ls; }; f", "cd make && ls", "[ -f make ]", "[[ -f x ]]",
    "echo $((1 + 2))",
    "echo $((1 << 2)) $(( (3) ))", "\"$HOME/bin/tool\" x", "~/bin/tool make", "bash \"$DIR/ci.sh\"", "bash -c 'ls'",
    "trap 'rm -f x' EXIT", "alias ll='ls -l'", "command -v make", "ls make | grep make", "echo \"$X make\"", "{ ls; }",
    "if [ -f x ]; then echo make; fi", "test -f make && ls", "! ls", "time ls", "printf '%s' make", "echo ''", "''",
    "find . -exec ls {} \\;", "git add -A && git commit -m 'make it so'", "./ci", ". ./env.sh", "xargs -I{} ls {}",
]  # fmt: skip


@pytest.mark.parametrize("command", BUILDS)
def test_a_build_is_recognised(command: str) -> None:
    assert recognise(command.split())


@pytest.mark.parametrize("command", NO_BUILDS)
def test_what_builds_nothing_is_let_by(command: str) -> None:
    assert not recognise(command.split())


@pytest.mark.parametrize("shell", ["sh -c", "bash -lc", "nice env A=1 zsh -ec"])
@pytest.mark.parametrize("text", BUILD_TEXTS)
def test_a_build_in_a_shell_s_text_is_recognised_and_so_is_what_cannot_be_read(shell: str, text: str) -> None:
    assert recognise([*shell.split(), text])


@pytest.mark.parametrize("text", NO_BUILD_TEXTS)
def test_a_shell_s_text_that_builds_nothing_is_let_by(text: str) -> None:
    assert not recognise(["bash", "-c", text])


def test_a_shell_s_text_is_its_simple_commands_each_with_its_words() -> None:
    text = "cd 'a b' && A=1 ./x -n >log 2>&1; echo `go env` # done"
    assert [each.words for each in simple_commands(text)] == [
        ["cd", "a b"],
        ["A=1", "./x", "-n"],
        ["go", "env"],
        ["echo", "\0"],
    ]


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("just build", True), ("just build web", True), ("/usr/bin/just build", True), ("just", False),
        ("just test", False), ("just build:x", False), ("scripts/ci", True), ("./scripts/ci fast", True),
        ("/w/scripts/ci", True), ("myscripts/ci", False), ("ci", False), ("env A=1 just build", True),
        ("sh -c just${IFS}build", True), ("bash scripts/ci", True), ("just.exe build", True), ("./local/tool", True),
        ("local/tool", True), ("tool", False), ("xargs just", True),
    ],
)  # fmt: skip
def test_a_pattern_adds_what_begins_with_its_words(command: str, is_one: bool) -> None:
    patterns = (("just", "build"), ("scripts/ci",), ("./local/tool",))
    assert recognise(command.split(), patterns) is is_one


def test_names_are_the_same_in_any_case_where_the_file_system_says_so() -> None:
    assert recognise(["MAKE"], folded=True)
    assert recognise(["/Scripts/CI"], (("scripts/ci",),), folded=True)
    assert not recognise(["MAKE"])


def test_every_build_daemon_is_a_program_s_name_with_arguments_as_spare_has_it() -> None:
    assert all(words and "/" not in words[0] and all(words) for words in DAEMONS)
    assert ("watchman",) in DAEMONS


HOSTILE = {
    "wrappers": ["env"] * 30_000 + ["ls"],
    "substitutions": ["sh", "-c", "echo " + "$(" * 30_000],
    "closed substitutions": ["sh", "-c", "echo " + "$(" * 20_000 + ")" * 20_000],
    "braces": ["sh", "-c", "echo " + "${x" * 20_000],
    "arithmetic": ["sh", "-c", "echo " + "$((" * 20_000],
    "sums": ["sh", "-c", "echo " + "$((1))" * 10_000],
    "backticks": ["sh", "-c", "`" * 65_535],
    "escaped": ["sh", "-c", "\\`" * 32_000],
    "evals": ["sh", "-c", "eval " * 13_000],
    "here-documents": ["sh", "-c", "cat " + "<<A " * 15_000 + "\n" + "A\n" * 100],
    "commands": ["sh", "-c", "a;" * 32_000],
    "subshells": ["sh", "-c", "(" * 32_000 + ")" * 32_000],
    "options": ["env", *["--a", "b"] * 15_000],
    "finds": ["find", *["-exec", "x"] * 15_000],
    "managers": ["yarn", *["run"] * 30_000],
    "placeholders": ["xargs", *["-I", "x"] * 15_000, "x" * 64],
    "assignments": ["A=1"] * 30_000 + ["nice"] * 30_000,
    "quotes": ["sh", "-c", "''" * 32_000],
    "comments": ["sh", "-c", "#\n" * 32_000],
}
WITHIN_S = 10.0  # they take up to one on a busy machine; what is quadratic takes minutes


@pytest.mark.parametrize("command", HOSTILE.values(), ids=HOSTILE)
def test_hostile_commands_are_answered_soon(command: list[str]) -> None:
    before_s = time.process_time()
    recognise(command, (("just", "build"), ("a", "b")))
    assert time.process_time() - before_s < WITHIN_S


PIECES = st.sampled_from(
    ["make", "ls", "echo", "sh -c", "env", "-S", "eval", "npm", "run", "$(", "`", ")", "(", "((", "))", "${", "}",
    "'", '"',
     "\\", "\n", " ", ";", "&&", "|", "<<EOF\n", "EOF\n", ">", "<", "#", "$", "$'", "*", "=", "A=1", "xargs -I{}", "{}",
     "case x in", "for x do", "\0", "\1", "é", "x" * 1000]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join))


@settings(max_examples=100, deadline=None)
@given(text=TEXTS, times=st.integers(1, 40))
def test_any_text_is_answered_yes_or_no_and_soon(text: str, times: int) -> None:
    text = (text * times)[: 64 * 1024]
    before_s = time.process_time()
    for command in (["sh", "-c", text], ["env", "-S", text], text.split(" "), ["xargs", "-I", "x", "sh", "-c", text]):
        assert recognise(command, (("just", "build"),)) in {True, False}
    assert time.process_time() - before_s < WITHIN_S


@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_a_build_put_before_or_behind_any_text_is_never_missed(text: str) -> None:
    """Whatever stands there: it is closed, or it cannot be read, or the build behind it is seen."""
    assert recognise(["sh", "-c", f"make;{text}"])
    try:
        simple_commands(text + "\n\n")
    except Unreadable:
        return
    assert recognise(["sh", "-c", f"{text}\n\nmake"])
