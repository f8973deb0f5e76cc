"""A result: one row of the table, with its floor, its target, and whether that is reached."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Target:
    """What is promised.

    Args:
        limit: in the row's unit, or a ratio.
        of: "ratio" or "measured".
        at_most: False: at least.
        words: for people.
    """

    limit: float
    of: str
    at_most: bool
    words: str


@dataclass(frozen=True)
class Row:
    """One measurement.

    Args:
        name: for `--rows`. what: for people. unit: of `measured` and `floor`.
        floor: what the same would cost with nothing of ours in it, in this run; None: there is no such thing.
        floor_is: what that is made of.
        ratio: measured / floor, or as the row says.
        also: further figures, name → number or words.
        failed: why nothing was measured; then the figures are nought.
    """

    name: str
    what: str
    measured: float = 0.0
    unit: str = ""
    floor: float | None = None
    floor_is: str = ""
    ratio: float | None = None
    target: Target | None = None
    also: dict[str, float | str] = field(default_factory=dict)
    failed: str = ""

    @property
    def reached(self) -> bool | None:
        """None where nothing is promised, or nothing was measured."""
        value = self._value()
        if self.target is None or value is None:
            return None
        return value <= self.target.limit if self.target.at_most else value >= self.target.limit

    @property
    def verdict(self) -> str:
        """Reached, or by how much not."""
        value = self._value()
        if self.failed:
            return "not measured"
        if self.target is None or value is None:
            return ""
        if self.reached:
            return "reached"
        if self.target.at_most:
            return f"{value / self.target.limit:.2f} × the limit" if self.target.limit else f"{value:.2g} too many"
        return f"{100 * (1 - value / self.target.limit):.0f} % short"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "reached": self.reached, "verdict": self.verdict}

    def _value(self) -> float | None:
        if self.failed or self.target is None:
            return None
        return self.ratio if self.target.of == "ratio" else self.measured
