"""Who am I: found without being told, bound to what runs me, and never mistaken for somebody else."""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import BUS, Bus, Running
from tests.end_to_end.terminal import at_terminal

NUMBERS = itertools.count(1)
HOST = """import subprocess, sys
for words in sys.stdin:
    done = subprocess.run([sys.argv[1], *words.split()], capture_output=True, text=True)
    print(done.returncode, (done.stderr + done.stdout).replace("\\n", " "), flush=True)
"""


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus('[bus]\nhosts = ["my-agent"]\n') as bus:
        yield bus


@pytest.fixture
def place(bus: Bus) -> Path:
    """A worktree of this test's own."""
    place = bus.folder / f"place{next(NUMBERS)}"
    (place / ".git").mkdir(parents=True)
    return place


class Host:
    """A program that runs agents: a script of that name, run by an interpreter, as those clients are."""

    def __init__(self, bus: Bus, name: str, place: Path) -> None:
        script = place / name
        script.write_text(HOST)
        self.running: Running = bus.launch([sys.executable, str(script), str(BUS)], cwd=place, stdin=-1)

    def run(self, words: str) -> str:
        stdin = self.running.process.stdin
        assert stdin is not None
        stdin.write(words + "\n")
        stdin.flush()
        return self.running.out.until(" ")


@pytest.mark.parametrize("name", ["claude", "codex", "my-agent"])
def test_join_binds_to_a_known_host_and_its_death_frees(bus: Bus, place: Path, name: str) -> None:
    # given
    host = Host(bus, name, place)
    # then
    assert f"bound to {name} (pid {host.running.pid})" in host.run(f"join {place.name}-a")
    # when: no name is said any more, from outside of any worktree even
    said = host.run(f"request machine/{place.name}")
    # then
    assert "GRANTED" in said
    assert f"{place.name}-a (joined from your process {host.running.pid})" in host.run("me")
    assert bus("request", f"machine/{place.name}", agent=f"{place.name}-next").code == 75
    # when
    host.running.kill()
    host.running.end()
    # then
    bus.ok("wait", f"machine/{place.name}", "--timeout", "20s", agent=f"{place.name}-next")
    gone = bus("check", f"machine/{place.name}", agent=f"{place.name}-a")
    assert (gone.code, f"its process {host.running.pid} is gone" in gone.err) == (77, True)


def test_two_agents_in_one_process_are_two(bus: Bus, place: Path) -> None:
    # given
    host = Host(bus, "claude", place)
    for name in ("sub1", "sub2"):
        host.run(f"join {place.name}-{name}")
    # then
    ambiguous = host.run("me")
    assert ambiguous.startswith("64 ")
    assert f"{place.name}-sub1, {place.name}-sub2" in ambiguous
    assert "--as NAME" in ambiguous
    assert host.run(f"request machine/{place.name} --as {place.name}-sub1").startswith("0 ")
    assert host.run(f"request machine/{place.name} --as {place.name}-sub2").startswith("75 ")


def test_who_bound_nothing_is_never_taken_for_dead(bus: Bus, place: Path) -> None:
    # given
    joined = bus("join", cwd=place)
    assert (joined.code, "not bound: if you vanish, others wait up to 9m" in joined.out) == (0, True)
    bus.ok("request", f"machine/{place.name}", cwd=place)
    # when: its command has ended, the supervisor is killed, and somebody waits
    bus.kill_supervisor()
    assert bus("request", f"machine/{place.name}", agent=f"{place.name}-b").code == 75
    # then
    presence = {each["agent"]: each["presence"] for each in bus("agents", "--json").json["agents"]}
    assert presence[place.name] == "unknown"
    assert bus("check", f"machine/{place.name}", cwd=place).code == 0


def test_the_ways_to_say_who_i_am_in_their_order(bus: Bus, place: Path) -> None:
    # given
    bus.ok("join", cwd=place)
    # then
    asked = {
        "--as": bus.ok("me", "--as", "given", agent="environment", cwd=place),
        "BUS_AGENT": bus.ok("me", agent="environment", cwd=place),
        f"joined in {place}": bus.ok("me", cwd=place),
    }
    for way, said in asked.items():
        assert f"({way})" in said.splitlines()[0]
    inside = place / "src" / "deep"
    inside.mkdir(parents=True)
    assert bus.ok("me", cwd=inside).startswith(f"{place.name} ")


def test_at_a_terminal_it_is_the_user(bus: Bus) -> None:
    seen = at_terminal(bus, "me", env={"USER": "ana"})
    assert seen.screen.startswith("ana ($USER at a terminal)")
    assert bus("me", env={"USER": "ana"}).code == 64


