"""SIGKILL of each part of a `bus run`, at each step: never two trees, never free early, never stuck without a word.

killed                  before GO                            started                         draining
supervisor              the wrapper gives GO, it runs        it runs on                      it runs on
wrapper, or both        the keeper leaves: free              the keeper ends it, then free   it runs on
keeper, or both         its report proves it harmless: free  a person confirms               a person confirms

Draining: the command has ended, and a process that it started lives. The same table stands for users in
docs/operations/back-up-and-recover.md.
"""

import os
import signal
from collections.abc import Callable

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import PYTHON, Bus, Follower, Running, alive, ends, kill
from tests.end_to_end.terminal import at_terminal
from tests.end_to_end.test_gate import KEY, Held, under_way

Follow = Callable[[], Follower]


class Under:
    """A command of A at one step, which ignores SIGTERM and lives until it is let go; B waits behind it."""

    def __init__(self, bus: Bus, log: Follower, state: str) -> None:
        self._fifo, leader = bus.folder / "fifo", bus.folder / "leader"
        os.mkfifo(self._fifo)
        os.mkfifo(leader)
        script = bus.folder / "script"
        script.write_text(f"trap '' TERM; echo pid $$; exec >/dev/null 2>&1; read line < {self._fifo}\n")
        shell = f"exec sh {script}" if state == "started" else f"sh {script} & read line < {leader}"
        self.run = bus.start("run", "--resource", KEY, "--", "sh", "-c", shell, agent="A")
        self.pid = int(self.run.out.until("pid").split()[1])
        if state == "draining":
            leader.write_text("go\n")
            log.until("command_draining", agent="A")
        (command,) = under_way(bus)
        self.launch, self.keeper_pid = command["launch"], command["keeper_pid"]
        self.second = Held(bus.folder, "second")
        self.waiting = bus.start("run", "--resource", KEY, "--", *self.second.words, agent="B")
        log.until("requested", agent="B")

    def let_go(self) -> None:
        self._fifo.write_text("go\n")


def what_is_said(bus: Bus) -> tuple[str, str]:
    """Why one who comes now has to wait: its waiting line, and `bus status`."""
    newcomer = bus.start("run", "--resource", KEY, "--", "true", agent="newcomer")
    line = newcomer.err.until("waiting: ")
    newcomer.kill(signal.SIGTERM)
    assert newcomer.end().code == 128 + signal.SIGTERM
    return line, bus.ok("status", KEY)


@pytest.mark.parametrize("whom", ["wrapper", "supervisor", "both"])
@pytest.mark.parametrize("state", ["started", "draining"])
def test_it_never_makes_two_trees_and_never_frees_early(
    bus: Bus, home: Home, follow: Follow, whom: str, state: str
) -> None:
    # given one under way, or only its background, and one that waits
    bus.ok("up")
    under = Under(bus, follow(), state)
    # when
    if whom in {"wrapper", "both"}:
        under.run.kill()
    if whom in {"supervisor", "both"}:
        bus.kill_supervisor()  # the next command starts one
    # then while it lives nobody else runs, and that is said
    line, status = what_is_said(bus)
    assert alive(under.pid)
    assert bus.status(KEY)["holders"][0]["agent"] == "A"
    assert under.waiting.out.seen == []
    assert len(under_way(bus)) == 1
    assert "A" in line
    assert "A" in status
    # when it ends
    under.let_go()
    # then the next is let in
    under.waiting.out.until("inside second")
    assert not alive(under.pid)
    assert ends(under.pid)
    under.second.let_go()
    assert under.waiting.end().code == 7
    assert bus.status(KEY)["state"] == "free"


@pytest.mark.parametrize("whom", ["wrapper", "supervisor", "both"])
def test_between_admission_and_go(bus: Bus, home: Home, follow: Follow, whom: str) -> None:
    """The wrapper is stopped at the moment of its admission: its keeper has not been told to go."""
    # given
    bus.ok("up")
    log, mark = follow(), bus.folder / "executed"
    wrapper = stopped_before_go(bus, ("touch", str(mark)))
    assert under_way(bus)[0]["state"] == "admitted"
    assert bus.tell("B", f"REQUEST {KEY} - next")["type"] == "QUEUED"
    # when
    if whom in {"supervisor", "both"}:
        bus.kill_supervisor()
    if whom in {"wrapper", "both"}:
        wrapper.kill()
    if whom == "supervisor":
        # then it is what it was
        assert bus.ok("ps")
        assert (under_way(bus)[0]["state"], mark.exists()) == ("admitted", False)
        assert bus.status(KEY)["holders"][0]["agent"] == "A"
        wrapper.kill(signal.SIGCONT)
        assert wrapper.end().code == 0
    # then its keeper left, which proves it: the next is let in without a person
    bus.ok("ps")
    granted = log.until("granted", agent="B")
    assert granted["seq"] > log.until("finished", agent="A")["seq"]
    assert mark.exists() is (whom == "supervisor")
    assert under_way(bus) == []


