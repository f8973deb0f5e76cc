"""What stands in the way of many that wait, found in one go, is what is found of each alone."""

import random

import msgspec
from tests.protocol.territory_player import Player

from interlock.protocol.lease import Lease
from interlock.protocol.territory_overlap import blockers, in_the_way_of_each
from interlock.protocol.territory_state import Territory

PATHS = ["src/**", "src/a", "src/*/x", "doc", "doc/b:1-5", "doc/b:4-9", "*", "lib/{a,b}"]


def crowd(seed: int) -> Territory:
    """A story of agents that ask, split and give back, whatever comes of it."""
    dice, player, agents = random.Random(seed), Player(), ["ann", "bob", "cyd", "dan"]
    for _ in range(24):
        agent, path = dice.choice(agents), " ".join(dice.sample(PATHS, dice.choice([1, 1, 2])))
        player.play(f"{agent} acquires {path} {dice.choice(['', 'shared'])} wait=1h")
        if dice.random() < 0.3 and len(player.territory.held):
            lease = dice.choice(list(player.territory.held.values()))
            player.play(f"{lease.agent} splits {lease.id} {dice.choice(agents)} {dice.choice(PATHS)}")
    return player.territory


def test_it_is_what_is_found_of_each_alone() -> None:
    waited = 0
    for seed in range(30):
        territory = crowd(seed)
        for found in in_the_way_of_each(territory, territory.waiting.values(), most=3):
            alone = sorted(blockers(territory, found.lease, 99), key=lambda each: (not each.fence, each.fence))
            assert found.behind == alone[:3]
            assert found.is_all == (len(alone) <= 3)
            waited += 1
    assert waited > 100


def test_however_many_wait_for_everything_so_much_is_looked_at_and_no_more() -> None:
    player = Player().play("ann acquires src/**")
    territory = player.territory
    held = territory.held["L1"]
    waiting = territory.waiting
    for number in range(300):
        waiting = waiting.put(Lease(f"W{number}", f"b{number}", held.claims))
    territory = msgspec.structs.replace(territory, waiting=waiting)
    found = list(in_the_way_of_each(territory, waiting.values(), most=2, looked_at_most=500))
    assert len(found) == 300
    assert [each.id for each in found[1].behind] == ["L1", "W0"]
    assert found[1].is_all
    assert not found[2].is_all
    assert found[-1].behind == []
    assert not found[-1].is_all
