"""`bus stats`: how well it goes in this repository, as numbers."""

from collections.abc import Iterator
from typing import Any

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_out


def command(
    prometheus: bool = typer.Option(False, "--prometheus", help="As Prometheus reads it, text format 0.0.4."),
) -> int:
    """Conflicts that happened all the same, waits, queues, how leases ended, and what verifications found."""
    from interlock.adapters.cli.output import say_json, say_table

    if prometheus and Given.options.json:
        raise Failure(64, "--prometheus is no JSON: say one of the two")
    stats = stats_here()
    if prometheus:
        from interlock.adapters.cli.prometheus import exposition

        say_out(exposition(stats).removesuffix("\n"))
    elif Given.options.json:
        say_json(stats)
    else:
        say_table(["WHAT", "HOW IT IS"], [list(row) for row in rows_of(stats)])
    return 0


def stats_here() -> dict[str, Any]:
    """The numbers of the current directory's repository, and how many wait at each resource."""
    from interlock.adapters.cli.asking import ask_supervisor, current_directory
    from interlock.adapters.cli.connection import Connection

    directory = current_directory()
    with Connection(Given.options) as connection:
        document = ask_supervisor(connection, {"type": "TERRITORY", "directory": directory})["map"]
        resources = ask_supervisor(connection, {"type": "STATUS"})["resources"]
    return {
        "territory": document["territory"],
        "repository": document["repository"],
        "at": document["at"],
        "in_force": len(document["leases"]) + document.get("more", 0),
        "depth": document["depth"],
        **document["stats"],
        "resources": [
            {"resource": each["resource"], "holders": len(each["holders"]), "depth": len(each["queue"])}
            for each in resources
        ],
    }


def rows_of(stats: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The same in words."""
    from interlock.protocol.visible import unhidden

    yield "repository", unhidden(stats["repository"])
    checked, conflicting = stats["pairs_checked"], stats["pairs_conflicting"]
    rate = f" ({100 * conflicting / checked:.2f} %)" if checked else ": nothing was verified yet, see bus verify"
    yield "residual conflicts", f"{conflicting} of {checked} pairs of commit and path{rate}"
    yield "verifications", f"{stats['verified']['ok']} ok, {stats['verified']['failed']} with violations"
    causes = ", ".join(f"{number} {unhidden(cause)}" for cause, number in sorted(stats["violations"].items()))
    yield "violations", causes or "none"
    yield "leases", f"{stats['in_force']} in force, {stats['depth']} waiting"
    yield (
        "waits",
        f"half took at most {_seconds(stats['wait_p50_ms'])}, 95 of 100 at most {_seconds(stats['wait_p95_ms'])}",
    )
    yield "so far", ", ".join(f"{stats[name]} {name.replace('_', ' ')}" for name in COUNTED)
    yield "commits", f"{stats['commits']} of which it is known whose they are"
    queues = [f"{each['depth']} at {each['resource']}" for each in stats["resources"] if each["depth"]]
    yield "queues", ", ".join(queues) or "nobody waits for a resource"


COUNTED = ("acquired", "queued", "renewed", "released", "expired", "lost", "given_up")


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f}s" if ms < 60_000 else f"{ms / 60_000:.1f}m"