def test_a_command_that_leads_its_session_binds_nobody_to_itself(bus: Bus, place: Path) -> None:
    """It would be dead, and its place free, the moment it has asked."""
    seen = at_terminal(bus, "request", f"machine/{place.name}", agent=f"{place.name}-t")
    assert "not bound" in seen.screen
    assert bus("check", f"machine/{place.name}", agent=f"{place.name}-t").code == 0


def test_nobody_is_told_how_to_say_it(bus: Bus) -> None:
    for words in (
        ["me"],
        ["request", "machine/x"],
        ["release"],
        ["send", "coordinator", "STATUS"],
        ["inbox"],
        ["ack", "x"],
    ):
        done = bus(*words, env={"USER": "ana"})
        assert done.code == 64
        assert all(way in done.err for way in ("bus join NAME", "--as NAME", "BUS_AGENT")), words


def test_several_in_one_worktree_are_listed(bus: Bus, place: Path) -> None:
    for name in ("x", "y"):
        bus.ok("join", f"{place.name}-{name}", cwd=place)
    done = bus("me", cwd=place)
    assert done.code == 64
    assert "AMBIGUOUS_TARGET" in done.err
    assert f"{place.name}-x, {place.name}-y" in done.err


def test_a_name_that_differs_by_case_is_refused_by_every_verb(bus: Bus) -> None:
    """Or its release would say that there is nothing to release."""
    # given
    bus.ok("request", "machine/case", agent="Foo")
    # then
    for words in (
        ["me"],
        ["release"],
        ["check", "machine/case"],
        ["wait"],
        ["inbox"],
        ["join", "FOO"],
        ["request", "machine/c"],
    ):
        done = bus(*words, agent="foo" if words[0] != "join" else "FOO")
        assert (done.code, "NAME_CONFLICT" in done.err, "'Foo'" in done.err) == (77, True, True), words
    assert bus("check", "machine/case", agent="Foo").code == 0


def test_a_name_is_taken_over_only_where_that_is_said(bus: Bus) -> None:
    # given
    first, second = bus.launch(["sleep", "600"]), bus.launch(["sleep", "600"])
    bus.ok("join", "taken", "--pid", str(first.pid))
    bus.ok("join", "taken", "--pid", str(first.pid))
    bus.ok("request", "machine/taken", agent="taken")
    # when
    refused = bus("join", "taken", "--pid", str(second.pid))
    # then
    assert (refused.code, "NAME_CONFLICT" in refused.err, "--takeover" in refused.err) == (77, True, True)
    # when
    bus.ok("join", "taken", "--pid", str(second.pid), "--takeover")
    # then
    lost = bus("check", "machine/taken", agent="taken")
    assert (lost.code, "taken over" in lost.err) == (77, True)
    # when
    second.kill()
    second.end()
    bus.ok("join", "taken", "--pid", str(first.pid))


@pytest.mark.parametrize("pid", ["99999999", "-4", "99999999999999999999", "x"])
def test_a_process_that_is_none_is_refused(bus: Bus, pid: str) -> None:
    done = bus("join", "nopid", "--pid", pid)
    assert (done.code, len(done.err.splitlines())) == (64, 1)


def test_leave_gives_everything_to_the_next(bus: Bus) -> None:
    # given
    bus.ok("request", "machine/leave", agent="leaver")
    assert bus("request", "machine/leave", agent="stayer").code == 75
    # when
    bus.ok("leave", agent="leaver")
    # then
    bus.ok("wait", "machine/leave", "--timeout", "20s", agent="stayer")
    again = bus("request", "machine/leave", agent="leaver")
    assert (again.code, "JOINED leaver" in again.err) == (75, True)


def test_news_is_shown_on_stderr_three_at_most_each_once_and_again_on_demand(bus: Bus) -> None:
    # given
    for number in range(4):
        bus.ok("request", f"machine/news{number}", agent="newsman")
        assert bus("request", f"machine/news{number}", agent="reader").code == 75
    for number in range(4):
        bus.ok("release", f"machine/news{number}", agent="newsman")
    # when
    shown = [bus("me", agent="reader") for _ in range(3)]
    # then
    assert [each.err.count("GRANTED machine/news") for each in shown] == [3, 1, 0]
    assert "1 unread - next: bus inbox" in shown[0].out
    assert "0 unread" in shown[1].out
    assert bus.ok("inbox", "--last", "4", agent="reader").count("GRANTED machine/news") == 4
    assert bus.ok("inbox", agent="reader") == ""


def test_a_working_directory_that_is_gone_is_one_sentence(bus: Bus) -> None:
    program = "import os, sys; os.mkdir('g'); os.chdir('g'); os.rmdir('../g'); os.execv(sys.argv[1], sys.argv[1:])"
    done = bus.launch([sys.executable, "-c", program, str(BUS), "request", "x"], env=bus.environment_of("g")).end()
    assert (done.code, done.err.count("\n"), "current directory is gone" in done.err) == (64, 1, True)
    assert os.path.isdir(bus.folder)
