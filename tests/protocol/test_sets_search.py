"""Every combination of requests for several resources; and machines with one planted fault each, which are caught."""

from collections.abc import Callable

import msgspec
import pytest
from tests.protocol import search_sets
from tests.protocol.search import Found
from tests.protocol.search_sets import POOLED, THREE, TWO, WIDE, Plan
from tests.protocol.search_sets import search_sets as search

from interlock.protocol import (
    resource_handover,
    resource_joint,
    resource_requests,
    resource_sets,
    resource_state,
    wait_for,
)
from interlock.protocol.resource_draft import Draft
from interlock.protocol.resource_state import Resource, Ticket
from interlock.protocol.wait_for import World

Plant = Callable[[pytest.MonkeyPatch], None]
QUICK = [(TWO, 40), (POOLED, 5), (THREE, 4), (WIDE, 2)]  # scripts/search goes on from there


@pytest.mark.parametrize(("plan", "depth"), QUICK, ids=[plan.name for plan, _ in QUICK])
def test_every_promise_holds_in_every_combination(plan: Plan, depth: int) -> None:
    print(search(plan, depth))


# --- faults -----------------------------------------------------------------------------------
def look_at_nobody(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(search_sets, "deadlocked", lambda world, asker: frozenset())


def look_at_holders_only(plant: pytest.MonkeyPatch) -> None:
    """As a graph of who waits for which holder has it."""

    def of_holders(world: World, asker: str) -> frozenset[str]:
        pools = {key: msgspec.structs.replace(pool, chosen=True) for key, pool in world.pools.items()}
        return wait_for.deadlocked(World(pools), asker)

    plant.setattr(search_sets, "deadlocked", of_holders)


def grant_half(plant: pytest.MonkeyPatch) -> None:
    first = resource_state.first_grantable

    def alone(resource: Resource) -> Ticket | None:
        ticket = first(resource)
        return msgspec.structs.replace(ticket, together=()) if ticket is not None else None

    plant.setattr(resource_handover, "first_grantable", alone)


def pass_for_ever(plant: pytest.MonkeyPatch) -> None:
    def let_wait(ticket: Ticket, free: dict[str, int], waiting: dict[str, list[Ticket]]) -> None:
        for key in ticket.together:
            waiting[key].append(ticket)

    plant.setattr(resource_joint, "_let_wait", let_wait)
    plant.setattr(resource_joint, "_pass", lambda drafts, ticket, free, waiting: None)


def pass_without_trying(plant: pytest.MonkeyPatch) -> None:
    def behind(resource: Resource) -> Ticket | None:
        return next((each for each in resource.queue.present() if not each.together), None)

    plant.setattr(resource_handover, "first_grantable", behind)


def leave_the_rest(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_joint, "_make_whole", lambda drafts: None)


def give_each_place_a_number_of_its_own(plant: pytest.MonkeyPatch) -> None:
    make = resource_requests.new_ticket

    def of_its_own(draft: Draft, mail: object, body: object, arrival: int, together: tuple[str, ...]) -> Ticket:
        return make(draft, mail, body, draft.state.next_arrival, together)  # type: ignore[arg-type] # as it was given

    plant.setattr(resource_sets, "new_ticket", of_its_own)


def answer_nobody_later(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(resource_joint, "_answer", lambda draft, deferred: None)


MUTANTS: list[tuple[Plant, Plan, int, str]] = [
    (look_at_nobody, TWO, 5, "nobody is in a circle"),
    (look_at_holders_only, THREE, 6, "nobody is in a circle"),
    (grant_half, TWO, 4, "granted as one|no set holds half"),
    (pass_for_ever, msgspec.structs.replace(THREE, passes=0), 4, "passed so often at most"),
    (pass_without_trying, TWO, 4, "nobody is in a circle"),
    (leave_the_rest, TWO, 4, "nobody is in a circle|what is not whole is looked at"),
    (give_each_place_a_number_of_its_own, TWO, 5, "one arrival number"),
    (answer_nobody_later, TWO, 6, "answered once"),
]


@pytest.mark.parametrize(("plant", "plan", "depth", "promise"), MUTANTS, ids=[row[0].__name__ for row in MUTANTS])
def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant, plan: Plan, depth: int, promise: str) -> None:
    plant(monkeypatch)
    with pytest.raises(Found, match=promise):
        search(plan, depth)
