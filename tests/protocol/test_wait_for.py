"""The reduction against brute force: every order in which a small world can go on, move by move."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.protocol.wait_for import Behind, LeaseWait, Place, Pool, World, circle, deadlocked, in_words, left

AGENTS = ("a", "b", "c", "d")
KEYS = ("machine/x", "machine/y", "machine/z")


class State(NamedTuple):
    """Args: holds: (agent, key), sorted. queues: by key. leases: those that wait. here: who has not finished."""

    free: tuple[int, ...]
    holds: tuple[tuple[str, str], ...]
    queues: tuple[tuple[Place, ...], ...]
    leases: tuple[LeaseWait, ...]
    here: frozenset[str]


def begin(world: World) -> State:
    keys = sorted(world.pools)
    holds = tuple(sorted((agent, key) for key in keys for agent in world.pools[key].holders))
    waits = {each.agent for key in keys for each in world.pools[key].queue} | {each.agent for each in world.leases}
    behind = {each.agent for lease in world.leases for each in lease.behind}
    queues = tuple(world.pools[key].queue for key in keys)
    here = frozenset({agent for agent, _ in holds} | waits | behind)
    return State(tuple(world.pools[key].free for key in keys), holds, queues, tuple(world.leases), here)


def moves(state: State, keys: list[str]) -> Iterator[State]:
    """Whoever waits for nothing may finish; who is next may be served; a lease with nothing in its way may begin."""
    waits = {place.agent for queue in state.queues for place in queue} | {each.agent for each in state.leases}
    for agent in state.here - waits:
        back = [key for who, key in state.holds if who == agent]
        free = tuple(many + back.count(key) for key, many in zip(keys, state.free, strict=True))
        holds = tuple(each for each in state.holds if each[0] != agent)
        yield state._replace(free=free, holds=holds, here=state.here - {agent})
    places = {place for queue in state.queues for place in queue}
    for place in places:
        at = [keys.index(key) for key in place.keys]
        if all(state.free[each] and state.queues[each][0] == place for each in at):
            free = tuple(many - (number in at) for number, many in enumerate(state.free))
            queues = tuple(tuple(p for p in queue if p != place) for queue in state.queues)
            holds = tuple(sorted([*state.holds, *((place.agent, key) for key in place.keys)]))
            yield state._replace(free=free, queues=queues, holds=holds)
    for lease in state.leases:
        if not any(each.agent in state.here for each in lease.behind):
            yield state._replace(leases=tuple(each for each in state.leases if each != lease))


def ends(world: World) -> set[frozenset[str]]:
    """Who is left, in each end that can be come to."""
    keys, found = sorted(world.pools), set[frozenset[str]]()
    first = begin(world)
    seen, todo = {first}, [first]
    while todo:
        state = todo.pop()
        following = list(moves(state, keys))
        if not following:
            found.add(state.here)
        for each in following:
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return found


@st.composite
def worlds(draw: st.DrawFn) -> World:
    asked = draw(
        st.lists(st.tuples(st.sampled_from(AGENTS), st.sets(st.sampled_from(KEYS), min_size=1, max_size=2)), max_size=4)
    )
    places = [Place(agent, f"q{number}", tuple(sorted(keys))) for number, (agent, keys) in enumerate(asked)]
    pools = {}
    for key in KEYS:
        holders = draw(st.lists(st.sampled_from(AGENTS), max_size=2))
        free = draw(st.integers(0 if holders else 1, 1))
        pools[key] = Pool(key, free, tuple(holders), tuple(each for each in places if key in each.keys))
    leases = []
    for number in range(draw(st.integers(0, 2))):
        agent = draw(st.sampled_from(AGENTS))
        others = draw(st.sets(st.sampled_from([each for each in AGENTS if each != agent]), max_size=2))
        leases.append(LeaseWait(agent, f"L{number}", "p", tuple(Behind(each, "L9") for each in sorted(others))))
    return World(pools, tuple(leases))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(worlds())
def test_in_every_order_the_same_are_left_and_the_reduction_says_who(world: World) -> None:
    assert ends(world) == {left(world)}


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(worlds(), st.sampled_from(AGENTS))
def test_whoever_is_left_is_shown_a_circle_where_it_is_in_one(world: World, asker: str) -> None:
    among = deadlocked(world, asker)
    assert not among or asker in among
    way = circle(world, asker, among) if among else []
    if way:
        assert [link.waits for link in way] == [asker, *(link.agent for link in way[:-1])]
        assert way[-1].agent == asker
        assert in_words(way, ["machine/x"])


def test_who_is_absent_may_come_back_or_not() -> None:
    """It is served first if it comes back, and passed over if not: in one of the two nobody would go on."""
    absent = Place("b", "q1", ("machine/x",), absent=True)
    pools = {
        "machine/x": Pool("machine/x", 1, (), (absent, Place("a", "q2", ("machine/x",)))),
        "machine/y": Pool("machine/y", 0, ("b",), (Place("a", "q3", ("machine/y",)),)),
    }
    assert left(World(pools)) == frozenset()
    assert deadlocked(World(pools), "a") == {"a", "b"}


def test_where_a_controller_chooses_only_units_count() -> None:
    places = (Place("b", "q1", ("machine/x",)), Place("a", "q2", ("machine/x",)))
    held = Pool("machine/y", 0, ("a",), (Place("b", "q3", ("machine/y",)),))
    for chosen, stuck in ((False, {"a", "b"}), (True, set[str]())):
        world = World({"machine/x": Pool("machine/x", 1, (), places, chosen), "machine/y": held})
        assert left(world) == stuck


@pytest.mark.parametrize("length", [2, 3, 50])
def test_a_circle_of_any_length_is_found(length: int) -> None:
    names = [f"a{number}" for number in range(length)]
    keys = [f"machine/r{number}" for number in range(length)]
    pools = {
        key: Pool(key, 0, (names[number],), (Place(names[number - 1], f"q{number}", (key,)),))
        for number, key in enumerate(keys)
    }
    assert left(World(pools)) == set(names)
    assert len(circle(World(pools), names[0], left(World(pools)))) == length
    pools[keys[0]] = Pool(keys[0], 1, (), ())
    assert left(World(pools)) == frozenset()
