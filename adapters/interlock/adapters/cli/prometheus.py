"""What `bus stats` knows as Prometheus reads it: text format 0.0.4. Pure.

Counters count since the bus knows the repository, over restarts; times are seconds; what nobody can know is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Labels = Mapping[str, str]
COUNTERS = {  # a number of `bus stats` → a counter, and what it counts
    "acquired": ("interlock_leases_acquired_total", "Leases that were granted."),
    "queued": ("interlock_leases_queued_total", "Leases that had to wait before they were granted or given up."),
    "renewed": ("interlock_leases_renewed_total", "Renewals of leases."),
    "expired": ("interlock_leases_expired_total", "Leases that nobody renewed in time."),
    "released": ("interlock_leases_released_total", "Leases that their agents gave back."),
    "lost": (
        "interlock_leases_lost_total",
        "Leases whose agent or process ended, or that were taken from their agent.",
    ),
    "given_up": ("interlock_leases_given_up_total", "Leases that were waited for in vain."),
    "commits": ("interlock_commits_total", "Commits of which hooks said whose they are."),
    "pairs_checked": ("interlock_pairs_checked_total", "Pairs of commit and path that were verified."),
    "pairs_conflicting": ("interlock_pairs_conflicting_total", "Of these, the pairs whose path another agent held."),
}


class Family(NamedTuple):
    """One metric. Args: kind: counter or gauge. samples: labels and value of each."""

    name: str
    kind: str
    meaning: str
    samples: Sequence[tuple[Labels, float]]


def exposition(stats: dict[str, Any]) -> str:
    """The whole text, with a newline at its end. Args: stats: as `bus stats --json` prints them."""
    return "".join(f"{line}\n" for family in families(stats) for line in _lines(family))


def families(stats: dict[str, Any]) -> Iterator[Family]:
    """Every metric that there is something to say of."""
    here = {"repository": stats["repository"]}
    yield Family("interlock_leases", "gauge", "Leases in force.", [(here, stats["in_force"])])
    yield Family("interlock_leases_waiting", "gauge", "Leases that are waited for.", [(here, stats["depth"])])
    for field, (name, meaning) in COUNTERS.items():
        yield Family(name, "counter", meaning, [(here, stats[field])])
    for part in ("p50", "p95"):
        meaning = f"How long the last leases that had to wait took, {part[1:]} of 100 at most."
        seconds = stats[f"wait_{part}_ms"] / 1000
        yield Family(f"interlock_lease_wait_{part}_seconds", "gauge", meaning, [(here, seconds)])
    if stats["residual_conflict_rate"] is not None:
        meaning = "Conflicting pairs that happened all the same, of all pairs that were verified."
        yield Family("interlock_residual_conflict_ratio", "gauge", meaning, [(here, stats["residual_conflict_rate"])])
    outcomes = [({**here, "outcome": outcome}, number) for outcome, number in sorted(stats["verified"].items())]
    yield Family("interlock_verifications_total", "counter", "Verifications, by their outcome.", outcomes)
    causes = [({**here, "cause": cause}, number) for cause, number in sorted(stats["violations"].items())]
    yield Family("interlock_violations_total", "counter", "Violations that verifications found, by cause.", causes)
    waiting = [({"resource": each["resource"]}, each["depth"]) for each in stats["resources"]]
    yield Family("interlock_resource_waiting", "gauge", "Agents that wait for a resource.", waiting)
    holding = [({"resource": each["resource"]}, each["holders"]) for each in stats["resources"]]
    yield Family("interlock_resource_holders", "gauge", "Agents that have a resource, or a unit of it.", holding)


# --- straight helpers ---------------------------------------------------------------------
def _lines(family: Family) -> Iterator[str]:
    if not family.samples:
        return
    meaning = family.meaning.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {family.name} {meaning}"
    yield f"# TYPE {family.name} {family.kind}"
    for labels, value in family.samples:
        said = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield f"{family.name}{{{said}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
