"""Leases read like a plain dictionary that is searched from end to end, and so do all older ones of them."""

import random
from itertools import product

import msgspec
import pytest

from interlock.protocol import glob_fan
from interlock.protocol.claim import Claim, claims_overlap
from interlock.protocol.glob import BadPattern
from interlock.protocol.lease import Lease
from interlock.protocol.leases import EMPTY_LEASES, Leases
from interlock.protocol.outcome import Deadline, Now
from interlock.protocol.plain import from_plain, to_plain

PATTERNS = [
    "a", "b", "a/b", "a/b/c", "a/", "ab", "b/a", "a/*", "*", "**", "a/**", "**/b", "**/b/*", "a/**/c", "?", "[ab]/c",
    "*b", "a*", "*/b", "{a,b}/c", "{a,ab/**}", "b/**/a/**", "a/b*/c", "a/*b/c", "**/*c", "*/*/c",
]  # fmt: skip
FILES = ["a", "b", "a/b", "a/b/c", "b/a", "ab"]
AGENTS = ["ann", "bob", "cyd"]


def claim(chance: random.Random) -> Claim:
    if chance.random() < 0.3:
        first = chance.randrange(1, 6)
        return Claim(chance.choice(FILES), first, first + chance.randrange(3), chance.choice(("", "1f")))
    return Claim(chance.choice(PATTERNS)) if chance.random() < 0.8 else Claim(chance.choice(FILES), blob="1f")


def lease(chance: random.Random, id_: str) -> Lease:
    claims = tuple(claim(chance) for _ in range(chance.choice((1, 1, 2, 3))))
    until = Deadline(chance.choice(("b", "b", "b", "old")), chance.randrange(100)) if chance.random() < 0.8 else None
    return Lease(id_, chance.choice(AGENTS), claims, incarnation=1, until=until)


def changed(chance: random.Random, leases: Leases, naive: dict[str, Lease]) -> Leases:
    id_ = f"l{chance.randrange(40)}"
    before = naive.get(id_)
    match chance.randrange(6):
        case 0 | 1 | 2:
            naive[id_] = lease(chance, id_)
        case 3 if before is not None and before.until is not None:  # it is renewed, now and then to an earlier end
            until = Deadline("b", before.until.mono_ms + chance.randrange(-5, 40))
            naive[id_] = msgspec.structs.replace(before, until=until)
        case 4 if before is not None:
            naive[id_] = msgspec.structs.replace(before, agent=chance.choice(AGENTS))
        case _:
            naive.pop(id_, None)
            return leases.without(id_)
    return leases.put(naive[id_]) if id_ in naive else leases


def looks_like(leases: Leases, naive: dict[str, Lease], chance: random.Random) -> None:
    assert [*leases.values()] == [*naive.values()]
    assert [*leases] == [*naive]
    assert (len(leases), bool(leases), leases) == (len(naive), bool(naive), Leases(naive.values()))
    for id_ in [f"l{n}" for n in range(40)]:
        assert (id_ in leases, leases.get(id_)) == (id_ in naive, naive.get(id_))
    for agent in AGENTS:
        assert leases.of(agent) == tuple(each.id for each in naive.values() if each.agent == agent)
    claims = [claim(chance) for _ in range(chance.choice((1, 2)))]
    meant = [each for each in naive.values() if any(claims_overlap(*both) for both in product(claims, each.claims))]
    assert leases.overlapping(claims) == meant
    assert sorted(each.id for each in leases.each_overlapping(claims)) == sorted(each.id for each in meant)
    ends_are_known(leases, naive, Now(0, "b", chance.randrange(120), 1))


def ends_are_known(leases: Leases, naive: dict[str, Lease], now: Now) -> None:
    ends = [each for each in naive.values() if each.until is not None]
    next_due = leases.next_due(now.boot)
    assert (next_due is None) == (not ends)
    for each in ends:
        assert next_due is not None
        assert each.until is not None
        assert max(0, next_due.left_ms(now)) <= max(0, each.until.left_ms(now))
    due = [each for each in ends if each.until is not None and each.until.is_due(now)]
    some = leases.due(now, 3)
    assert len(some) == min(3, len(due))
    assert all(each in due for each in some)
    assert sorted(each.id for each in leases.due(now, 99)) == sorted(each.id for each in due)


@pytest.mark.parametrize("looked_through", [1, glob_fan.LOOKED_THROUGH])
@pytest.mark.parametrize("seed", range(4))
def test_leases_read_like_a_dictionary_that_is_searched_from_end_to_end(
    monkeypatch: pytest.MonkeyPatch, seed: int, looked_through: int
) -> None:
    monkeypatch.setattr(glob_fan, "LOOKED_THROUGH", looked_through)  # 1: also few letters are found by their affixes
    chance = random.Random(seed)
    leases, naive = EMPTY_LEASES, dict[str, Lease]()
    older: list[tuple[Leases, dict[str, Lease]]] = []
    for step in range(150):
        leases = changed(chance, leases, naive)
        looks_like(leases, naive, chance)
        if step % 30 == 0:
            older.append((leases, naive.copy()))
        if step % 50 == 49:  # go on from older ones: what was made of them since does not shine through
            leases, naive = older[-2][0], older[-2][1].copy()
    for each, then in older:
        looks_like(each, then, chance)


def test_what_is_no_claim_changes_nothing() -> None:
    chance = random.Random(5)
    naive = {f"l{n}": lease(chance, f"l{n}") for n in range(20)}
    leases = Leases(naive.values())
    for id_ in ("l3", "new"):
        with pytest.raises(BadPattern):
            leases.put(Lease(id_, "ann", (Claim("a"), Claim("a/{b"))))
        looks_like(leases, naive, chance)


def test_a_snapshot_has_leases_as_a_plain_dictionary() -> None:
    chance = random.Random(1)
    leases = Leases(lease(chance, f"l{n}") for n in range(30))
    text = msgspec.json.encode(leases, enc_hook=to_plain)
    assert msgspec.json.decode(text, type=dict[str, Lease]) == {each.id: each for each in leases.values()}
    assert msgspec.json.decode(text, type=Leases, dec_hook=from_plain) == leases
    assert msgspec.json.decode(b"{}", type=Leases, dec_hook=from_plain) is EMPTY_LEASES
