"""The catalogue: every row by its name, in the order of the table."""

from collections.abc import Callable, Sequence

from scripts.benching.bench import Bench
from scripts.benching.result import Row
from scripts.benching.rows import (
    at_rest,
    gated_command,
    growth,
    kill,
    latency,
    leases,
    one_lock,
    restart,
    server_handover,
    throughput,
    whole_process,
)

ROWS: dict[str, Callable[[Bench], list[Row]]] = {
    "one-client": latency.measure,
    "pairs": throughput.measure,
    "one-lock": one_lock.measure,
    "server": server_handover.measure,
    "kill": kill.measure,
    "send": whole_process.measure,
    "run": gated_command.measure,
    "growth": growth.measure,
    "leases": leases.measure,
    "restart": restart.measure,
    "rest": at_rest.measure,
}


def measured(name: str, measure: Callable[[], Sequence[Row]]) -> list[Row]:
    """The rows of one measurement; where it fails, a row that says why: the others are still worth their while."""
    try:
        return list(measure())
    except Exception as error:
        return [Row(name, f"{name}: failed", failed=f"{type(error).__name__}: {error}"[:300])]
