"""The page: docs/performance.md and its picture, from one run.

Nothing in it is written by hand but what a row means, and that stands in the template.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.benching.chart import draw, panels
from scripts.benching.result import Row, Target
from scripts.benching.rows.against import OTHERS
from scripts.benching.table import figure

DOCS = Path(__file__).parents[2] / "docs"
TEMPLATE = Path(__file__).with_name("page.template.md")
BUS_CPU = "the bus's, µs"
PAGE, PICTURE = "performance.md", "performance.svg"


def row_of(found: dict[str, Any]) -> Row:
    """A row of `--json`, read again."""
    fields = {name: value for name, value in found.items() if name not in {"reached", "verdict"}}
    target = fields.pop("target")
    return Row(**fields, target=Target(**target) if target else None)


def write(machine: dict[str, str], rows: Sequence[Row], docs: Path = DOCS) -> list[Path]:
    """Returns what was written."""
    drawn = panels(rows)
    caption = f"{machine['processor']}, {machine['cores']} cores, {machine['file system']}, {machine['date']}"
    written = [docs / PAGE]
    if drawn:
        written.append(docs / PICTURE)
        (docs / PICTURE).write_text(draw(drawn, caption))
    (docs / PAGE).write_text(page(machine, rows, has_picture=bool(drawn)))
    return written


def page(machine: dict[str, str], rows: Sequence[Row], *, has_picture: bool) -> str:
    """The whole page."""
    ours = [row for row in rows if not row.name.startswith("against-")]
    theirs = [row for row in rows if row.name.startswith("against-")]
    growth = [row for row in ours if row.name.startswith(("growth-", "restart-", "memory"))]
    blanks = {
        "machine": _machine(machine), "rows": table([row for row in ours if row not in growth]),
        "growth": table(growth),
        "picture": f"![Growth: grant latency, memory, restart]({PICTURE})\n" if has_picture else "",
        "others": _others(theirs), "counted": _also(ours),
    }  # fmt: skip
    for name, other in OTHERS.items():
        blanks |= {f"{name} operation": other.OPERATION, f"{name} install": other.INSTALL}
    return re.sub(r"\{\{(.+?)\}\}", lambda blank: blanks[blank[1]], TEMPLATE.read_text())


def table(rows: Sequence[Row]) -> str:
    """Rows with their targets, as Markdown."""
    lines = ["| what | measured | floor | ratio | target | |", "|---|---:|---:|---:|---|---|"]
    for row in rows:
        if row.failed:
            lines.append(f"| {row.what} | | | | | not measured: {row.failed} |")
            continue
        ratio = f"{figure(row.ratio)} ×" if row.ratio is not None else ""
        target = row.target.words if row.target else ""
        verdict = f"**{row.verdict}**" if row.verdict and not row.reached else row.verdict
        cells = [row.what, figure(row.measured, row.unit), figure(row.floor, row.unit), ratio, target, verdict]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _machine(machine: dict[str, str]) -> str:
    return "| the machine | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in machine.items())


def _others(rows: Sequence[Row]) -> str:
    if not rows:
        return "Nobody was asked in this run: `scripts/bench --against redis,postgres,etcd,nats`.\n"
    lines = ["| | pairs/s | the bus, in turn with it | ratio | CPU a pair, it and the bus | target | |"]
    lines.append("|---|---:|---:|---:|---:|---|---|")
    for row in rows:
        name = OTHERS[row.name.removeprefix("against-")].NAME
        if row.failed:
            lines.append(f"| {name} | | | | | | {row.failed} |")
            continue
        cpu = f"{figure(float(row.also['its CPU a pair, µs']))} and {figure(float(row.also[BUS_CPU]))} µs"
        verdict = f"**{row.verdict}**" if row.verdict and not row.reached else row.verdict
        lines.append(
            f"| {name} | {figure(row.floor)} | {figure(row.measured)} | {figure(row.ratio)} × | {cpu} | "
            f"{row.target.words if row.target else ''} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def _also(rows: Sequence[Row]) -> str:
    lines = ["| row | what | |", "|---|---|---:|"]
    for row in rows:
        for name, value in row.also.items():
            lines.append(f"| `{row.name}` | {name} | {figure(value) if isinstance(value, float | int) else value} |")
    return "\n".join(lines) + "\n"
