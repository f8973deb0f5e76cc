"""The history of leases as the log and the present tell it: what is in neither is not made up."""

from typing import Any

from interlock.adapters.territory.history import check_history
from interlock.adapters.territory.told import history_of


def began(lease: str, agent: str, since_ms: int, **more: Any) -> dict[str, Any]:
    claims = [{"pattern": "a.py", "first": 1, "last": 9}]
    return {"type": "leased", "lease": lease, "agent": agent, "claims": claims, "since_ms": since_ms, **more}


def ended(lease: str, at_ms: int, how: str = "released", fence: int = 1) -> dict[str, Any]:
    return {"type": "lease_ended", "lease": lease, "at_ms": at_ms, "how": how, "fence": fence}


def row(lease: str, since_ms: int, fence: int = 1) -> dict[str, Any]:
    ranges = [{"pattern": "b", "first": 0, "last": 0, "blob": ""}]
    return {"lease": lease, "agent": "ann", "fence": fence, "since_ms": since_ms, "claims": ["b"], "ranges": ranges}


def intervals(
    events: list[dict[str, Any]], rows: list[dict[str, Any]], log_from_ms: int = 0
) -> tuple[list[tuple[str, str, int, int | None, str]], int]:
    document = history_of("territory/t", "2026-11-30T00:00:00.000Z", events, rows, log_from_ms)
    check_history(document, "what was told")
    found = [(each["lease"], each["agent"], each["from_ms"], each["to_ms"], each["how"]) for each in document["leases"]]
    return found, document["complete_from_ms"]


def test_what_began_and_ended_is_an_interval() -> None:
    assert intervals([began("L1", "ann", 5), ended("L1", 9)], []) == ([("L1", "ann", 5, 9, "released")], 0)


def test_what_is_in_force_has_no_end_though_the_log_is_younger() -> None:
    events = [{"type": "lease_renewed", "lease": "L1"}]
    assert intervals(events, [row("L1", 5), row("L2", 6, fence=0)], 7) == ([("L1", "ann", 5, None, "")], 7)


def test_one_owner_after_the_other_is_two_entries() -> None:
    moved = {**began("L1", "bob", 5), "type": "lease_transferred", "at_ms": 8}
    told, _ = intervals([began("L1", "ann", 5), moved], [])
    assert told == [("L1", "ann", 5, 8, "transferred"), ("L1", "bob", 8, None, "")]


def test_what_ended_in_the_log_and_began_before_it_is_known_from_its_end_on() -> None:
    assert intervals([ended("L1", 9), began("L2", "ann", 11)], [], 7) == ([("L2", "ann", 11, None, "")], 9)


def test_what_ends_between_the_two_questions_is_not_in_force() -> None:
    assert intervals([began("L1", "ann", 5), ended("L1", 9)], [row("L1", 5)]) == ([("L1", "ann", 5, 9, "released")], 0)


def test_who_gave_up_a_place_never_had_it() -> None:
    assert intervals([ended("L1", 9, "given_up", fence=0)], []) == ([], 0)


def test_the_first_word_about_a_commit_counts() -> None:
    word = {"type": "committed", "commit": "c" * 40, "agent": "ann", "at_ms": 5}
    document = history_of("territory/t", "", [word, {**word, "agent": "bob"}], [], 0)
    assert document["commits"] == {"c" * 40: {"agent": "ann", "at_ms": 5}}
