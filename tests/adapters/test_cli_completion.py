"""Completion: what a shell offers, from a bus that runs; nothing is started, nothing is said where none does."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.conftest import bus as own_bus
from tests.end_to_end.playground import BUS, WAIT_S, Bus

__all__ = ["own_bus"]  # the fixture


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus('[resources.web]\n[resources.gpu]\nunits = ["0", "1"]\n') as bus:
        bus.ok("request", "machine/build", agent="ann")
        bus.ok("join", "bob", agent="bob")
        yield bus


def offered(bus: Bus, *words: str) -> list[str]:
    return [line.partition("\t")[0] for line in bus.ok("__complete", *words).splitlines()]


@pytest.mark.parametrize(
    ("words", "first", "not_there"),
    [
        (("re",), ["request", "release", "restart", "receipt", "recover"], "run"),
        (("request", ""), ["gpu", "machine/build", "web"], "ann"),
        (("request", "w"), ["web"], "gpu"),
        (("--json", "--home", "HOME", "status", "m"), ["machine/build"], "web"),
        (("run", "--resource", "g"), ["gpu"], "web"),
        (("run", "-r", "g"), ["gpu"], "web"),
        (("request", "web", "--ti"), ["--time"], "web"),
        (("request", "--for", ""), [], "web"),
        (("--as", "b"), ["bob"], "web"),
        (("send", ""), ["coordinator", "ann", "bob"], "web"),
        (("send", "ann", ""), [], "ann"),
        (("run", "--resource", "gpu", "--", "ls", ""), [":command"], "web"),
        (("request", "--worktree", "x"), [":dirs"], "web"),
        (("send", "ann", "--file", "x"), [":files"], "web"),
        (("map", ""), [":files"], "web"),
        (("--js",), ["--json"], "web"),
        (("errors", "NOT_H"), ["NOT_HOLDER"], "web"),
        (("completion", "z"), ["zsh"], "bash"),
        (("nonsense", ""), [], "web"),
        (("--as",), ["--as"], "web"),
    ],
)
def test_what_may_stand_there_is_offered(bus: Bus, words: tuple[str, ...], first: list[str], not_there: str) -> None:
    found = offered(bus, *[str(bus.home) if word == "HOME" else word for word in words])
    assert found[: len(first)] == first
    assert not_there not in found
    assert bool(found) == bool(first)


def test_asking_for_completion_is_no_sign_of_life(bus: Bus) -> None:
    before = bus.ok("tail", "--json", "--since", "0")
    assert offered(bus, "release", "") == ["gpu", "machine/build", "web"]
    assert bus.ok("tail", "--json", "--since", "0") == before


def test_without_a_bus_completion_is_silent_and_starts_none(own_bus: Bus) -> None:
    for words in (["request", ""], ["--as", ""], ["send", ""]):
        done = own_bus("__complete", *words)
        assert (done.code, done.err) == (0, "")
    assert not own_bus.home.exists()
    own_bus.ok("up")
    own_bus.kill_supervisor()
    done = own_bus("__complete", "request", "")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert own_bus.processes() == []


def test_bash_completes_with_it(bus: Bus) -> None:
    """The script itself, in a shell that has no bash-completion."""
    program = (
        f'PATH="{BUS.parent}:$PATH"; source <(bus completion bash)\n'
        'try() { COMP_WORDS=(bus "$@"); COMP_CWORD=$#; _bus bus; printf \'%s,\' "${COMPREPLY[@]}"; echo; }\n'
        "try request w\ntry request web --wor\ntry sen\ntry run -- l 2>/dev/null\n"
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program], env=bus.environment, text=True, capture_output=True, timeout=WAIT_S,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["web,", "--worktree,", "send,", ","]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_are_such_a_shell_s(bus: Bus, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = bus.ok("completion", shell)
    subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=WAIT_S)


def test_what_is_installed_is_taken_away_again_and_nothing_else(bus: Bus) -> None:
    # given
    zsh = bus.folder / ".local/share/zsh/site-functions/_bus"
    zsh.parent.mkdir(parents=True)
    zsh.write_text("#compdef bus\n# mine\n")
    # then
    for shell in ("bash", "fish"):
        assert "bus completion --uninstall" in bus.ok("completion", shell, "--install")
    assert "wrote:" in bus.ok("--install-completion", env={"SHELL": "/bin/bash"})
    done = bus("completion", "zsh", "--install")
    assert (done.code, "move it away" in done.err) == (73, True)
    done = bus("completion", "tcsh")
    assert (done.code, "bash, zsh, fish" in done.err) == (64, True)
    # when
    said = bus.ok("completion", "--uninstall")
    # then
    assert len(said.splitlines()) == 2
    assert zsh.read_text() == "#compdef bus\n# mine\n"
    assert not list(bus.folder.rglob("bus.fish"))
