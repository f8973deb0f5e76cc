"""What a decision about leases costs among many: one more, nothing; each that is served or waits, the same again.

Counted, not timed: steps of the interpreter.
"""

from collections.abc import Callable

import pytest
from tests.protocol.test_growth import NOW, steps

from interlock.protocol.claim import Claim
from interlock.protocol.lease import Lease
from interlock.protocol.leases import Leases
from interlock.protocol.limits import LEASES_WAITING_OF_AGENT_MAX
from interlock.protocol.messages import FromBus, Refused
from interlock.protocol.territory import decide
from interlock.protocol.territory_commands import Acquire, Return
from interlock.protocol.territory_state import Territory

SRC = (Claim("src/**"),)


def held(number: int, *claims: Claim, shared: bool = False) -> Lease:
    return Lease(f"L{number}", f"a{number}", claims, fence=number, shared=shared, since_ms=1)


def waiting(number: int, *claims: Claim, agent: str = "", shared: bool = False) -> Lease:
    return Lease(f"L{number}", agent or f"a{number}", claims, request=f"r{number}", shared=shared, wait_ms=10_000)


def answered(territory: Territory, command: Acquire | Return) -> tuple[list[FromBus], int]:
    outcome = decide(territory, command, NOW)
    return [each.body for each in outcome.outbox], len(outcome.state.held)


def one_more(many: int, *, shared: bool) -> Callable[[], object]:
    """Of many who share the paths, or have others, one asks; nobody is in its way."""
    leases = Leases(
        held(n, *(SRC if shared else (Claim(f"src/f{n}"),)), shared=shared) for n in range(1, many + 1)
    )  # fmt: skip
    territory = Territory("territory/x", held=leases)
    asked = Acquire("new", 1, "i", SRC if shared else (Claim("src/new"),), shared=shared)
    return lambda: answered(territory, asked)


@pytest.mark.parametrize("shared", [False, True])
def test_one_more_asks_among_many_whom_it_does_not_concern(*, shared: bool) -> None:
    few, many = (steps(one_more(number, shared=shared)) for number in (40, 4_000))
    assert many < few + 1_000, f"{few} steps among 40, {many} among 4,000"


def given_back(many: int, kind: str) -> Callable[[], object]:
    """One who held up many is done."""
    match kind:
        case "each wants all of it":
            waits = [waiting(n, *SRC) for n in range(2, many + 2)]
        case "all share it":
            waits = [waiting(n, *SRC, shared=True) for n in range(2, many + 2)]
        case "each wants another part":
            waits = [waiting(n, Claim(f"src/f{n}")) for n in range(2, many + 2)]
        case "every other one shares it":
            waits = [waiting(n, *SRC, shared=bool(n % 2)) for n in range(2, many + 2)]
        case _:
            raise AssertionError(kind)
    territory = Territory("territory/x", held=Leases([held(1, *SRC)]), waiting=Leases(waits))
    return lambda: answered(territory, Return("a1", "i", "L1"))


@pytest.mark.parametrize(
    "kind", ["each wants all of it", "all share it", "each wants another part", "every other one shares it"]
)
def test_what_it_takes_to_serve_those_who_wait_grows_as_their_number_does(kind: str) -> None:
    few, many = steps(given_back(50, kind)), steps(given_back(500, kind))
    assert many < 13 * few, f"{few} steps for 50 who wait, {many} for 500"


def test_an_agent_waits_for_so_many_and_no_more() -> None:
    """It is not in its own way, so each of its waits looks past the others."""
    mine = [waiting(n, *SRC, agent="bob") for n in range(2, 2 + LEASES_WAITING_OF_AGENT_MAX)]
    territory = Territory("territory/x", held=Leases([held(1, *SRC)]), waiting=Leases(mine))
    said, _ = answered(territory, Acquire("bob", 1, "i", SRC, wait_ms=1_000))
    assert isinstance(said[0], Refused)
    assert said[0].code == "QUEUE_FULL"
    assert answered(territory, Acquire("cyd", 1, "i", SRC, wait_ms=1_000))[0][0] != said[0]
