"""Who am I: a name given, an ancestor process, the worktree, $USER at a terminal, in this order."""

import pytest

from interlock.coordinator.identify import Found, identify
from interlock.protocol.codes import Code
from interlock.protocol.identity import Identity
from interlock.protocol.registry import Agent, AgentJoined, AgentLeft, Registry, evolve

SHELL, CLIENT, ROOT = (Identity("m", "b", 1, pid, pid * 10) for pid in (300, 200, 1))


def registry(*agents: Agent) -> Registry:
    known = Registry()
    for agent in agents:
        known = evolve(known, AgentJoined(agent))
    return known


def joined(name: str, process: Identity | None = None, worktree: str = "") -> Agent:
    return Agent(name, 1, 0, process, worktree=worktree)


def found(known: Registry, *, agent: str = "", how: str = "", worktree: str = "", user: str = "") -> Found:
    return identify(known, agent=agent, how=how, ancestors=[SHELL, CLIENT, ROOT], worktree=worktree, user=user)


def test_a_given_name_goes_first() -> None:
    known = registry(joined("A", SHELL, "/w"))
    assert found(known, agent="B", how="--as", worktree="/w") == Found("B", "--as")


def test_the_nearest_ancestor_goes_before_the_worktree() -> None:
    known = registry(joined("far", ROOT, "/w"), joined("near", CLIENT), joined("here", None, "/w"))
    assert found(known, worktree="/w").agent == "near"


def test_the_worktree_goes_before_the_user() -> None:
    assert found(registry(joined("here", None, "/w")), worktree="/w", user="me").agent == "here"


def test_outside_of_any_worktree_nobody_is_found_by_it() -> None:
    assert found(registry(joined("A"))).agent == ""


def test_at_a_terminal_it_is_the_user() -> None:
    assert found(registry(), user="ana") == Found("ana", "$USER at a terminal")


@pytest.mark.parametrize("user", ["", "a b", "all", "x" * 65])
def test_nobody_is_told_how_to_say_it(user: str) -> None:
    nobody = found(registry(), user=user)
    assert nobody.agent == ""
    assert all(way in nobody.why for way in ("bus join NAME", "--as NAME", "BUS_AGENT"))


def test_two_agents_of_one_process_are_told_apart_by_their_worktree() -> None:
    known = registry(joined("A", CLIENT, "/a"), joined("B", CLIENT, "/b"))
    assert found(known, worktree="/b").agent == "B"


def test_several_that_match_are_listed() -> None:
    nobody = found(registry(joined("B", CLIENT, "/w"), joined("A", CLIENT, "/w")), worktree="/w")
    assert nobody.agent == ""
    assert nobody.code is Code.AMBIGUOUS_TARGET
    assert "A, B" in nobody.why
    assert "--as NAME" in nobody.why


def test_who_is_gone_is_not_found_again() -> None:
    known = evolve(registry(joined("A", CLIENT, "/w")), AgentLeft("A", 1, "it left", 0))
    assert found(known, worktree="/w").agent == ""


def test_another_spelling_of_a_name_is_nobody() -> None:
    nobody = found(registry(joined("Foo")), agent="foo", how="--as")
    assert (nobody.agent, nobody.code) == ("", Code.NAME_CONFLICT)
    assert "'Foo'" in nobody.why


@pytest.mark.parametrize("name", ["a b", "a:b", "x/../y", "-a", "a--b", "CoordinaTor", "é", "x" * 65, "a\n"])
def test_what_is_no_name_is_nobody(name: str) -> None:
    assert found(registry(), agent=name, how="--as").agent == ""


def test_a_run_of_ci_goes_before_the_worktree_and_a_session_of_it_last() -> None:
    known = registry(joined("here", None, "/w"), joined("near", CLIENT))
    runs = {"run": "ci-1", "unnumbered": ""}
    asked = {"agent": "", "how": "", "worktree": "/w", "user": ""}
    assert identify(known, ancestors=[CLIENT], **asked, **runs).agent == "near"
    assert identify(known, ancestors=[ROOT], **asked, **runs).agent == "ci-1"
    assert identify(known, ancestors=[ROOT], **asked, unnumbered="ci-2").agent == "here"
    assert identify(known, ancestors=[ROOT], **asked | {"worktree": "/x"}, unnumbered="ci-2").agent == "ci-2"
    assert identify(known, ancestors=[ROOT], **asked | {"worktree": "/x"}, unnumbered="no name").agent == ""
