"""The checker is a program too: each violation is planted, and must be all that it finds."""

from typing import Any

import pytest
from tests.races.checker import Story, faults, served

KEY, POOL = "machine/lock", "machine/pool"
UNITS = {KEY: ("",), POOL: ("0", "1")}


def granted(key: str, agent: str, fence: int, unit: str = "", request_id: str = "") -> dict[str, Any]:
    return {
        "actor": key, "type": "granted", "agent": agent, "fence": fence, "unit": unit,
        "request_id": request_id or f"{agent}-{fence}",
    }  # fmt: skip


def requested(key: str, agent: str, arrival: int, request_id: str) -> dict[str, Any]:
    return {
        "actor": key, "type": "requested", "agent": agent,
        "ticket": {"request_id": request_id, "agent": agent, "arrival": arrival},
    }  # fmt: skip


def revoked(key: str, fence: int) -> dict[str, Any]:
    return {"actor": key, "type": "revoked", "agent": "a", "fence": fence}


def found(text: str, *events: dict[str, Any], killed: tuple[int, ...] = ()) -> list[str]:
    """What the checker says of these lines: `;` between them, L for the lock's key and P for the pool's."""
    lines = tuple(line.strip().replace(" L ", f" {KEY} ").replace(" P ", f" {POOL} ") for line in text.split(";"))
    return faults(Story(lines, events, frozenset(killed), UNITS))


TWO = (granted(KEY, "a", 5), granted(KEY, "b", 7))
ASKED = "ask L a 1; ask L b 2"


@pytest.mark.parametrize(
    ("text", "events", "killed", "says"),
    [
        # the newer one is inside before the older one has left
        (f"{ASKED}; enter L - 5 a 1; enter L - 7 b 2; leave L - 5 a 1; leave L - 7 b 2", TWO, (), "two at once"),
        (f"{ASKED}; enter L - 5 a 1; enter L - 7 b 2; leave L - 7 b 2; leave L - 5 a 1", TWO, (), "two at once"),
        # to be killed is no excuse for one that is still seen to live
        (f"{ASKED}; enter L - 5 a 1; enter L - 7 b 2; leave L - 5 a 1; leave L - 7 b 2", TWO, (1,), "two at once"),
        ("ask L a 1; enter L - 5 a 1; leave L - 5 a 1; enter L - 5 a 1; leave L - 5 a 1", TWO[:1], (), "reused fence"),
        (f"{ASKED}; enter L - 7 b 2; leave L - 7 b 2; enter L - 5 a 1; leave L - 5 a 1", TWO, (), "goes back"),
        (f"{ASKED}; enter L - 5 a 1; enter L - 7 b 2; leave L - 7 b 2", TWO, (), "lost leave"),
        (f"{ASKED}; enter L - 5 a 1; leave L - 5 a 1; enter L - 7 b 2", TWO, (), "lost leave"),
        (f"{ASKED}; enter L - 5 a 1; leave L - 5 a 1; leave L - 7 b 2", TWO, (1, 2), "without having entered"),
        ("ask L a 1; enter L - 5 a 1; leave L - 5 a 1", TWO, (), "a grant to nobody: b"),
        ("ask L a 1; enter L - 9 a 1; leave L - 9 a 1", (), (), "nobody granted that"),
        ("ask L a 1; ask L b 2; enter L - 5 b 2; leave L - 5 b 2", TWO[:1], (1,), "nobody granted that"),
        (f"{ASKED}; enter L - 5 a 1; leave L - 5 a 1", TWO[:1], (), "starved: b"),
        ("ask L a 1; gone L a 1 69", (), (), "was not served"),
        ("ask P a 1; ask P b 2; ask P c 3; enter P 0 5 a 1; enter P 1 6 b 2; enter P 1 7 c 3; leave P 1 6 b 2;"
         "leave P 1 7 c 3; leave P 0 5 a 1",
         (granted(POOL, "a", 5, "0"), granted(POOL, "b", 6, "1"), granted(POOL, "c", 7, "1")), (), "two at once"),
        ("ask P a 1; enter P 2 5 a 1; leave P 2 5 a 1", (granted(POOL, "a", 5, "2"),), (), "more than there are"),
        (f"{ASKED}; enter L - 7 b 2; leave L - 7 b 2; enter L - 9 a 1; leave L - 9 a 1",
         (requested(KEY, "a", 1, "A"), requested(KEY, "b", 2, "B"), granted(KEY, "b", 7, request_id="B"),
          granted(KEY, "a", 9, request_id="A")), (), "passed over: b"),
        ("ask L a 1; ask L a 1; enter L - 5 a 1; leave L - 5 a 1", (granted(KEY, "a", 7), granted(KEY, "a", 5)), (),
         "fences do not grow"),
    ],
)  # fmt: skip
def test_a_planted_violation_is_found_and_nothing_else(
    text: str, events: tuple[dict[str, Any], ...], killed: tuple[int, ...], says: str
) -> None:
    said = found(text, *events, killed=killed)
    assert len(said) == 1, said
    assert says in said[0]


