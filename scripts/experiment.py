"""Many processes try to reserve one thing at once: by exclusive creation of a file, and by the bus, side by side.

scripts/experiment                              2, 8 and 64 processes, 1,000 rounds each, with kills: some minutes
scripts/experiment --rounds 100 --processes 8   fewer
scripts/experiment --json FILE --page           write the results; write docs/experiment.md
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from string import Template

import msgspec
from scripts.benching.machine import describe
from scripts.experimenting.rounds import KILLS_EVERY, STUCK_S, Kind, Row, series

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "experiment.md"


class Results(msgspec.Struct):
    """Of one run. Args: machine: as it was before."""

    machine: dict[str, str]
    rows: list[Row]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/experiment", description="Reservations by a file and by the bus.")
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 8, 64], help="how many at once (2 8 64)")
    parser.add_argument("--rounds", type=int, default=1_000, help="of each series (1000)")
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--from", dest="source", metavar="FILE", help="results of --json, nothing is run")
    parser.add_argument("--page", action="store_true", help="write docs/experiment.md")
    given = parser.parse_args(arguments)
    if given.source:
        results = msgspec.json.decode(Path(given.source).read_bytes(), type=Results)
    else:
        machine = describe(Path(tempfile.gettempdir()))
        rows = [_series("file", 2, 20, kills=False)]  # the original: twenty rounds of two, and nobody dies
        for processes in given.processes:
            rows += [_series(kind, processes, given.rounds) for kind in ("file", "bus")]
        results = Results(machine, rows)
    print(table(results.rows))
    if given.json:
        Path(given.json).write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    if given.page:
        PAGE.write_text(page(results))
    of_bus = [row for row in results.rows if row.kind == "bus"]
    return 0 if all(row.one_winner == row.matches == row.rounds and not row.stuck for row in of_bus) else 1


def _series(kind: Kind, processes: int, rounds: int, *, kills: bool = True) -> Row:
    with tempfile.TemporaryDirectory(prefix="ilk-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        row = series(kind, processes, rounds, Path(os.path.realpath(folder)), kills=kills)
    print(f"{kind}, {processes} processes: {rounds} rounds in {row.took_s:.0f} s", file=sys.stderr)
    return row


def table(rows: Sequence[Row]) -> str:
    """As Markdown."""
    lines = [
        "| reservation by | processes | rounds | one winner | none | several | the record names it | killed "
        "| stuck after a kill | free again after |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        freed = f"{row.freed_ms[0]:.0f} ms ({row.freed_ms[1]:.0f})" if row.freed_ms else "never" if row.kills else "-"
        lines.append(
            f"| {row.kind} | {row.processes} | {row.rounds:,} | {row.one_winner:,} | {row.no_winner} | "
            f"{row.more_winners} | {row.matches:,} | {row.kills} | {row.stuck} | {freed} |"
        )
    return "\n".join(lines)


def page(results: Results) -> str:
    """docs/experiment.md."""
    machine = ", ".join(f"{name} {value}" for name, value in results.machine.items() if value)
    template = Template((ROOT / "scripts" / "experimenting" / "page.template.md").read_text())
    return template.substitute(
        table=table(results.rows), machine=f"The machine: {machine}.", kills_every=KILLS_EVERY, stuck_s=f"{STUCK_S:.0f}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
