"""The search itself: breadth first, each world once, every promise checked on every step."""

from time import process_time
from typing import NamedTuple

from tests.protocol.search_governed import stands_governed
from tests.protocol.search_moves import moves
from tests.protocol.search_normal import normal
from tests.protocol.search_promises import follow
from tests.protocol.search_standing import late_words_change_nothing, stands
from tests.protocol.search_world import Config, World, begin

Way = tuple["Way", str] | None  # how a world was come to: the way to the one before it, and the move


class Found(AssertionError):
    """A broken promise, and the shortest way to it."""


class Seen(NamedTuple):
    """Args: depth: how many moves deep every way was gone. all: nothing further can be reached. cpu_s: it took."""

    config: str
    states: int
    steps: int
    depth: int
    all: bool
    cpu_s: float

    def __str__(self) -> str:
        whole = f"all there are, the deepest at {self.depth}" if self.all else f"to depth {self.depth}"
        rate = self.steps / max(self.cpu_s, 0.001)
        return (
            f"{self.config}: {self.states:,} states, {self.steps:,} steps, {whole}, {self.cpu_s:.1f} s, {rate:,.0f}/s"
        )


def search(config: Config, depth: int, *, states_max: int = 0) -> Seen:
    """Look at everything that can happen in so many moves.

    Args:
        states_max: end where there are so many (0: never); the depth that is said was still gone wholly.

    Raises:
        Found: a promise does not hold.
    """
    began = process_time()
    first = begin(config)
    seen = {normal(first, config)}
    level: list[tuple[World, Way]] = [(first, None)]
    steps = deep = 0
    while level and deep < depth:
        following: list[tuple[World, Way]] = []
        for world, way in level:
            if states_max and len(seen) > states_max:
                return Seen(config.name, len(seen), steps, deep, False, process_time() - began)
            for move in moves(world, config):
                steps += 1
                try:
                    after = follow(world, move)
                    form = normal(after, config)
                    if form in seen:
                        continue
                    stands(after)
                    stands_governed(after)
                    late_words_change_nothing(after, len(seen))
                except (AssertionError, KeyError) as broken:
                    raise Found(f"{broken!r}, by{_told((way, move[0]))}") from broken
                seen.add(form)
                following.append((after, (way, move[0])))
        level, deep = following, deep + 1
    return Seen(config.name, len(seen), steps, deep, not level, process_time() - began)


def _told(way: Way) -> str:
    lines = []
    while way is not None:
        way, name = way
        lines.append(f"\n  {name}")
    return "".join(reversed(lines))
