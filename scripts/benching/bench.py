"""The bench: what every row is given."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripts.benching.floors import Floors
from scripts.benching.own_bus import OwnBus


@dataclass
class Bench:
    """Args: folder: scratch. quick: fewer and shorter rounds, for looking whether it works. say: progress, a line."""

    folder: Path
    floors: Floors
    quick: bool
    say: Callable[[str], None] = lambda text: None
    _homes: int = field(default=0)

    @property
    def rounds(self) -> int:
        return 2 if self.quick else 7

    @property
    def seconds(self) -> float:
        return 0.3 if self.quick else 2.0

    @contextmanager
    def bus(self, configuration: str = "") -> Iterator[OwnBus]:
        """A new bus, that ends with the block."""
        with OwnBus(self.new_home(), configuration) as bus:
            yield bus

    def new_home(self) -> Path:
        self._homes += 1
        return self.folder / f"bus{self._homes}"


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The median of each figure over the rounds."""
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