@pytest.mark.parametrize(
    ("text", "events", "killed"),
    [
        ("ask L a 1; enter L - 5 a 1; ask L b 2; leave L - 5 a 1; enter L - 7 b 2; leave L - 7 b 2", TWO, ()),
        ("ask P a 1; ask P b 2; enter P 0 5 a 1; enter P 1 7 b 2; leave P 0 5 a 1; leave P 1 7 b 2",
         (granted(POOL, "a", 5, "0"), granted(POOL, "b", 7, "1")), ()),
        # pid 1 was killed inside; it leaves nothing, and the next one enters
        (f"{ASKED}; enter L - 5 a 1; enter L - 7 b 2; leave L - 7 b 2", TWO, (1,)),
        # the wrapper (3) was killed, and its command (1) with it
        ("ask L a 3; ask L b 2; enter L - 5 a 1; enter L - 7 b 2; leave L - 7 b 2", TWO, (3,)),
        # a holder that was revoked while it was stopped goes on inside, or enters only then: its fence is the old one
        (f"{ASKED}; enter L - 5 a 1; enter L - 7 b 2; leave L - 5 a 1; leave L - 7 b 2", (*TWO, revoked(KEY, 5)), ()),
        (f"{ASKED}; enter L - 5 a 1; enter L - 7 b 2; leave L - 7 b 2; leave L - 5 a 1", (*TWO, revoked(KEY, 5)), ()),
        (f"{ASKED}; enter L - 7 b 2; enter L - 5 a 1; leave L - 7 b 2; leave L - 5 a 1", (*TWO, revoked(KEY, 5)), ()),
        # whoever was killed while it waited need not be served; whose command was killed neither
        (f"{ASKED}; enter L - 5 a 1; leave L - 5 a 1", TWO[:1], (2,)),
        ("ask L a 1; gone L a 1 137", (), (1,)),
        # the command inside was killed, and its wrapper says so
        ("ask L a 1; enter L - 5 a 4; gone L a 1 137", TWO[:1], (4,)),
        # who left the queue was not passed over
        ("ask L a 1; ask L b 2; enter L - 7 b 2; leave L - 7 b 2",
         (requested(KEY, "a", 1, "A"), requested(KEY, "b", 2, "B"),
          {"actor": KEY, "type": "cancelled", "request_id": "A"}, granted(KEY, "b", 7, request_id="B")), (1,)),
    ],
)  # fmt: skip
def test_what_the_contract_allows_is_no_violation(
    text: str, events: tuple[dict[str, Any], ...], killed: tuple[int, ...]
) -> None:
    assert found(text, *events, killed=killed) == []


def test_sections_are_counted() -> None:
    assert served(Story((f"enter {KEY} - 5 a 1", f"leave {KEY} - 5 a 1"), (), frozenset(), UNITS)) == 1
