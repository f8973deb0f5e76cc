"""A keeper's orders: the one line of JSON that its parent sends first."""


class Spec:
    """The parent's one line of JSON; see `launches.LaunchSpec`. Raises TypeError where a field is missing."""

    def __init__(
        self,
        argv: list[str],
        cwd: str,
        env: dict[str, str],
        result: str,
        launch: str,
        stop_timeout_ms: int,
        attached: bool,
        log: str = "",
        spare: tuple[list[str], ...] = (),
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = env
        self.result = result
        self.launch = launch
        self.stop_timeout_ms = stop_timeout_ms
        self.attached = attached
        self.log = log
        self.spare = spare

    def resource(self) -> str:
        """What it runs for: where the database is lost, only the report can tell."""
        return self.env.get("BUS_RESOURCE", "")

    def unit(self) -> "str | None":
        """Of which unit of it; None where nobody said."""
        return self.env.get("BUS_UNIT")
