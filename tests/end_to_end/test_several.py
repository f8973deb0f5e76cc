"""Several resources as users have them: the command, two agents in opposite order, and a kill around the one record."""

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import FIXTURES, PYTHON, Bus

ONE, OTHER = "machine/a", "machine/b"
ROUNDS = 50  # of each of two agents


def test_both_or_neither_by_the_command(bus: Bus, home: Home) -> None:
    home.write("[resources.gpu]\n[resources.db]\n")
    granted = bus("request", "gpu", "db", "--for", "tests", "--time", "20m", agent="ann")
    assert granted.code == 0
    assert granted.out.startswith("GRANTED gpu,db - gpu")
    queued = bus("send", "coordinator", "REQUEST gpu,db - tests, 20m", agent="bob")
    assert (queued.code, queued.out.split(" - ")[0]) == (75, "QUEUED gpu,db position 1")
    assert bus("wait", "--timeout", "0", agent="bob").code == 75
    assert bus("release", "gpu", agent="ann").code == 0
    assert bus("wait", "gpu,db", "--timeout", "0", agent="bob").code == 75
    assert bus("release", "db", agent="ann").code == 0
    assert bus("wait", agent="bob").code == 0
    holders = [each["agent"] for name in ("gpu", "db") for each in bus.status(name)["holders"]]
    assert holders == ["bob", "bob"]
    assert bus("request", "gpu", agent="ann").code == 75
    refused = bus("request", "gpu", "db", agent="ann")
    assert refused.code == 75
    assert "you wait for gpu already: CANCEL gpu first, then ask for all: gpu,db" in refused.err
    assert bus("cancel", agent="ann").code == 0
    assert bus("release", "gpu,db", agent="bob").code == 0
    assert "nothing is wrong" in bus.ok("doctor", "--verify")


def test_a_circle_is_refused_in_words(bus: Bus, home: Home) -> None:
    home.write("[resources.gpu]\n[resources.db]\n")
    bus.ok("request", "gpu", agent="ann")
    bus.ok("request", "db", agent="bob")
    assert bus("request", "gpu", agent="bob").code == 75
    refused = bus("request", "db", agent="ann")
    assert refused.code == 77
    assert (
        "REFUSED DEADLOCK bob holds db and waits for gpu, which you hold: release gpu, then ask for both" in refused.err
    )


def test_two_agents_in_opposite_order_always_finish(bus: Bus, home: Home) -> None:
    """A hundred rounds, in two processes: never both inside, never a half, and nobody waits for ever."""
    bus.ok("up")
    script = str(FIXTURES / "two_resources.py")
    agents = [
        bus.launch([str(PYTHON), script, str(bus.home), name, str(ROUNDS), str(bus.folder), *order])
        for name, order in (("ann", (ONE, OTHER)), ("bob", (OTHER, ONE)))
    ]
    ended = [each.end(240) for each in agents]
    assert [each.code for each in ended] == [0, 0], ended
    print(*(each.out.strip() for each in ended), sep="; ")
    assert "nothing is wrong" in bus.ok("doctor", "--verify")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_around_the_record_of_a_set_leaves_both_or_neither(bus: Bus, home: Home, when: str) -> None:
    """What waits: the same as at first; what is asked for again with the same id is answered with what is true."""
    dying = bus.up_and_dying(when, 1, '"type":"granted"')
    asked = bus.start("request", ONE, OTHER, "--request-id", "the-set", "--worktree", "-", agent="ann")
    dying.end()
    asked.end()
    holders = [[each["agent"] for each in bus.status(name)["holders"]] for name in (ONE, OTHER)]
    assert holders in ([["ann"], ["ann"]], [[], []])
    done = bus("request", ONE, OTHER, "--request-id", "the-set", "--worktree", "-", agent="ann")
    assert done.code == 0, done
    holders = [[each["agent"] for each in bus.status(name)["holders"]] for name in (ONE, OTHER)]
    assert holders == [["ann"], ["ann"]]
    assert "equals what the bus holds" in bus("doctor", "--verify").out


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_while_a_set_waits_loses_no_place(bus: Bus, home: Home, when: str) -> None:
    dying = bus.up_and_dying(when, 1, '"type":"released"')
    bus.ok("request", OTHER, "--worktree", "-", agent="bob")
    assert bus("request", ONE, OTHER, "--worktree", "-", agent="ann").code == 75
    bus("release", OTHER, agent="bob")
    dying.end()
    bus("release", OTHER, agent="bob")
    assert bus("wait", f"{ONE},{OTHER}", "--timeout", "30s", agent="ann").code == 0
    holders = [[each["agent"] for each in bus.status(name)["holders"]] for name in (ONE, OTHER)]
    assert holders == [["ann"], ["ann"]]