@pytest.mark.parametrize("whom", ["keeper", "keeper and supervisor"])
@pytest.mark.parametrize("state", ["started", "draining"])
def test_without_its_keeper_it_waits_for_a_person_who_sees_the_whole_command(
    bus: Bus, home: Home, follow: Follow, whom: str, state: str
) -> None:
    # given
    bus.ok("up")
    log = follow()
    under = Under(bus, log, state)
    # when
    kill(under.keeper_pid)
    if whom == "keeper and supervisor":
        bus.kill_supervisor()
    bus.ok("ps")
    log.until("command_in_doubt", agent="A")
    # then it holds, what lives of it is its own, and what is said of it has no argument of it
    assert bus.status(KEY)["state"] == "recovery_required"
    (command,) = under_way(bus)
    assert command["state"] == "recovery_required"
    assert [each["pid"] for each in command["processes"]] == [under.pid]
    says_why_without_its_arguments(bus)
    assert under.waiting.out.seen == []
    shown = bus("recover", under.launch)
    assert (shown.code, "a person at a terminal" in shown.out) == (75, True)
    assert "script" not in shown.out
    # when a person looks, ends it, and confirms
    code = code_for(bus, under.launch, shows="script")
    under.let_go()
    assert ends(under.pid)
    code = code_for(bus, under.launch, shows="script")
    done = at_terminal(bus, "recover", under.launch, "--confirm", code)
    # then the next is let in
    assert done.code == 0, done
    under.waiting.out.until("inside second")
    under.second.let_go()
    assert under.waiting.end().code == 7
    assert bus.status(KEY)["state"] == "free"


@pytest.mark.parametrize("whom", ["keeper", "keeper and supervisor"])
def test_without_its_keeper_before_go_its_report_proves_that_nothing_was_executed(
    bus: Bus, home: Home, follow: Follow, whom: str
) -> None:
    """GO is on disk before anything is executed: where it is not, there is no doubt to ask a person about."""
    # given
    bus.ok("up")
    log, mark = follow(), bus.folder / "executed"
    wrapper = stopped_before_go(bus, ("touch", str(mark)))
    (command,) = under_way(bus)
    waiting = bus.start("run", "--resource", KEY, "--", "echo", "next", agent="B")
    log.until("requested", agent="B")
    # when
    if whom == "keeper and supervisor":
        bus.kill_supervisor()
    kill(command["keeper_pid"])
    bus.ok("ps")
    # then
    assert log.until("command_finished", agent="A")["launch"] == command["launch"]
    assert waiting.end().out == "next\n"
    wrapper.kill(signal.SIGCONT)
    done = wrapper.end()
    assert (done.code, "died before GO" in done.err) == (125, True), done
    assert (under_way(bus), mark.exists()) == ([], False)


# --- helpers ----------------------------------------------------------------------------------
def says_why_without_its_arguments(bus: Bus) -> None:
    """Who waits and who looks is told that a person has to look, and how; no door tells the command's arguments."""
    line, status = what_is_said(bus)
    assert f"stopped until a person confirms: bus recover {KEY}; keeper pid" in line, line
    assert f"bus recover {KEY}" in status, status
    assert not [door for door in (("status",), ("ps",), ("tail",)) if str(bus.folder / "script") in bus(*door).out]


def code_for(bus: Bus, launch: str, *, shows: str) -> str:
    """What a person at a terminal is shown, its whole command among it, and the code that confirms it."""
    seen = at_terminal(bus, "recover", launch)
    assert shows in seen.screen.replace("\n", ""), seen
    return seen.screen.rpartition("--confirm ")[2].split()[0]


def stopped_before_go(bus: Bus, words: tuple[str, ...]) -> Running:
    """A wrapper of A that has had its command admitted, and is stopped before GO; SIGCONT has it go on."""
    program = (
        "import os, signal, sys\n"
        "from interlock.adapters.cli import run_keeper, running\n"
        "from interlock.adapters.cli.options import Options\n"
        "before = run_keeper.RunKeeper.say\n"
        "def say(self, words):\n"
        "    print('before GO', flush=True); os.kill(os.getpid(), signal.SIGSTOP); return before(self, words)\n"
        "run_keeper.RunKeeper.say = say\n"
        f"sys.exit(running.run(['-r', {KEY!r}, '--', *sys.argv[1:]], Options('A', '--as')))\n"
    )
    wrapper = bus.launch([str(PYTHON), "-c", program, *words])
    wrapper.out.until("before GO")
    return wrapper
