"""A keeper's orders: the one line of JSON that its parent sends first."""

from typing import NamedTuple


class Spec(NamedTuple):
    """The parent's one line of JSON; see `launches.LaunchSpec`."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    result: str
    launch: str
    stop_timeout_ms: int
    attached: bool
    log: str = ""
    spare: tuple[list[str], ...] = ()

    def resource(self) -> str:
        """What it runs for: where the database is lost, only the report can tell."""
        return self.env.get("BUS_RESOURCE", "")

    def unit(self) -> "str | None":
        """Of which unit of it; None where nobody said."""
        return self.env.get("BUS_UNIT")
